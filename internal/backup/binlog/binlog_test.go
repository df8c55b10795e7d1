package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"
)

// event is one of a log with checksums.
func event(kind replication.EventType, flags uint16, body []byte) Event {
	e := make([]byte, headerSize, headerSize+len(body)+checksumSize)
	e[typeOffset] = byte(kind)
	binary.LittleEndian.PutUint16(e[flagsOffset:], flags)
	e = append(e, body...)
	binary.LittleEndian.PutUint32(e[sizeOffset:], uint32(len(e)+checksumSize)) //nolint:gosec // small
	return binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
}

func formatEvent(algorithm byte) Event {
	body := make([]byte, 2+50+4+1+40+1)
	copy(body[2:], "9.7.4")
	body[len(body)-1] = algorithm
	return event(replication.FORMAT_DESCRIPTION_EVENT, 0, body)
}

// gtidEvent begins transaction n of a length.
func gtidEvent(n int64, length uint64) Event {
	body := make([]byte, 1+16+8+1+16)
	body[1] = 0x3e
	binary.LittleEndian.PutUint64(body[17:], uint64(n)) //nolint:gosec // positive
	body[25] = 2
	committed := uint64(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC).UnixMicro()) //nolint:gosec // positive
	stamp := binary.LittleEndian.AppendUint64(nil, committed)
	tail := slices.Concat(stamp[:7], []byte{0xfe})
	tail = binary.LittleEndian.AppendUint64(tail, length)
	tail = binary.LittleEndian.AppendUint32(tail, 90704)
	return event(replication.GTID_EVENT, 0, slices.Concat(body, tail))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestATransactionSaysWhatItIs(t *testing.T) {
	f, err := ParseFormat(formatEvent(1))
	must(t, err)
	if f.Version != "9.7.4" || !f.Checksums {
		t.Errorf("the format is %+v", f)
	}
	got, err := f.ParseTransaction(gtidEvent(7, 500))
	must(t, err)
	if got.GTID() != "3e000000-0000-0000-0000-000000000000:7" || got.Length != 500 || got.OriginalVersion != 90704 || !got.Committed.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)) {
		t.Errorf("it is %+v", got)
	}
	for n := range 40 {
		if _, err := f.ParseTransaction(event(replication.GTID_EVENT, 0, make([]byte, n))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if _, err := f.ParseTransaction(event(replication.GTID_TAGGED_LOG_EVENT, 0, make([]byte, n))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of a tagged one: %v", n, err)
		}
	}
	if _, err := f.ParseTransaction(event(replication.ANONYMOUS_GTID_EVENT, 0, make([]byte, 60))); !errors.Is(err, ErrDamaged) {
		t.Errorf("one without a GTID: %v", err)
	}
}

func TestTheTrackerKnowsTheEnds(t *testing.T) {
	f, err := ParseFormat(formatEvent(1))
	must(t, err)
	body := event(replication.QUERY_EVENT, 0, make([]byte, 50))
	first := gtidEvent(1, 0)
	whole := uint64(len(first) + 2*len(body))
	var track Tracker
	step := func(e Event) Step {
		t.Helper()
		s, err := track.Add(f, e)
		must(t, err)
		return s
	}
	if s := step(body); s.Transaction != nil {
		t.Errorf("before any: %+v", s)
	}
	if s := step(gtidEvent(1, whole)); !s.Begins || s.Ends || !track.Open() {
		t.Errorf("the first: %+v", s)
	}
	if s := step(body); s.Begins || s.Ends {
		t.Errorf("the second: %+v", s)
	}
	if s := step(body); s.Begins || !s.Ends || track.Open() || s.Transaction.Number != 1 {
		t.Errorf("the last: %+v", s)
	}
	if s := step(body); s.Transaction != nil {
		t.Errorf("between two: %+v", s)
	}
	step(gtidEvent(2, whole))
	if _, err := track.Add(f, gtidEvent(3, whole)); !errors.Is(err, ErrDamaged) {
		t.Errorf("one in another: %v", err)
	}
	if _, err := track.Add(f, event(replication.QUERY_EVENT, 0, make([]byte, 500))); !errors.Is(err, ErrDamaged) {
		t.Errorf("too long: %v", err)
	}
}

