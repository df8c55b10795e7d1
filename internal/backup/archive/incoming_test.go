package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

// gtidOf begins a transaction of a length, its first event included.
func gtidOf(n, length uint64) binlog.Event {
	body := make([]byte, 1+16+8+1+16, 64)
	copy(body[1:], "\x3e\x11\xfa\x47\x71\xca\x11\xe1\x9e\x33\xc8\x0a\xa9\x42\x95\x62")
	binary.LittleEndian.PutUint64(body[17:], n)
	body[25] = 2
	stamp := binary.LittleEndian.AppendUint64(nil, uint64(began.UnixMicro())) //nolint:gosec // positive
	body = append(append(body, stamp[:7]...), 0xfe)
	body = binary.LittleEndian.AppendUint64(body, length)
	return event(33, binary.LittleEndian.AppendUint32(body, 90704))
}

// come has events come as a stream brings them, in pieces.
func come(t *testing.T, in *incoming, piece int, events ...binlog.Event) error {
	t.Helper()
	for _, e := range events {
		in.begin()
		for len(e) > 0 {
			n := min(piece, len(e))
			if _, err := in.Write(e[:n]); err != nil {
				return err
			}
			e = e[n:]
		}
		if err := in.end(t.Context()); err != nil {
			return err
		}
	}
	return nil
}

// TestALargeEventPassesThrough: it is written as it comes, however it is cut into pieces, and its checksum is looked at.
func TestALargeEventPassesThrough(t *testing.T) {
	large := event(30, bytes.Repeat([]byte("0123456789"), binlog.WholeEvent/10+100))
	end := event(16, make([]byte, 8))
	first := gtidOf(1, 0)
	first = gtidOf(1, uint64(len(first)+len(large)+len(end)))
	for _, piece := range []int{len(large) + 1, 64 << 10, 1<<20 - 3} {
		f, s := newFolder(t), newSpool(t)
		a := New(Options{Folder: f, Spool: s, Clock: clock.RealClock{}, SegmentBytes: 1})
		in := &incoming{r: &reading{a: a, next: Header{Number: 1, AnchorNumber: 1}}}
		must(t, come(t, in, piece, format(t).Event, first, large, end))
		storePending(t, s, f)
		segment, err := f.Open(t.Context(), 1)
		must(t, err)
		if segment.Header.GTIDSet != uuid+":1" || segment.Header.Transactions != 1 {
			t.Errorf("it holds %+v", segment.Header)
		}
		content, err := io.ReadAll(segment)
		must(t, err)
		segment.Close()
		if want := bytes.Join([][]byte{[]byte(binlog.Magic), format(t).Event, first, large, end}, nil); !bytes.Equal(content, want) {
			t.Errorf("in pieces of %d: %d bytes are not the %d that came", piece, len(content), len(want))
		}
	}
}

// TestALargeEventThatIsDamaged ends the reading, and nothing of it is kept.
func TestALargeEventThatIsDamaged(t *testing.T) {
	large := event(30, make([]byte, binlog.WholeEvent+100))
	first := gtidOf(1, 0)
	first = gtidOf(1, uint64(len(first)+len(large)))
	flipped := bytes.Clone(large)
	flipped[len(flipped)/2] ^= 1
	for name, e := range map[string]binlog.Event{
		"altered":   flipped,
		"cut short": large[:len(large)-1],
		"longer":    append(bytes.Clone(large), 0),
	} {
		s := newSpool(t)
		a := New(Options{Folder: newFolder(t), Spool: s, Clock: clock.RealClock{}, SegmentAge: time.Nanosecond})
		r := &reading{a: a, next: Header{Number: 1, AnchorNumber: 1}}
		if err := come(t, &incoming{r: r}, 64<<10, format(t).Event, first, e); !errors.Is(err, binlog.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		r.abandon()
		if len(s.Pending()) > 0 {
			t.Errorf("%s: it is kept", name)
		}
	}
	if crc32.ChecksumIEEE(large[:len(large)-4]) != binary.LittleEndian.Uint32(large[len(large)-4:]) {
		t.Error("the test's own event is damaged: this tries nothing")
	}
}
