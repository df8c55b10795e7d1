package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another process holds the lab's lock")

const lockFile = "lock"

// Lock is held by the one process that may change the ledger. The kernel releases it when that process ends.
type Lock struct{ file *os.File }

// AcquireLock takes the lock of the lab in dir without waiting. It returns ErrLocked when it is taken.
func AcquireLock(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make lab directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(err, file.Close())
	}
	if err := writeHolder(file); err != nil {
		return nil, errors.Join(fmt.Errorf("write lock: %w", err), file.Close())
	}
	return &Lock{file: file}, nil
}

// writeHolder says in the file who holds the lock.
func writeHolder(file *os.File) error {
	start, err := StartTime(os.Getpid())
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), start), 0)
	return err
}

// SignalHolder sends a signal to the process that took the lock of the lab in dir. It says false when that process
// has ended.
func SignalHolder(dir string, signal unix.Signal) (bool, error) {
	content, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return removed(err)
	}
	var pid int
	var start uint64
	if _, err := fmt.Sscan(string(content), &pid, &start); err != nil {
		return false, nil // taken a moment ago, and not yet signed
	}
	handle, found, err := openProcess(pid, start)
	if err != nil || !found {
		return false, err
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("send %s to process %d: %w", unix.SignalName(signal), pid, err)
	}
	return true, nil
}

// Release gives the lock back.
func (l *Lock) Release() error {
	return l.file.Close()
}
