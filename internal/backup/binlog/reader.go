package binlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
)

// maxEvent bounds an event, in bytes: the largest packet that a source sends.
const maxEvent = 1<<30 + 1<<20

// Reader reads a binary log file.
type Reader struct {
	// Format is the log's.
	Format *Format

	r *bufio.Reader
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

// Next returns the next event; io.EOF after the last. The event belongs to the caller.
func (b *Reader) Next() (Event, error) {
	e, err := b.read()
	if err != nil {
		return nil, err
	}
	return e, b.Format.Verify(e)
}

func (b *Reader) read() (Event, error) {
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(b.r, header); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, cutShort(err)
	}
	size := binary.LittleEndian.Uint32(header[sizeOffset:])
	if size < headerSize || size > maxEvent {
		return nil, fmt.Errorf("%w: an event of %d bytes", ErrDamaged, size)
	}
	e := append(make(Event, 0, size), header...)[:size]
	if _, err := io.ReadFull(b.r, e[headerSize:]); err != nil {
		return nil, cutShort(err)
	}
	return e, nil
}

// Split takes apart what a compressed transaction holds after decompression: events without checksums.
func Split(payload []byte) ([]Event, error) {
	var events []Event
	for len(payload) > 0 {
		if len(payload) < headerSize {
			return nil, fmt.Errorf("%w: a compressed transaction ends in the middle", ErrDamaged)
		}
		size := binary.LittleEndian.Uint32(payload[sizeOffset:])
		if size < headerSize || uint64(size) > uint64(len(payload)) {
			return nil, fmt.Errorf("%w: an event of %d bytes in a compressed transaction", ErrDamaged, size)
		}
		events, payload = append(events, Event(payload[:size])), payload[size:]
	}
	return events, nil
}

// Payload is a compressed transaction (TRANSACTION_PAYLOAD event): its fields, and what is compressed.
type Payload struct {
	Compression, Size uint64
	Data              []byte
}

// ParsePayload reads a TRANSACTION_PAYLOAD event's body. Numbers are length-encoded (internals manual, "Transaction_payload").
func ParsePayload(body []byte) (p Payload, err error) {
	defer func() {
		if r := recover(); r != nil { // an index out of range: the body is cut short
			err = fmt.Errorf("%w: a compressed transaction cannot be read", ErrDamaged)
		}
	}()
	for {
		field, n := lengthEncoded(body)
		body = body[n:]
		if field == replication.OTW_PAYLOAD_HEADER_END_MARK {
			p.Data = body
			return p, nil
		}
		length, n := lengthEncoded(body)
		body = body[n:]
		value, _ := lengthEncoded(body[:length])
		switch field {
		case replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD:
			p.Compression = value
		case replication.OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD:
			p.Size = value
		}
		body = body[length:]
	}
}

func lengthEncoded(b []byte) (value uint64, size int) {
	switch b[0] {
	case 0xfc:
		return uint64(binary.LittleEndian.Uint16(b[1:])), 3
	case 0xfd:
		return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, 4
	case 0xfe:
		return binary.LittleEndian.Uint64(b[1:]), 9
	}
	return uint64(b[0]), 1
}
