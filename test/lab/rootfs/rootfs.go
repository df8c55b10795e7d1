// Package rootfs builds the Debian root file systems that the lab runs its
// EC2 API and its instances in, once per recipe, into a cache directory.
package rootfs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
)

// Ensure returns the directory of the named root file system in cacheDir
// (empty: build.DefaultCacheDir) and builds it when it is not there, which takes
// about a minute and needs root and a Debian mirror. The builders' output goes
// to log. Callers must treat the directory as read-only: it is shared by all
// labs of the machine. Safe against concurrent callers in any process, and
// against being killed half way.
func Ensure(ctx context.Context, cacheDir string, log io.Writer, name string) (string, error) {
	r, ok := recipes[name]
	if !ok {
		return "", fmt.Errorf("unknown root file system %q (known: %s)", name, strings.Join(Names(), ", "))
	}
	if cacheDir == "" {
		var err error
		if cacheDir, err = build.DefaultCacheDir(); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cacheDir, "rootfs-"+name+"-"+r.key())
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cacheDir, "rootfs-"+name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // built by whoever held the lock before us
		return dir, nil
	}
	if err := assemble(ctx, log, r, dir); err != nil {
		return "", fmt.Errorf("build root file system %s: %w", name, err)
	}
	return dir, nil
}

// assemble makes dir from r through a temporary directory beside it, so that dir
// is either absent or complete. The caller holds the lock.
func assemble(ctx context.Context, log io.Writer, r recipe, dir string) error {
	if err := ensureMmdebstrap(ctx, log); err != nil {
		return err
	}
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	args := append(r.arguments(), suite, tmp)
	cmd := command(ctx, log, "mmdebstrap", args...)
	// What mmdebstrap mounts while it works must not stay on the host if it
	// is killed.
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap %s: %w", suite, err)
	}
	if err := r.finish(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// removeLeftovers deletes what builds of the same entry left when they were
// killed.
func removeLeftovers(dir string) error {
	old, err := filepath.Glob(dir + ".tmp-*")
	if err != nil {
		return err
	}
	for _, d := range old {
		if err := os.RemoveAll(d); err != nil {
			return fmt.Errorf("remove the leftover of an earlier build: %w", err)
		}
	}
	return nil
}

// ensureMmdebstrap installs the tool by apt-get when it is missing.
func ensureMmdebstrap(ctx context.Context, log io.Writer) error {
	if _, err := exec.LookPath("mmdebstrap"); err == nil {
		return nil
	}
	install := []string{"install", "-y", "--no-install-recommends", "mmdebstrap"}
	if command(ctx, log, "apt-get", install...).Run() == nil {
		return nil
	}
	// The package lists may be missing or older than the archive.
	if err := command(ctx, log, "apt-get", "update").Run(); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	if err := command(ctx, log, "apt-get", install...).Run(); err != nil {
		return fmt.Errorf("install mmdebstrap: %w", err)
	}
	return nil
}

// command prepares a non-interactive child that dies with this process.
func command(ctx context.Context, log io.Writer, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

// lock takes an exclusive lock on path and waits for it until ctx ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	taken := make(chan error, 1)
	go func() { taken <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err := <-taken:
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return func() { f.Close() }, nil
	case <-ctx.Done():
		// The goroutine ends when the lock is given to it; then it is let go.
		go func() {
			if <-taken == nil {
				_ = f.Close()
			}
		}()
		return nil, fmt.Errorf("wait for another build of the same root file system: %w", ctx.Err())
	}
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

var versionPattern = regexp.MustCompile(`\bVer (\d+\.\d+\.\d+)\b`)

// MySQLVersion asks the mysqld in the instance root file system at dir for its
// version and returns it as x.y.z. It needs root (chroot).
func MySQLVersion(ctx context.Context, dir string) (string, error) {
	var out bytes.Buffer
	cmd := command(ctx, &out, "/usr/sbin/mysqld", "--no-defaults", "--version")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin"}
	cmd.SysProcAttr.Chroot = dir
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ask mysqld for its version: %w: %s", err, out.String())
	}
	m := versionPattern.FindSubmatch(out.Bytes())
	if m == nil {
		return "", fmt.Errorf("mysqld did not say its version: %q", out.String())
	}
	return string(m[1]), nil
}
