package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

var errChildEnded = errors.New("the operator's process ended")

// process is an operator in a process of its own, as its parent sees it.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	figures string        // address
	ended   chan struct{} // closed when it ended; err says why from then on
	err     error
}

// surroundings are the world as a child has to know it.
func (w *world) surroundings(ec2 string) child.Surroundings {
	s := child.Surroundings{EC2: ec2, Members: map[string]string{}}
	if w.kube != nil {
		s.Host, s.CA, s.Certificate, s.Key = w.kube.Host, w.kube.CAData, w.kube.CertData, w.kube.KeyData
	}
	for address, m := range w.fleet.members {
		s.Members[address] = m.listener.Addr().String()
	}
	return s
}

// buildOperator builds the operator's program into a folder, as `make build` does, and returns its path.
func buildOperator(ctx context.Context, folder string) (string, error) {
	path := filepath.Join(folder, "operator")
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./child/operator")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator: %w: %s", err, output)
	}
	return path, nil
}

// startChild runs a program of buildOperator's in a process of its own. It logs to the file given, and ends with ctx or by stop.
func (w *world) startChild(ctx context.Context, program, ec2 string, log *os.File) (*process, error) {
	c := &process{command: exec.CommandContext(ctx, program), ended: make(chan struct{})}
	c.command.Stderr = log
	stdin, err := c.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make the child's input: %w", err)
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the child's output: %w", err)
	}
	c.stdin = stdin
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator's process: %w", err)
	}
	err = json.NewEncoder(stdin).Encode(w.surroundings(ec2))
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		defer close(c.ended)
		_, _ = io.Copy(io.Discard, stdout)
		c.err = c.command.Wait()
	}()
	if err = errors.Join(err, readErr); err != nil {
		return nil, fmt.Errorf("tell the operator's process what there is: %w", errors.Join(err, c.stop()))
	}
	c.figures = strings.TrimSpace(line)
	return c, nil
}

// stop ends the child cleanly and waits for it.
func (c *process) stop() error {
	_ = c.stdin.Close() // the child may be gone
	<-c.ended
	return c.err
}

// alive returns an error once the child ended.
func (c *process) alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("%w: %w", errChildEnded, c.err)
	default:
		return nil
	}
}

// ask reads what the child says at a path.
func (c *process) ask(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.figures+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the operator's process for %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask the operator's process for %s: %s", path, response.Status)
	}
	return body, err
}

// read asks the child for its figures, which also makes it collect its garbage.
func (c *process) read(ctx context.Context) (child.Figures, error) {
	var f child.Figures
	body, err := c.ask(ctx, "/figures")
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(body, &f)
}

// profile writes the child's profiles of heap, goroutines and 20 seconds of CPU time into a folder, for `go tool pprof`.
func (c *process) profile(ctx context.Context, folder string) error {
	for name, path := range map[string]string{
		"heap.pprof": "/debug/pprof/heap", "goroutines.txt": "/debug/pprof/goroutine?debug=1", "cpu.pprof": "/debug/pprof/profile?seconds=20",
		"allocs.pprof": "/debug/pprof/allocs",
	} {
		body, err := c.ask(ctx, path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), body, 0o600); err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
	}
	return nil
}

// usage is what the kernel says that a process uses.
type usage struct {
	cpu time.Duration
	// resident is all of its memory in bytes, anonymous what is not a mapped file: the program itself is one.
	resident, anonymous int64
}

// userHZ is the unit of times in /proc: 100 a second on every Linux that Go runs on (proc(5), sysconf(_SC_CLK_TCK)).
const userHZ = 100

// usageOf reads the usage of a process.
func usageOf(pid int) (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return parseUsage(string(stat), string(status))
}

// parseUsage reads the two files of proc(5).
func parseUsage(stat, status string) (usage, error) {
	const utime, stime = 11, 12 // counted from the field after the name
	var u usage
	// The name is in parentheses and may itself hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return u, fmt.Errorf("not understood: %q", stat)
	}
	for _, i := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the CPU time: %w", err)
		}
		u.cpu += time.Duration(ticks) * time.Second / userHZ
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		kibibytes := strings.TrimSuffix(strings.TrimSpace(value), " kB")
		into := map[string]*int64{"VmRSS": &u.resident, "RssAnon": &u.anonymous}[name]
		if into == nil {
			continue
		}
		n, err := strconv.ParseInt(kibibytes, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the memory: %w", err)
		}
		*into = n << 10
	}
	if u.resident == 0 {
		return u, errors.New("no memory is reported")
	}
	return u, nil
}
