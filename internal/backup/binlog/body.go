package binlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of zstd that MySQL's highest level of compression uses, in bytes.
const maxWindow = 128 << 20

// Body is what follows the header of a large event, without the checksum. In place of io.EOF it ends with ErrDamaged when that
// shows that the bytes are others.
type Body struct {
	r    io.Reader
	left int64
	sum  hash.Hash32 // nil without checksums
	done error
}

func newBody(r io.Reader, f *Format, header Event) (*Body, error) {
	b := &Body{r: r, left: int64(header.Size()) - headerSize}
	if f.Checksums {
		if b.left -= checksumSize; b.left < 0 {
			return nil, fmt.Errorf("%w: an event without its checksum", ErrDamaged)
		}
		b.sum = crc32.NewIEEE()
		b.sum.Write(header)
	}
	return b, nil
}

// Len is how many bytes are left.
func (b *Body) Len() int64 { return b.left }

func (b *Body) Read(p []byte) (int, error) {
	if b.done != nil {
		return 0, b.done
	}
	if b.left == 0 {
		b.done = b.end()
		return 0, b.done
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.sum != nil {
		b.sum.Write(p[:n])
	}
	switch {
	case err == nil, errors.Is(err, io.EOF) && b.left == 0:
		return n, nil
	}
	b.done = cutShort(err)
	return n, b.done
}

// end compares the checksum.
func (b *Body) end() error {
	if b.sum == nil {
		return io.EOF
	}
	stored := make([]byte, checksumSize)
	if _, err := io.ReadFull(b.r, stored); err != nil {
		return cutShort(err)
	}
	if b.sum.Sum32() != binary.LittleEndian.Uint32(stored) {
		return fmt.Errorf("%w: the checksum of a large event is another", ErrDamaged)
	}
	return io.EOF
}

// Compressed is a compressed transaction (TRANSACTION_PAYLOAD event), whose events are decompressed as they are read. They have
// no checksums. Close it.
type Compressed struct {
	Reader

	body *Body
	zstd *zstd.Decoder
}

// Transaction reads a compressed transaction. Its fields are numbers in MySQL's length-encoded form (internals manual,
// "Transaction_payload").
func (b *Body) Transaction() (*Compressed, error) {
	r := bufio.NewReaderSize(b, 64<<10)
	compression, err := payloadHeader(r)
	if err != nil {
		return nil, err
	}
	c := &Compressed{Reader: Reader{Format: &Format{}}, body: b}
	switch compression {
	case replication.ZSTD:
		if c.zstd, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)); err != nil {
			return nil, fmt.Errorf("set up decompression: %w", err)
		}
		c.r = bufio.NewReaderSize(c.zstd, 256<<10)
	case replication.NONE:
		c.r = r
	default:
		return nil, fmt.Errorf("a transaction is compressed in a way that this release of the operator does not know (%d)", compression)
	}
	return c, nil
}

// Next returns the next event of the transaction, as Reader has it; io.EOF after the last, when the whole is what was written.
func (c *Compressed) Next() (Event, error) {
	e, err := c.Reader.Next()
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, io.EOF):
		if _, err := io.Copy(io.Discard, c.body); err != nil {
			return nil, err
		}
		return nil, io.EOF
	case errors.Is(err, ErrDamaged), c.body.done != nil:
		return nil, err
	}
	return nil, fmt.Errorf("%w: a compressed transaction: %w", ErrDamaged, err)
}

// Close lets go of it.
func (c *Compressed) Close() {
	if c.zstd != nil {
		c.zstd.Close()
	}
}

// payloadHeader reads the fields before what is compressed, and returns how it is.
func payloadHeader(r io.ByteReader) (compression uint64, err error) {
	number := func() uint64 {
		if err != nil {
			return 0
		}
		var n uint64
		n, err = lengthEncoded(r)
		return n
	}
	for {
		field := number()
		if err != nil || field == replication.OTW_PAYLOAD_HEADER_END_MARK {
			return compression, cutShort(err)
		}
		number() // its length, which follows from what is in it
		value := number()
		if field == replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD {
			compression = value
		}
		if err != nil {
			return 0, cutShort(err)
		}
	}
}

// lengthEncoded reads a number.
func lengthEncoded(r io.ByteReader) (uint64, error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	size := map[byte]int{0xfc: 2, 0xfd: 3, 0xfe: 8}[first]
	if size == 0 {
		return uint64(first), nil
	}
	var value uint64
	for i := range size {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		value |= uint64(b) << (8 * i)
	}
	return min(value, math.MaxInt64), nil
}
