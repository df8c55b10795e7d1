package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// kubeFaults are the faults of the Kubernetes side, offered by the same control API as those of instances. They name a
// program of the control plane or of the node, or a pod by its UID.
func (d *daemon) kubeFaults() []cloud.Fault {
	program := func(signal syscall.Signal) func(context.Context, string) error {
		return func(_ context.Context, name string) error {
			if d.kube == nil {
				return errors.New("this lab has no Kubernetes")
			}
			return d.kube.Signal(name, signal)
		}
	}
	pod := func(signal syscall.Signal) func(context.Context, string) error {
		return func(_ context.Context, uid string) error { return signalPod(uid, signal) }
	}
	return []cloud.Fault{
		{Name: "stop-program", Help: "freeze a program of Kubernetes, for example kube-apiserver", Do: program(syscall.SIGSTOP)},
		{Name: "continue-program", Help: "end stop-program", Do: program(syscall.SIGCONT)},
		{Name: "stop-pod", Help: "freeze the processes of a pod, named by its UID", Do: pod(syscall.SIGSTOP)},
		{Name: "continue-pod", Help: "end stop-pod", Do: pod(syscall.SIGCONT)},
		{Name: "kill-pod", Help: "kill -9 the processes of a pod, named by its UID", Do: pod(syscall.SIGKILL)},
	}
}

// sandboxProgram holds a pod's namespaces. It is spared: without it the pod is made anew with another address, which is
// another fault.
const sandboxProgram = "pause"

// signalPod sends a signal to every process of a pod's containers.
func signalPod(uid string, signal syscall.Signal) error {
	const shortest = 32 // hex digits of a UID: less would match more than one pod
	if len(strings.ReplaceAll(uid, "-", "")) < shortest {
		return fmt.Errorf("%q is no pod's UID", uid)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	found := false
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(groups), "/pod"+uid+"/") {
			continue // it may have ended meanwhile
		}
		name, err := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if err != nil || strings.TrimSpace(string(name)) == sandboxProgram {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %s to process %d of pod %s: %w", signal, pid, uid, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("pod %s has no process here", uid)
	}
	return nil
}
