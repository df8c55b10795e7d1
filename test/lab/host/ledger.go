// Package host makes changes to the machine that the lab runs on, and undoes them.
//
// Every change is written to a ledger on disk before it is made, so that it can be undone by another
// process after the owner was killed without warning.
package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"
)

// Kind says what an entry stands for, and so how it is undone.
type Kind string

// The kinds of resource that the ledger knows how to undo.
const (
	// KindProcess is a process (PID, StartTime); undone by SIGTERM, then SIGKILL.
	KindProcess Kind = "process"
	// KindNetNS is a named network namespace (Name); undone by deleting the name. The first one that iproute2
	// makes on a machine also mounts the directory of the names; Value says what that was before.
	KindNetNS Kind = "netns"
	// KindLink is a network interface (Name, in the named namespace NetNS or in the owner's own).
	KindLink Kind = "link"
	// KindMount is a mount point (Path) in the owner's mount namespace; undone by a lazy unmount.
	KindMount Kind = "mount"
	// KindLoop is every loop device whose backing file is Path.
	KindLoop Kind = "loop"
	// KindCgroup is a control group directory (Path); everything in it is killed first.
	KindCgroup Kind = "cgroup"
	// KindDir is a directory with all that is in it (Path); what is mounted below is unmounted first.
	KindDir Kind = "dir"
	// KindFile is one file (Path).
	KindFile Kind = "file"
	// KindSysctl is a file below /proc/sys (Path) whose content was Value.
	KindSysctl Kind = "sysctl"
)

// Entry describes one resource. Which fields count depends on Kind; the others stay empty.
type Entry struct {
	// ID is given by Add, counting from 1.
	ID   uint64 `json:"id"`
	Kind Kind   `json:"kind,omitempty"`
	// Name of a link, of a network namespace, or of a process (for reports only).
	Name  string `json:"name,omitempty"`
	NetNS string `json:"netns,omitempty"`
	Path  string `json:"path,omitempty"`
	Value string `json:"value,omitempty"`
	PID   int    `json:"pid,omitempty"`
	// StartTime is field 22 of /proc/<pid>/stat, in clock ticks since boot. Together with PID it
	// identifies a process for good; a PID alone may be given to another one.
	StartTime uint64 `json:"startTime,omitempty"`
	// Boot is set by Add. After another boot only files are still there, and names may be somebody else's.
	Boot string `json:"boot,omitempty"`
	// Gone marks the entry with this ID as undone; no other field is set then.
	Gone bool `json:"gone,omitempty"`
}

// String names the resource for people.
func (e Entry) String() string {
	switch e.Kind {
	case KindProcess:
		return fmt.Sprintf("process %d (%s)", e.PID, e.Name)
	case KindNetNS:
		return "network namespace " + e.Name
	case KindLink:
		return "link " + e.Name
	case KindMount, KindLoop, KindCgroup, KindDir, KindFile, KindSysctl:
		return string(e.Kind) + " " + e.Path
	default:
		return fmt.Sprintf("%s %d", e.Kind, e.ID)
	}
}

const ledgerFile = "ledger.jsonl"

// Ledger is the list of what was made and is not yet undone, kept in a file. Safe for concurrent use.
// Only the holder of the lab's lock may write to it.
type Ledger struct {
	mu   sync.Mutex
	file *os.File
	path string
	boot string
	next uint64
	live map[uint64]Entry
}

// OpenLedger opens the ledger in dir, and makes dir and the ledger when they are missing.
func OpenLedger(dir string) (*Ledger, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make lab directory: %w", err)
	}
	path := filepath.Join(dir, ledgerFile)
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	l := &Ledger{path: path, boot: boot, next: 1, live: map[uint64]Entry{}}
	whole, err := l.load(content)
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", path, err)
	}
	l.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	// A line that was cut off by a crash stands for a resource that was never made: drop it, or the
	// next line would be glued to it.
	if err := errors.Join(l.file.Truncate(whole), seekEnd(l.file), syncDir(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare ledger: %w", err), l.file.Close())
	}
	return l, nil
}

