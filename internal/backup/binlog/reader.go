package binlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
)

// maxEvent bounds an event, in bytes: the largest packet that a source sends.
const maxEvent = 1<<30 + 1<<20

// WholeEvent is the largest event that is read as a whole, in bytes. Of a larger one, and of a compressed transaction, which is
// one event, the header is read, and the rest as it is needed: so the memory of reading does not grow with what is read.
const WholeEvent = 16 << 20

// Large says whether an event with this header is read in parts.
func (e Event) Large() bool {
	return e.Size() > WholeEvent || e.Type() == replication.TRANSACTION_PAYLOAD_EVENT
}

// Reader reads a binary log file.
type Reader struct {
	// Format is the log's.
	Format *Format

	r    *bufio.Reader
	open *Body
}

// NewReader reads the beginning of a log.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, 256<<10)}
	magic := make([]byte, len(Magic))
	if _, err := io.ReadFull(b.r, magic); err != nil {
		return nil, cutShort(err)
	}
	if string(magic) != Magic {
		return nil, fmt.Errorf("%w: it is none", ErrDamaged)
	}
	first, err := b.read()
	if err != nil {
		return nil, cutShort(err)
	}
	if b.Format, err = ParseFormat(first); err != nil {
		return nil, err
	}
	return b, nil
}

// cutShort says what a log that ends in the middle is.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in the middle", ErrDamaged)
	}
	return err
}

// Next returns the next event; io.EOF after the last. The event belongs to the caller. Of a large one it is the header, and
// Body reads on.
func (b *Reader) Next() (Event, error) {
	if b.open != nil {
		if _, err := io.Copy(io.Discard, b.open); err != nil {
			return nil, err
		}
		b.open = nil
	}
	header, err := b.header()
	if err != nil {
		return nil, err
	}
	if header.Large() {
		b.open, err = newBody(b.r, b.Format, header)
		return header, err
	}
	e, err := b.rest(header)
	if err != nil {
		return nil, err
	}
	return e, b.Format.Verify(e)
}

// Body reads what follows the header that Next returned last, of a large event. It is good until Next is called again.
func (b *Reader) Body() *Body { return b.open }

func (b *Reader) read() (Event, error) {
	header, err := b.header()
	if err != nil {
		return nil, err
	}
	return b.rest(header)
}

func (b *Reader) header() (Event, error) {
	header := make(Event, headerSize)
	if _, err := io.ReadFull(b.r, header); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, cutShort(err)
	}
	if size := header.Size(); size < headerSize || size > maxEvent {
		return nil, fmt.Errorf("%w: an event of %d bytes", ErrDamaged, size)
	}
	return header, nil
}

func (b *Reader) rest(header Event) (Event, error) {
	e := append(make(Event, 0, header.Size()), header...)[:header.Size()]
	if _, err := io.ReadFull(b.r, e[headerSize:]); err != nil {
		return nil, cutShort(err)
	}
	return e, nil
}
