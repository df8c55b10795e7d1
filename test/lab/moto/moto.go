// Package moto runs moto's server, an independent implementation of the EC2
// API (and SSM, STS, S3), with the rules of EC2 that it does not have itself.
// Those rules, in the embedded Python under strict/, are ours, written after
// AWS's documentation: what passes here has passed our reading of it, not AWS.
package moto

import (
	"archive/zip"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

//go:embed strict/*.py
var strict embed.FS

const (
	// defaultDelay is how long a held state lasts where nothing boots.
	defaultDelay = 200 * time.Millisecond
	// startTimeout bounds loading moto, about 3 s on an idle machine.
	startTimeout = 2 * time.Minute
	// labTimeout bounds one call of the lab's own API.
	labTimeout = 30 * time.Second
)

// Options of a server; the zero value is a server without a hypervisor on a
// free port.
type Options struct {
	// RootFS is the directory of the moto root file system. Empty: it is
	// built into, or taken from, CacheDir (see rootfs.Ensure).
	RootFS   string
	CacheDir string
	// Address to listen on, host:port. Empty: a free port of 127.0.0.1.
	Address string
	// Hypervisor says that states are held until Report; otherwise they
	// change by themselves after Delay (default 200 ms).
	Hypervisor bool
	Delay      time.Duration
	// Log receives the server's output. Nil: it is thrown away.
	Log io.Writer
}

// Server is a running moto.
type Server struct {
	endpoint string
	cmd      *exec.Cmd
	ended    chan struct{}
	err      error // why the process ended; read after ended is closed
	http     *http.Client
}

// Start starts a server and returns when it answers. It needs root (chroot,
// mount namespace). The server ends by Stop, or with this process, however
// that ends; its mounts are in a namespace of its own.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Delay == 0 {
		o.Delay = defaultDelay
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.RootFS == "" {
		dir, err := rootfs.Ensure(ctx, o.CacheDir, o.Log, rootfs.Moto)
		if err != nil {
			return nil, err
		}
		o.RootFS = dir
	}
	// The socket is opened here, so that the port is known and taken at once.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for moto: %w", err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, fmt.Errorf("pass moto's socket: %w", err)
	}
	defer socket.Close()
	s := &Server{
		endpoint: "http://" + listener.Addr().String(),
		ended:    make(chan struct{}),
		http:     &http.Client{Timeout: labTimeout},
	}
	if err := s.launch(o, socket); err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// launch starts Python in a chroot with /proc, in its own mount namespace.
func (s *Server) launch(o Options, socket *os.File) error {
	program, err := packStrict()
	if err != nil {
		return err
	}
	defer program.Close()
	arguments, err := json.Marshal(map[string]any{
		"fd": 3, "hypervisor": o.Hypervisor, "delay": o.Delay.Seconds(),
	})
	if err != nil {
		return err
	}
	// Python runs a zip file given by name; this one has only a descriptor.
	const script = `mount -t proc proc "$1/proc" && exec chroot "$1" /usr/bin/env -i ` +
		`PATH=/usr/bin:/bin HOME=/root PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 ` +
		`AWS_ACCESS_KEY_ID=lab AWS_SECRET_ACCESS_KEY=lab python3 /proc/self/fd/4 "$2"`
	cmd := exec.Command("/bin/sh", "-c", script, "moto", o.RootFS, string(arguments)) //nolint:noctx // Stop ends it
	cmd.Stdout, cmd.Stderr = o.Log, o.Log
	cmd.ExtraFiles = []*os.File{socket, program} // descriptors 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS, // made private by the runtime
		Pdeathsig:    syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	go func() {
		s.err = cmd.Wait()
		close(s.ended)
	}()
	return nil
}

// packStrict puts the embedded Python into an anonymous zip file.
func packStrict() (*os.File, error) {
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	entries, err := strict.ReadDir("strict")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := strict.ReadFile("strict/" + e.Name())
		if err != nil {
			return nil, err
		}
		f, err := w.Create(e.Name())
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("moto-strict", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an anonymous file: %w", err)
	}
	file := os.NewFile(uintptr(fd), "moto-strict")
	if _, err := file.Write(packed.Bytes()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		// Connections queue in the socket's backlog until moto accepts. On a busy machine that may be later than one call waits.
		for {
			_, err := s.World(ctx)
			var late net.Error
			if errors.As(err, &late) && late.Timeout() && ctx.Err() == nil {
				continue
			}
			answered <- err
			return
		}
	}()
	select {
	case err := <-answered:
		if err != nil {
			return fmt.Errorf("wait for moto: %w", err)
		}
		return nil
	case <-s.ended:
		return fmt.Errorf("moto ended while starting: %w", s.err)
	}
}

// Endpoint is the base URL of all its AWS APIs.
func (s *Server) Endpoint() string { return s.endpoint }

// PID of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended is closed when the server's process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Stop ends the server and everything it knew. It may be called twice.
func (s *Server) Stop() error {
	err := s.cmd.Process.Kill()
	<-s.ended
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop moto: %w", err)
	}
	return nil
}
