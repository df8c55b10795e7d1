package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec says how to start a process.
type Spec struct {
	// Name of the program: a path, or looked up in the owner's PATH.
	Name string
	Args []string
	// Env is the whole environment; nil means the owner's.
	Env []string
	Dir string
	// LogFile gets standard output and error, appended; empty means Stdout and Stderr below.
	LogFile               string
	Stdin, Stdout, Stderr *os.File
	// ExtraFiles become file descriptors 3 and up; at most six.
	ExtraFiles []*os.File
	// NetNS runs it in this named network namespace.
	NetNS string
	// NSPid runs it in the network and mount namespaces of this process.
	NSPid int
	// Cgroups are directories of control groups that it joins before its program starts.
	Cgroups []string
	// SysProcAttr replaces the default (a session of its own).
	SysProcAttr *syscall.SysProcAttr
}

// Process is a running child that stands in the ledger.
type Process struct {
	PID  int
	Name string

	ledger *Ledger
	entry  uint64
	done   chan struct{}
	mu     sync.Mutex
	state  *os.ProcessState
}

// maxGate is the highest descriptor that a POSIX shell must be able to read from.
const maxGate = 9

// gateScript keeps a new process from doing anything until its PID stands in the ledger: it waits for one
// line on descriptor $0, and gives up when the owner dies before. The program then takes over the same PID.
const gateScript = `eval "read -r go <&$0" || exit 1; eval "exec $0<&-"; exec "$@"`

// StartProcess starts a process and enters it in the ledger; it does not run on unknown to the ledger even if
// the owner is killed in between. It ends with Stop, or by Clean.
func (l *Ledger) StartProcess(ctx context.Context, spec Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	process, err := l.startProcess(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return process, nil
}

func (l *Ledger) startProcess(spec Spec) (*Process, error) {
	gate, gateEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	defer gateEnd.Close()
	cmd, logFile, err := spec.command(gate)
	if err != nil {
		return nil, err
	}
	if logFile != nil {
		defer logFile.Close()
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	process := &Process{PID: cmd.Process.Pid, Name: spec.Name, ledger: l, done: make(chan struct{})}
	if err := process.admit(spec, gateEnd); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	go process.wait(cmd)
	return process, nil
}

// command puts the gate, and nsenter where asked for, in front of the program.
func (s Spec) command(gate *os.File) (*exec.Cmd, *os.File, error) {
	gateFD := 3 + len(s.ExtraFiles)
	if gateFD > maxGate {
		return nil, nil, fmt.Errorf("%d extra files are too many", len(s.ExtraFiles))
	}
	program, err := exec.LookPath(s.Name)
	if err != nil && s.NSPid == 0 { // inside another mount namespace the program may be visible only there
		return nil, nil, err
	}
	if err != nil {
		program = s.Name
	}
	args := append([]string{"-c", gateScript, strconv.Itoa(gateFD)}, nsenter(s.NSPid, s.NetNS)...)
	args = append(append(args, program), s.Args...)
	cmd := exec.Command("/bin/sh", args...) //nolint:noctx // it outlives the call; Stop and Clean end it
	cmd.Env, cmd.Dir = s.Env, s.Dir
	cmd.ExtraFiles = append(append([]*os.File{}, s.ExtraFiles...), gate)
	cmd.SysProcAttr = s.SysProcAttr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if s.Stdin != nil {
		cmd.Stdin = s.Stdin
	}
	if s.LogFile == "" {
		setOutput(cmd, s.Stdout, s.Stderr)
		return cmd, nil, nil
	}
	logFile, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	setOutput(cmd, logFile, logFile)
	return cmd, logFile, nil
}

// setOutput keeps nil files out of the interfaces, where they would not compare as nil.
func setOutput(cmd *exec.Cmd, stdout, stderr *os.File) {
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
}

// nsenter returns the words that put a command into the namespaces; none when there is nothing to enter.
func nsenter(pid int, netNS string) []string {
	switch {
	case pid != 0 && netNS != "":
		return []string{"nsenter", "-t", strconv.Itoa(pid), "-m", "--net=" + netNSDir + "/" + netNS, "--"}
	case pid != 0:
		return []string{"nsenter", "-t", strconv.Itoa(pid), "-n", "-m", "--"}
	case netNS != "":
		return []string{"nsenter", "--net=" + netNSDir + "/" + netNS, "--"}
	default:
		return nil
	}
}

// admit writes the process to the ledger, moves it to its control groups and opens the gate.
func (p *Process) admit(spec Spec, gate io.Writer) error {
	start, err := StartTime(p.PID)
	if err != nil {
		return err
	}
	p.entry, err = p.ledger.Add(Entry{Kind: KindProcess, Name: spec.Name, PID: p.PID, StartTime: start})
	if err != nil {
		return err
	}
	for _, group := range spec.Cgroups {
		if err := JoinCgroup(group, p.PID); err != nil {
			return err
		}
	}
	_, err = io.WriteString(gate, "go\n")
	return err
}

func (p *Process) wait(cmd *exec.Cmd) {
	err := ignoreExit(cmd.Wait())
	p.mu.Lock()
	p.state = cmd.ProcessState
	p.mu.Unlock()
	if err == nil {
		// An entry that stays behind is harmless: Clean compares the start time.
		_ = p.ledger.Forget(p.entry)
	}
	close(p.done)
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// State is nil while the process runs; afterwards it holds the exit code or signal.
func (p *Process) State() *os.ProcessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", signal, p.Name, err)
	}
	return nil
}

// Stop sends SIGTERM, after grace SIGKILL, and waits for the end.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killGrace}} {
		if err := p.Signal(step.signal); err != nil {
			return err
		}
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step.wait):
		}
	}
	return fmt.Errorf("%s (pid %d) survived SIGKILL for %s", p.Name, p.PID, killGrace)
}

