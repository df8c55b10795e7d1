package archive

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

// incoming is an event on its way from the stream into a segment. One that is large is written as it comes, so that the memory
// that archiving needs does not grow with transactions.
type incoming struct {
	r     *reading
	event binlog.Event
	large *passing
}

// passing is a large event.
type passing struct {
	step binlog.Step
	// left is what is still to come, checksum included; sum and stored are over, and of, it.
	left   int64
	sum    uint32
	stored []byte
}

// checked says whether the event ends with a checksum that counts.
func (p *passing) checked(f *binlog.Format) bool { return p.step.Transaction != nil && f.Checksums }

// checksumSize is the length of an event's checksum, in bytes.
const checksumSize = replication.BinlogChecksumLength

func (i *incoming) begin() {
	i.large = nil
	i.event = make(binlog.Event, 0, replication.EventHeaderSize) // the last one may be kept: it can be the format
}

func (i *incoming) Write(b []byte) (int, error) {
	all := len(b)
	if n := replication.EventHeaderSize - len(i.event); n > 0 {
		n = min(n, len(b))
		i.event, b = append(i.event, b[:n]...), b[n:]
		if len(i.event) < replication.EventHeaderSize {
			return all, nil
		}
		if !i.event.Large() {
			i.event = slices.Grow(i.event, max(0, int(i.event.Size())-replication.EventHeaderSize))
		} else if err := i.open(); err != nil {
			return 0, err
		}
	}
	if i.large == nil {
		if len(i.event)+len(b) > binlog.WholeEvent {
			return 0, fmt.Errorf("%w: an event is longer than it says", binlog.ErrDamaged)
		}
		i.event = append(i.event, b...)
		return all, nil
	}
	return all, i.pass(b)
}

// open begins to write a large event.
func (i *incoming) open() error {
	r := i.r
	i.large = &passing{left: int64(i.event.Size()) - replication.EventHeaderSize, sum: crc32.ChecksumIEEE(i.event)}
	if !i.event.Recorded() {
		return nil // it only steers the stream
	}
	if r.format == nil {
		return fmt.Errorf("%w: the stream does not begin with its format", binlog.ErrDamaged)
	}
	var err error
	if i.large.step, err = r.step(i.event); err != nil || i.large.step.Transaction == nil {
		return err // what belongs to no transaction is left out
	}
	return r.w.write(i.event)
}

// pass writes the next piece of a large event.
func (i *incoming) pass(b []byte) error {
	p := i.large
	if int64(len(b)) > p.left {
		return fmt.Errorf("%w: an event is longer than it says", binlog.ErrDamaged)
	}
	summed := b
	if p.checked(i.r.format) {
		// The last bytes are the checksum, however they come.
		summed = b[:max(0, min(int64(len(b)), p.left-checksumSize))]
		p.stored = append(p.stored, b[len(summed):]...)
	}
	p.sum = crc32.Update(p.sum, crc32.IEEETable, summed)
	p.left -= int64(len(b))
	if p.step.Transaction == nil {
		return nil
	}
	return i.r.w.write(b)
}

// end takes the event when all of it has come.
func (i *incoming) end(ctx context.Context) error {
	p := i.large
	if p == nil {
		return i.r.take(ctx, i.event)
	}
	switch {
	case p.left != 0:
		return fmt.Errorf("%w: an event is shorter than it says", binlog.ErrDamaged)
	case p.checked(i.r.format) && (len(p.stored) != checksumSize || binary.LittleEndian.Uint32(p.stored) != p.sum):
		return fmt.Errorf("%w: the checksum of an event of type %s is another", binlog.ErrDamaged, i.event.Type())
	}
	if p.step.Ends {
		i.r.w.committed(p.step.Transaction)
	}
	return i.r.closeInTime(ctx)
}