// load replays the lines and returns the length of the part that is whole.
func (l *Ledger) load(content []byte) (int64, error) {
	reader := bufio.NewReader(bytes.NewReader(content))
	var whole int64
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		var entry Entry
		if err := json.Unmarshal(line, &entry); err != nil {
			return whole, fmt.Errorf("line at byte %d: %w", whole, err)
		}
		whole += int64(len(line))
		if entry.Gone {
			delete(l.live, entry.ID)
			continue
		}
		l.live[entry.ID] = entry
		if entry.ID >= l.next {
			l.next = entry.ID + 1
		}
	}
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, io.SeekEnd)
	return err
}

func syncDir(dir string) error {
	handle, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(handle.Sync(), handle.Close())
}

// Add writes the entry down, on disk when it returns. Call it before the resource is made. It returns ErrForeign
// when a namespace, interface or control group of that name is there already and not in the ledger.
func (l *Ledger) Add(entry Entry) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.knows(entry) {
		found, err := foreign(entry)
		if err == nil && found {
			err = ErrForeign
		}
		if err != nil {
			return 0, fmt.Errorf("make %s: %w", entry, err)
		}
	}
	entry.ID, entry.Gone, entry.Boot = l.next, false, l.boot
	if entry.Kind == KindNetNS {
		var err error
		if entry.Value, err = netNSDirState(); err != nil {
			return 0, fmt.Errorf("make %s: %w", entry, err)
		}
	}
	if err := l.append(entry); err != nil {
		return 0, fmt.Errorf("write %s to the ledger: %w", entry, err)
	}
	l.next++
	l.live[entry.ID] = entry
	return entry.ID, nil
}

// knows says whether an entry of this boot stands for the same resource. The caller holds the mutex.
func (l *Ledger) knows(entry Entry) bool {
	for _, known := range l.live {
		if known.Boot == l.boot && known.Kind == entry.Kind && known.Name == entry.Name &&
			known.NetNS == entry.NetNS && known.Path == entry.Path {
			return true
		}
	}
	return false
}

// undo removes what an entry stands for and says whether it was there.
func (l *Ledger) undo(ctx context.Context, entry Entry) (bool, error) {
	if entry.Boot != l.boot && !entry.Kind.outlivesBoot() {
		return false, nil
	}
	return undo(ctx, entry)
}

// Forget marks the entry as undone, for a resource that is known to be gone.
func (l *Ledger) Forget(id uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, found := l.live[id]; !found {
		return nil
	}
	if err := l.append(Entry{ID: id, Gone: true}); err != nil {
		return fmt.Errorf("mark entry %d in the ledger: %w", id, err)
	}
	delete(l.live, id)
	return nil
}

// append writes one line and waits for the disk. The caller holds the mutex.
func (l *Ledger) append(entry Entry) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

// Entries returns what is not yet undone, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := make([]Entry, 0, len(l.live))
	for _, entry := range l.live {
		entries = append(entries, entry)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].ID < entries[j].ID })
	return entries
}

// Undo undoes one entry now. Unknown and already undone ids are no error.
func (l *Ledger) Undo(ctx context.Context, id uint64) error {
	l.mu.Lock()
	entry, found := l.live[id]
	l.mu.Unlock()
	if !found {
		return nil
	}
	if _, err := l.undo(ctx, entry); err != nil {
		return fmt.Errorf("undo %s: %w", entry, err)
	}
	return l.Forget(id)
}

// Clean undoes everything, newest first, and returns what was really there. It goes on after an error;
// what could not be undone stays in the ledger, so that Clean can be called again. When all is undone
// the ledger's file is emptied.
func (l *Ledger) Clean(ctx context.Context) ([]Entry, error) {
	var removed []Entry
	var failed []error
	entries := l.Entries()
	for i := len(entries) - 1; i >= 0; i-- {
		was, err := l.undo(ctx, entries[i])
		if err != nil {
			failed = append(failed, fmt.Errorf("undo %s: %w", entries[i], err))
			continue
		}
		if was {
			removed = append(removed, entries[i])
		}
		if err := l.Forget(entries[i].ID); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return removed, errors.Join(failed...)
	}
	return removed, l.empty()
}

func (l *Ledger) empty() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.live) > 0 {
		return nil
	}
	if err := errors.Join(l.file.Truncate(0), seekEnd(l.file), l.file.Sync()); err != nil {
		return fmt.Errorf("empty the ledger: %w", err)
	}
	return nil
}

// Close closes the file; it undoes nothing.
func (l *Ledger) Close() error {
	return l.file.Close()
}