// StartTime returns field 22 of /proc/<pid>/stat: clock ticks between boot and the process's start.
func StartTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command's name may hold spaces and parentheses; it ends at the last closing one.
	_, rest, found := cutLast(string(content), ")")
	fields := strings.Fields(rest)
	const startField = 22 - 3 // the first field after the name is number 3
	if !found || len(fields) <= startField {
		return 0, fmt.Errorf("cannot read the start time of process %d", pid)
	}
	return strconv.ParseUint(fields[startField], 10, 64)
}

func cutLast(text, separator string) (string, string, bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// openProcess returns a handle on exactly the process that was started at start; it keeps meaning that one
// when the number is reused.
func openProcess(pid int, start uint64) (handle int, found bool, err error) {
	if pid <= 1 || start == 0 {
		return -1, false, fmt.Errorf("entry names no process (pid %d, start %d)", pid, start)
	}
	handle, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return -1, false, nil // gone, or the number now belongs to a thread
	}
	if err != nil {
		return -1, false, fmt.Errorf("open process %d: %w", pid, err)
	}
	// One that has ended but is not yet buried by its parent is as good as gone.
	if now, err := StartTime(pid); err == nil && now == start && !exited(handle) {
		return handle, true, nil
	}
	return -1, false, unix.Close(handle)
}

// stopProcess sends SIGTERM and, when that does not help, SIGKILL to a process that may not be our child.
func stopProcess(ctx context.Context, handle int, grace time.Duration) error {
	for _, step := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, killGrace}} {
		if err := unix.PidfdSendSignal(handle, step.signal, nil, 0); err != nil {
			if errors.Is(err, unix.ESRCH) {
				return nil
			}
			return err
		}
		err := until(ctx, step.wait, func() (bool, error) { return exited(handle), nil })
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New("still there after SIGKILL")
}

// exited says whether the process behind the handle has ended (a zombie has).
func exited(handle int) bool {
	poll := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}
