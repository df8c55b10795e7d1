// Package binlog reads MySQL's binary log as far as archiving and replaying it need: where an event and a transaction end,
// whose a transaction is and when it was committed, and whether its bytes are what the server wrote.
package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"
)

// Magic begins a binary log file.
const Magic = "\xfebin"

const (
	// headerSize is the length of an event's header in bytes; offsets in it follow (internals manual, "Binary Log Event Header").
	headerSize   = replication.EventHeaderSize
	typeOffset   = 4
	sizeOffset   = 9
	flagsOffset  = 17
	checksumSize = replication.BinlogChecksumLength
)

// Flags of an event's header.
const (
	// flagArtificial marks what a source makes up for its replica and never wrote (LOG_EVENT_ARTIFICIAL_F).
	flagArtificial = 0x20
	// FlagSuppressUse: the statement is meant for no default database (LOG_EVENT_SUPPRESS_USE_F).
	FlagSuppressUse = 0x8
)

// ErrDamaged: the bytes are not those of a binary log, or not those that were written.
var ErrDamaged = errors.New("the binary log is damaged")

// Event is one event: header, body, and checksum where the format has one.
type Event []byte

// Type returns what kind of event it is.
func (e Event) Type() replication.EventType { return replication.EventType(e[typeOffset]) }

// Time returns when the statement began, in seconds.
func (e Event) Time() uint32 { return binary.LittleEndian.Uint32(e) }

// Flags returns the header's flags.
func (e Event) Flags() uint16 { return binary.LittleEndian.Uint16(e[flagsOffset:]) }

// Recorded says whether the event is part of what the server wrote for good. What only steers the stream is not.
func (e Event) Recorded() bool {
	switch e.Type() { //nolint:exhaustive // the others are
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2, replication.ROTATE_EVENT, replication.STOP_EVENT,
		replication.PREVIOUS_GTIDS_EVENT, replication.FORMAT_DESCRIPTION_EVENT:
		return false
	}
	return e.Flags()&flagArtificial == 0
}

// Size returns how long the event is, in bytes, its header and checksum included.
func (e Event) Size() uint32 { return binary.LittleEndian.Uint32(e[sizeOffset:]) }

// SetSize says how long the event is.
func (e Event) SetSize(size uint32) { binary.LittleEndian.PutUint32(e[sizeOffset:], size) }

// Whole says whether these are all bytes of the event, and not its header alone.
func (e Event) Whole() bool { return int64(e.Size()) == int64(len(e)) }

// Check makes sure that the header fits the bytes.
func (e Event) Check() error {
	if len(e) < headerSize || !e.Whole() {
		return fmt.Errorf("%w: an event of %d bytes does not say so itself", ErrDamaged, len(e))
	}
	return nil
}

// Format is a log's FORMAT_DESCRIPTION event.
type Format struct {
	Event Event
	// Version of the server that wrote the log.
	Version string
	// Checksums: every event ends with a CRC32.
	Checksums bool
}

// ParseFormat reads a FORMAT_DESCRIPTION event. It always ends with the algorithm of checksums and its own checksum.
func ParseFormat(e Event) (*Format, error) {
	const versionEnd = headerSize + 2 + 50
	if err := e.Check(); err != nil {
		return nil, err
	}
	if e.Type() != replication.FORMAT_DESCRIPTION_EVENT || len(e) < versionEnd+4+1+checksumSize+1 {
		return nil, fmt.Errorf("%w: it does not begin with its format", ErrDamaged)
	}
	f := &Format{Event: e, Version: cString(e[headerSize+2 : versionEnd])}
	switch algorithm := replication.BinlogChecksum(e[len(e)-checksumSize-1]); algorithm {
	case replication.BINLOG_CHECKSUM_ALG_OFF:
	case replication.BINLOG_CHECKSUM_ALG_CRC32:
		f.Checksums = true
	default:
		return nil, fmt.Errorf("%w: unknown checksums (%d)", ErrDamaged, algorithm)
	}
	return f, nil
}

