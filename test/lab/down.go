package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/host"
)

// askLimit is how long the daemon may take to take everything away by itself before it is killed.
const askLimit = stopLimit + 30*time.Second

func downCommand(dir string) *cobra.Command {
	var killed bool
	cmd := &cobra.Command{
		Use: "down", Short: "Take the lab away, whatever is left of it", Args: cobra.NoArgs, PreRunE: requireRoot,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if killed {
				return downKilled(cmd.Context(), dir, cmd.ErrOrStderr())
			}
			return down(cmd.Context(), dir, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&killed, "if-killed", false, "only what a lab has left whose daemon was killed")
	return cmd
}

// downKilled takes away what a killed daemon left. A lab that runs, or that ended by itself, is left alone.
func downKilled(ctx context.Context, dir string, out io.Writer) error {
	if _, err := readStatus(dir, statusFile); errors.Is(err, errNotUp) {
		return nil
	}
	alive, err := host.SignalHolder(dir, 0)
	if err != nil || alive {
		return err
	}
	return down(ctx, dir, out)
}

// down asks the daemon to end, then undoes what is left in the ledger: after a crash, all of it.
func down(ctx context.Context, dir string, out io.Writer) (failure error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(out, "no lab in", dir)
		return nil
	}
	lock, err := endDaemon(ctx, dir, out)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, lock.Release()) }()
	ledger, err := host.OpenLedger(dir)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, ledger.Close()) }()
	var removed []string
	if last, err := readStatus(dir, lastFile); err == nil {
		removed = last.Removed
	}
	entries, err := ledger.Clean(ctx)
	for _, entry := range entries {
		removed = append(removed, entry.String())
	}
	for _, one := range removed {
		fmt.Fprintln(out, "  removed", one)
	}
	if err != nil {
		return fmt.Errorf("some things are left; run it again: %w", err)
	}
	fmt.Fprintf(out, "The lab is down. Logs of its last run: %s\n", filepath.Join(dir, "log"))
	return removeFiles(dir)
}

// endDaemon returns the lock once nobody else has it.
func endDaemon(ctx context.Context, dir string, out io.Writer) (*host.Lock, error) {
	kill := time.Now().Add(askLimit)
	for asked := false; ; {
		lock, err := host.AcquireLock(dir)
		if !errors.Is(err, host.ErrLocked) {
			return lock, err
		}
		overdue := time.Now().After(kill)
		if !asked || overdue {
			signal := unix.SIGTERM
			if overdue {
				signal = unix.SIGKILL
			}
			// A holder that is not found has taken the lock a moment ago: ask again.
			if asked, err = host.SignalHolder(dir, signal); err != nil {
				return nil, fmt.Errorf("end the daemon: %w", err)
			}
			if asked && !overdue {
				fmt.Fprintln(out, "asked the daemon to end")
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// removeFiles removes what the lab keeps for itself, except its lock and logs.
func removeFiles(dir string) error {
	var failures []error
	for _, name := range []string{statusFile, lastFile, "ledger.jsonl", "bin"} {
		failures = append(failures, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(failures...)
}

func statusCommand(dir string) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell what runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now, err := readStatus(dir, statusFile)
			if err != nil {
				return err
			}
			alive, err := host.SignalHolder(dir, 0)
			if err != nil {
				return err
			}
			if !alive {
				return errors.New("the lab's daemon was killed; `make lab-down` takes away what it left")
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "The lab is %s since %s (daemon %d). %s\n", now.Phase,
				time.Since(now.Started).Round(time.Second), now.PID, now.Message)
			if now.Phase != phaseReady && now.Phase != phaseDegraded {
				newProgress(out).steps(now.Steps)
				return nil
			}
			fmt.Fprintln(out, now.usage())
			if now.Control == "" {
				return nil
			}
			return printInstances(cmd.Context(), dir, out)
		},
	}
}
