package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Attended is a program that ends with this process, however that ends.
type Attended struct {
	process *os.Process
	ended   chan struct{}
	log     string
}

// Attend starts a program with its output in a file.
func Attend(program *exec.Cmd, log string) (*Attended, error) {
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	program.Stdout, program.Stderr = output, output
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		return nil, err
	}
	a := &Attended{process: program.Process, ended: make(chan struct{}), log: log}
	go func() {
		_ = program.Wait() // it is killed in the end, or its log says why
		close(a.ended)
	}()
	return a, nil
}

// Await returns when the program is ready. Where it ends, or is not ready in time, the error has its output.
func (a *Attended) Await(ctx context.Context, limit time.Duration, ready func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !ready(ctx) {
		select {
		case <-a.ended:
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
			continue
		}
		said, _ := os.ReadFile(a.log)
		return fmt.Errorf("it does not get ready: %s", said)
	}
	return nil
}

// Kill ends the program, if it has not ended.
func (a *Attended) Kill() {
	_ = a.process.Kill() // it may have ended
	<-a.ended
}