func TestTheCollectorTakesAnyOrder(t *testing.T) {
	var c Collector
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4f22fa47-71ca-11e1-9e33-c80aa9429562"
	for _, x := range []Transaction{{UUID: a, Number: 5}, {UUID: a, Number: 6}, {UUID: b, Number: 1}, {UUID: a, Number: 7}, {UUID: a, Tag: "t", Number: 8}, {UUID: a, Number: 3}, {UUID: a, Number: 9}} {
		c.Add(x)
	}
	if got := c.Set().String(); got != a+":3:5-7:9:t:8,"+b+":1" {
		t.Errorf("it has %s", got)
	}
	c.Add(Transaction{UUID: a, Number: 10})
	if got := c.Set().String(); got != a+":3:5-7:9-10:t:8,"+b+":1" {
		t.Errorf("then it has %s", got)
	}
}

// TestDamagedLogsAreRefused cuts a log everywhere and flips its bits.
func TestDamagedLogsAreRefused(t *testing.T) {
	format := formatEvent(1)
	log := append(append([]byte(Magic), format...), event(replication.QUERY_EVENT, 0, []byte("statement"))...)
	read := func(content []byte) (int, error) {
		r, err := NewReader(bytes.NewReader(content))
		if err != nil {
			return 0, err
		}
		for n := 0; ; n++ {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				return n, nil
			} else if err != nil {
				return n, err
			}
		}
	}
	if n, err := read(log); n != 1 || err != nil {
		t.Fatalf("%d events, %v", n, err)
	}
	for n := range log {
		if n == len(Magic)+len(format) {
			continue // an empty log is one
		}
		if _, err := read(log[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(log), err)
		}
	}
	for n := len(Magic) + len(format); n < len(log); n++ {
		flipped := bytes.Clone(log)
		flipped[n] ^= 1
		if _, err := read(flipped); !errors.Is(err, ErrDamaged) {
			t.Errorf("a bit of byte %d: %v", n, err)
		}
	}
}

func TestWithoutChecksums(t *testing.T) {
	f, err := ParseFormat(formatEvent(1))
	must(t, err)
	e := event(replication.QUERY_EVENT, 0, []byte("statement"))
	plain := f.Plain(e)
	must(t, plain.Check())
	if string(plain[headerSize:]) != "statement" || string(f.Body(e)) != "statement" || len(e) != len(plain)+checksumSize {
		t.Errorf("it became %q", plain)
	}
	off, err := ParseFormat(f.PlainFormat())
	must(t, err)
	if off.Checksums || !bytes.Equal(off.Plain(plain), plain) || string(off.Body(plain)) != "statement" {
		t.Errorf("the format became %+v", off)
	}
	must(t, off.Verify(plain))
	if _, err := ParseFormat(formatEvent(7)); !errors.Is(err, ErrDamaged) {
		t.Errorf("unknown checksums: %v", err)
	}
}

func TestOnlyWhatWasWrittenIsRecorded(t *testing.T) {
	for name, row := range map[string]struct {
		e    Event
		want bool
	}{
		"a heartbeat":     {event(replication.HEARTBEAT_EVENT, 0, nil), false},
		"a rotation":      {event(replication.ROTATE_EVENT, 0, nil), false},
		"the end":         {event(replication.STOP_EVENT, 0, nil), false},
		"what came first": {event(replication.PREVIOUS_GTIDS_EVENT, 0, nil), false},
		"a made-up event": {event(replication.QUERY_EVENT, flagArtificial, nil), false},
		"a statement":     {event(replication.QUERY_EVENT, 0, nil), true},
		"a transaction":   {gtidEvent(1, 1000), true},
	} {
		if got := row.e.Recorded(); got != row.want {
			t.Error(fmt.Sprint(name, ": ", got))
		}
	}
}
