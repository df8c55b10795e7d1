package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

var (
	// errNotReadable: the server returns nothing of a log.
	errNotReadable = errors.New("the server does not return it: its instance makes the file within a minute of its start, and what is longer than max_allowed_packet cannot be read")
	// errLost: it is not known that the file that was read last was read to its end.
	errLost = errors.New("entries at the end of a file that was set aside may be lost: it is not there any more, or longer than max_allowed_packet")
)

// file follows a log that the instance rotates: name is written to, name.1 is what was set aside.
type file struct {
	name   string
	event  string // under which the performance schema counts writes to it
	format format
	since  time.Time // entries before it are left out, until the first that is not
	// parsing is held while entries are read of what the server returned.
	parsing sync.Locker

	begun    bool
	head     []byte // of the file that was read last
	position int64  // in that file
	pending  []byte // the last entry that was read, which may not be whole
	aside    []byte // the head of the file that had been set aside when reading that one began

	// writes is how many the server had counted when all was read, and idle how often nothing was read since.
	writes uint64
	idle   int
}

// idleLimit is after how many intervals without a counted write a log is read nevertheless: somebody may have switched the counting off.
const idleLimit = 30

// part is what ReadLogFunction returns.
type part struct {
	size       int64
	head, text []byte
}

// read reads the log if the server has written to it: to return a part, the server reads the whole file.
func (f *file) read(ctx context.Context, s *conn.Session, write func(Entry)) (more bool, err error) {
	if !f.begun {
		return false, f.begin(ctx, s)
	}
	var writes uint64
	if err := s.Row(ctx, "SELECT COALESCE(SUM(COUNT_WRITE), 0) FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME = ?", []any{f.event}, &writes); err != nil {
		return false, err
	}
	if writes == f.writes && f.idle > 0 && f.idle < idleLimit {
		f.idle++
		return false, nil
	}
	if more, err = f.follow(ctx, s, write); err != nil || more || len(f.pending) > 0 {
		f.idle = 0
		return more, err
	}
	f.writes, f.idle = writes, 1
	return false, nil
}

// follow reads the next part.
func (f *file) follow(ctx context.Context, s *conn.Session, write func(Entry)) (more bool, err error) {
	current, err := readPart(ctx, s, f.name, f.position)
	if err != nil {
		return false, err
	}
	if f.isIn(current) && f.known() {
		return f.take(current, write), nil
	}
	older, err := readPart(ctx, s, f.name+".1", f.position)
	if err != nil && !errors.Is(err, errNotReadable) {
		return false, err
	}
	return f.afterRotation(current, older, write)
}

// afterRotation takes the next part of two files, of which older is empty where it cannot be read.
func (f *file) afterRotation(current, older part, write func(Entry)) (more bool, err error) {
	fresh := older.size > 0 && !bytes.Equal(older.head, f.aside) // it was set aside since reading began
	switch {
	case fresh && f.isIn(older) && older.size > f.position:
		return f.take(older, write) || current.size > 0, nil
	case fresh && f.isIn(older) && current.size == 0:
		return false, nil // the server may write more: it has not opened the new file yet
	case fresh && f.isIn(older):
		f.turnTo(current, older.head, write)
		return true, nil
	case f.isIn(current):
		return f.take(current, write), nil
	case fresh:
		f.turnTo(older, nil, write) // another one was set aside meanwhile
	default:
		f.turnTo(current, older.head, write)
	}
	return true, errLost
}

// isIn says whether a part may be of the file that was read last.
func (f *file) isIn(p part) bool { return p.size >= f.position && bytes.HasPrefix(p.head, f.head) }

// known says whether the head tells the file from others: what a server writes into a log that it opens is the same in each, but entries
// carry the time in microseconds.
func (f *file) known() bool { return len(f.head) == mysql.LogHeadSize || f.format.start.Match(f.head) }

// turnTo goes on at the beginning of another file. aside is the head of the one that was set aside before it.
func (f *file) turnTo(p part, aside []byte, write func(Entry)) {
	f.parse(f.pending, true, write)
	f.pending, f.head, f.position, f.aside = nil, p.head, 0, aside
}

// begin starts with the last part of the log: of the file that was set aside as long as the new one is empty.
func (f *file) begin(ctx context.Context, s *conn.Session) error {
	const farBehind = 1 << 62 // only the size and the head are wanted
	p, err := readPart(ctx, s, f.name, farBehind)
	if err != nil {
		return err
	}
	older, err := readPart(ctx, s, f.name+".1", farBehind)
	switch {
	case err != nil && !errors.Is(err, errNotReadable):
		return err
	case err == nil && p.size == 0:
		p = older
	default:
		f.aside = older.head
	}
	f.begun, f.head, f.position = true, p.head, max(0, p.size-mysql.LogPartSize)
	return nil
}

// take takes what was read at the position, and says whether there is more.
func (f *file) take(p part, write func(Entry)) (more bool) {
	f.head = p.head
	f.position += int64(len(p.text))
	text := slices.Concat(f.pending, p.text)
	// Nothing new came: what is pending is whole.
	f.pending = f.parse(text, len(p.text) == 0, write)
	return f.position < p.size
}

// parse writes the entries in text and returns what is left.
func (f *file) parse(text []byte, whole bool, write func(Entry)) (left []byte) {
	f.parsing.Lock()
	defer f.parsing.Unlock()
	return bytes.Clone(f.format.entries(text, whole, f.filter(write)))
}

// filter leaves out what is older than the first entry that is to be written.
func (f *file) filter(write func(Entry)) func(Entry) {
	return func(e Entry) {
		if at, err := time.Parse(time.RFC3339Nano, e.Time); !f.since.IsZero() && err == nil && at.Before(f.since) {
			return
		}
		f.since = time.Time{}
		write(e)
	}
}

// readPart reads a part of a file in the folder of logs.
func readPart(ctx context.Context, s *conn.Session, name string, start int64) (part, error) {
	var answer []byte
	err := s.Row(ctx, "SELECT "+mysql.Database+"."+mysql.ReadLogFunction+"(?, ?)", []any{name, start}, &answer)
	if err != nil {
		return part{}, err
	}
	if answer == nil {
		return part{}, errNotReadable
	}
	sizes, content, found := bytes.Cut(answer, []byte("\n"))
	var p part
	var head int
	if _, err := fmt.Sscanf(string(sizes), "%d %d", &p.size, &head); err != nil || !found || head > len(content) {
		return part{}, fmt.Errorf("%s.%s returns %q", mysql.Database, mysql.ReadLogFunction, sizes)
	}
	p.head, p.text = bytes.Clone(content[:head]), content[head:]
	return p, nil
}
