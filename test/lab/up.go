package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

const (
	// daemonLog is what the daemon prints.
	daemonLog = "daemon.log"
	// upLimit bounds the start when everything is built.
	upLimit = 5 * time.Minute
	// lookEvery is the pause between two looks at the daemon's status.
	lookEvery = 100 * time.Millisecond
)

func upCommand(dir string) *cobra.Command {
	wanted := &parts{}
	return wanted.flags(&cobra.Command{
		Use: "up", Short: "Bring the lab up and wait until all of it is ready", Args: cobra.NoArgs, PreRunE: requireRoot,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), dir, wanted, cmd.ErrOrStderr())
		},
	})
}

// up prepares the programs in the foreground, starts the daemon, and shows its progress. When ctx ends first, it
// makes the daemon take everything away.
func up(ctx context.Context, dir string, wanted *parts, out io.Writer) error {
	began := time.Now()
	running, err := host.SignalHolder(dir, 0)
	if err != nil {
		return err
	}
	var ended <-chan struct{}
	if running {
		ended = holderEnded(ctx, dir)
	} else {
		if err := prepare(ctx, wanted, out); err != nil {
			return err
		}
		if ended, err = startDaemon(dir, wanted); err != nil {
			return fmt.Errorf("start the daemon: %w", err)
		}
	}
	final, err := follow(ctx, dir, ended, out)
	if ctx.Err() != nil && !running {
		fmt.Fprintln(out, "interrupted; taking everything away")
		return errors.Join(errors.New("interrupted"), down(context.WithoutCancel(ctx), dir, out))
	}
	if err != nil {
		return fmt.Errorf("%w (logs: %s)", err, filepath.Join(dir, "log"))
	}
	fmt.Fprintf(out, "The lab is %s after %s.\n%s\n", final.Phase, time.Since(began).Round(time.Second/10), final.usage())
	return nil
}

// prepare builds what is missing while the user can see it.
func prepare(ctx context.Context, wanted *parts, out io.Writer) error {
	cfg, err := build.NewConfig(out)
	if err != nil {
		return err
	}
	if !wanted.noKube {
		if _, err := build.Ensure(ctx, cfg, build.Kubernetes, build.Etcd, build.CoreDNS, build.Node); err != nil {
			return err
		}
	}
	if !wanted.noCloud {
		return prepareCloud(ctx, cfg, out)
	}
	return nil
}

// startDaemon starts this program again as a daemon in a session of its own. The returned channel is closed when it
// ends. The program is copied first: `go run` deletes it as soon as this process ends.
func startDaemon(dir string, wanted *parts) (<-chan struct{}, error) {
	program := filepath.Join(dir, "bin", "lab")
	if err := copySelf(program); err != nil {
		return nil, err
	}
	// What an earlier daemon said, perhaps one that was killed, is not this one's.
	for _, old := range []string{statusFile, lastFile} {
		if err := os.Remove(filepath.Join(dir, old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log", daemonLog))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, append([]string{"daemon"}, wanted.arguments()...)...) //nolint:noctx // it outlives us
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "NAIROBI_LAB="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in lastFile, or in its log
	}()
	return ended, nil
}

// holderEnded returns a channel that is closed when the daemon, which somebody else started, has ended.
func holderEnded(ctx context.Context, dir string) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if found, err := host.SignalHolder(dir, 0); err == nil && !found {
				return
			}
			time.Sleep(lookEvery)
		}
	}()
	return ended
}

func copySelf(target string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if self == target {
		return nil
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	// A new file: writing to one that runs is refused.
	if err := os.WriteFile(target+".new", content, 0o755); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}

// follow shows the steps until the lab is ready, has failed, or ctx ends.
func follow(ctx context.Context, dir string, ended <-chan struct{}, out io.Writer) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, upLimit)
	defer cancel()
	show := newProgress(out)
	defer show.clear()
	for {
		now, err := readStatus(dir, statusFile)
		switch {
		case err == nil && (now.Phase == phaseReady || now.Phase == phaseDegraded):
			show.steps(now.Steps)
			return now, nil
		case err == nil:
			show.steps(now.Steps)
		case !errors.Is(err, errNotUp):
			return now, err
		}
		select {
		case <-ended:
			return afterEnd(dir, show)
		case <-ctx.Done():
			return now, fmt.Errorf("wait for the lab: %w", ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// afterEnd tells why a daemon ended before the lab was ready.
func afterEnd(dir string, show *progress) (status, error) {
	last, err := readStatus(dir, lastFile)
	if errors.Is(err, errNotUp) {
		content, readErr := os.ReadFile(filepath.Join(dir, "log", daemonLog))
		return last, errors.Join(fmt.Errorf("the daemon ended: %s", strings.TrimSpace(string(content))), readErr)
	}
	if err != nil {
		return last, err
	}
	show.steps(last.Steps)
	return last, errors.New(last.Message)
}

// progress prints every step once it is over, and on a terminal the running ones in a line that is overwritten.
type progress struct {
	out      io.Writer
	terminal bool
	printed  map[int]bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, printed: map[int]bool{}}
	if file, ok := out.(*os.File); ok {
		_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
		p.terminal = err == nil
	}
	return p
}

func (p *progress) steps(steps []step) {
	p.clear()
	var running []string
	for index, one := range steps {
		switch {
		case one.State == stepRunning:
			running = append(running, fmt.Sprintf("%s %.0fs", one.Name, time.Since(one.Began).Seconds()))
		case !p.printed[index]:
			p.printed[index] = true
			fmt.Fprintf(p.out, "  %-6s %5.1fs  %s\n", one.State, one.Took.Seconds(), one.Name)
		}
	}
	if p.terminal && len(running) > 0 {
		fmt.Fprintf(p.out, "  ...           %s", strings.Join(running, ", "))
	}
}

// clear removes the line of running steps.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