func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// Verify makes sure that an event is what the server wrote, as far as its checksum tells.
func (f *Format) Verify(e Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	if !f.Checksums {
		return nil
	}
	if len(e) < headerSize+checksumSize {
		return fmt.Errorf("%w: an event without its checksum", ErrDamaged)
	}
	end := len(e) - checksumSize
	if crc32.ChecksumIEEE(e[:end]) != binary.LittleEndian.Uint32(e[end:]) {
		return fmt.Errorf("%w: the checksum of an event of type %s is another", ErrDamaged, e.Type())
	}
	return nil
}

// Body returns what is between an event's header and its checksum.
func (f *Format) Body(e Event) []byte {
	if f.Checksums {
		return e[headerSize : len(e)-checksumSize]
	}
	return e[headerSize:]
}

// Plain returns the event without its checksum, as a log without checksums has it.
func (f *Format) Plain(e Event) Event {
	if !f.Checksums {
		return e
	}
	plain := append(Event(nil), e[:len(e)-checksumSize]...)
	binary.LittleEndian.PutUint32(plain[sizeOffset:], uint32(len(plain))) //nolint:gosec // shorter than it was
	return plain
}

// PlainFormat returns the format of a log without checksums.
func (f *Format) PlainFormat() Event {
	e := append(Event(nil), f.Event...)
	end := len(e) - checksumSize
	e[end-1] = byte(replication.BINLOG_CHECKSUM_ALG_OFF)
	binary.LittleEndian.PutUint32(e[end:], crc32.ChecksumIEEE(e[:end]))
	return e
}

// Transaction is what a transaction's first event tells of it.
type Transaction struct {
	// UUID, Tag (mostly empty) and Number are its GTID.
	UUID, Tag string
	Number    int64
	// Committed is when it was committed where it was made, to the microsecond.
	Committed time.Time
	// Length is the bytes of all its events, the first one included.
	Length uint64
	// OriginalVersion and ImmediateVersion are of the servers that made it and that wrote this log, like 90704.
	OriginalVersion, ImmediateVersion uint32
}

// Source returns the part of the GTID that numbers are counted in: uuid or uuid:tag.
func (t Transaction) Source() string {
	if t.Tag != "" {
		return t.UUID + ":" + t.Tag
	}
	return t.UUID
}

// GTID returns the transaction's identifier.
func (t Transaction) GTID() string { return fmt.Sprintf("%s:%d", t.Source(), t.Number) }

// Begins says whether an event is the first of a transaction.
func (e Event) Begins() bool {
	switch e.Type() { //nolint:exhaustive // the others do not
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.ANONYMOUS_GTID_EVENT:
		return true
	}
	return false
}

// ParseTransaction reads a transaction's first event.
func (f *Format) ParseTransaction(e Event) (t Transaction, err error) {
	defer func() {
		// The library's decoders trust their input.
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: a GTID event cannot be read: %v", ErrDamaged, r)
		}
	}()
	var g replication.GTIDEvent
	switch e.Type() {
	case replication.GTID_EVENT:
		err = g.Decode(f.Body(e))
	case replication.GTID_TAGGED_LOG_EVENT:
		var tagged replication.GtidTaggedLogEvent
		err = tagged.Decode(f.Body(e))
		g = tagged.GTIDEvent
		if g.OriginalCommitTimestamp == 0 { // left out where it is the same
			g.OriginalCommitTimestamp = g.ImmediateCommitTimestamp
		}
		if g.OriginalServerVersion == 0 {
			g.OriginalServerVersion = g.ImmediateServerVersion
		}
	default:
		return t, fmt.Errorf("%w: a transaction without a GTID", ErrDamaged)
	}
	if err != nil {
		return t, fmt.Errorf("%w: a GTID event cannot be read: %w", ErrDamaged, err)
	}
	id, err := uuid.FromBytes(g.SID)
	if err != nil || g.GNO <= 0 || g.TransactionLength < uint64(len(e)) {
		return t, fmt.Errorf("%w: a GTID event says nothing usable", ErrDamaged)
	}
	t = Transaction{
		UUID: id.String(), Number: g.GNO, Committed: time.UnixMicro(int64(g.OriginalCommitTimestamp)).UTC(), //nolint:gosec // 56 bits
		Length: g.TransactionLength, OriginalVersion: g.OriginalServerVersion, ImmediateVersion: g.ImmediateServerVersion,
	}
	if g.Tag != gomysql.NewTag("") {
		t.Tag = g.Tag.String()
	}
	return t, nil
}
