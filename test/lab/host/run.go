package host

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// outputGrace bounds the wait for a grandchild that keeps the output open after the command has ended.
const outputGrace = 2 * time.Second

// Run runs a command to its end and returns what it printed (standard output and error together, without
// the spaces around). The error holds the command and the output.
func Run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = outputGrace
	output, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return text, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// RunInPid is Run inside the network and mount namespaces of a process.
func RunInPid(ctx context.Context, pid int, name string, args ...string) (string, error) {
	words := append(append(nsenter(pid, ""), name), args...)
	return Run(ctx, words[0], words[1:]...)
}

// RunInNetNS is Run inside a named network namespace.
func RunInNetNS(ctx context.Context, netNS, name string, args ...string) (string, error) {
	words := append(append(nsenter(0, netNS), name), args...)
	return Run(ctx, words[0], words[1:]...)
}
