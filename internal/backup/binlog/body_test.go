package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// inner is an event of a compressed transaction: without a checksum.
func inner(kind replication.EventType, body []byte) Event {
	e := make(Event, headerSize, headerSize+len(body))
	e[typeOffset] = byte(kind)
	e = append(e, body...)
	e.SetSize(uint32(len(e))) //nolint:gosec // small
	return e
}

// compressed is a TRANSACTION_PAYLOAD event.
func compressed(t *testing.T, content []byte) Event {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	must(t, err)
	packed := encoder.EncodeAll(content, nil)
	body := []byte{replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD, 1, 0, replication.OTW_PAYLOAD_UNCOMPRESSED_SIZE_FIELD, 9, 0xfe}
	body = binary.LittleEndian.AppendUint64(body, uint64(len(content)))
	body = append(body, replication.OTW_PAYLOAD_SIZE_FIELD, 9, 0xfe)
	body = binary.LittleEndian.AppendUint64(body, uint64(len(packed)))
	return event(replication.TRANSACTION_PAYLOAD_EVENT, 0, append(append(body, replication.OTW_PAYLOAD_HEADER_END_MARK), packed...))
}

func logOf(events ...Event) []byte {
	log := append([]byte(Magic), formatEvent(1)...)
	for _, e := range events {
		log = append(log, e...)
	}
	return log
}

// unpack reads the only event of a log as a compressed transaction.
func unpack(log []byte) ([]Event, error) {
	r, err := NewReader(bytes.NewReader(log))
	if err != nil {
		return nil, err
	}
	if _, err := r.Next(); err != nil {
		return nil, err
	}
	t, err := r.Body().Transaction()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var events []Event
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			_, err := r.Next()
			if !errors.Is(err, io.EOF) {
				return nil, errors.Join(errors.New("it does not end"), err)
			}
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// TestCompressedTransactionsAreTakenApart, and refused when they were cut short or altered anywhere.
func TestCompressedTransactionsAreTakenApart(t *testing.T) {
	one, two := inner(replication.QUERY_EVENT, []byte("one")), inner(replication.XID_EVENT, make([]byte, 8))
	log := logOf(compressed(t, slices.Concat(one, two)))
	events, err := unpack(log)
	must(t, err)
	if len(events) != 2 || !bytes.Equal(events[0], one) || !bytes.Equal(events[1], two) {
		t.Errorf("they are %v", events)
	}
	begin := len(logOf())
	for n := begin + 1; n < len(log); n++ {
		if _, err := unpack(log[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(log), err)
		}
	}
	for n := begin + headerSize; n < len(log); n++ {
		flipped := bytes.Clone(log)
		flipped[n] ^= 1
		if _, err := unpack(flipped); err == nil {
			t.Errorf("a bit of byte %d is altered, and it is taken", n)
		}
	}
	if _, err := unpack(logOf(compressed(t, one[:len(one)-1]))); !errors.Is(err, ErrDamaged) {
		t.Errorf("an event that ends in the middle: %v", err)
	}
}

// TestACompressedTransactionTakesLittleMemory, however large it is.
func TestACompressedTransactionTakesLittleMemory(t *testing.T) {
	const rows, size = 2000, 256 << 10 // half a gigabyte
	row := inner(replication.WRITE_ROWS_EVENTv2, make([]byte, size))
	log := logOf(compressed(t, bytes.Repeat(row, rows)))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := NewReader(bytes.NewReader(log))
	must(t, err)
	_, err = r.Next()
	must(t, err)
	tx, err := r.Body().Transaction()
	must(t, err)
	defer tx.Close()
	peak, n := uint64(0), 0
	for ; ; n++ {
		if _, err := tx.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if n%50 == 0 {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse-min(before.HeapInuse, now.HeapInuse))
		}
	}
	if n != rows || peak > 64<<20 {
		t.Errorf("%d events of %d MiB together took %d MiB", n, rows*size>>20, peak>>20)
	}
}

// TestALargeEventIsReadInParts: its header comes first, the rest is there to be read, or passed over; its checksum counts.
func TestALargeEventIsReadInParts(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), (WholeEvent+1024)/16)
	large, small := event(replication.WRITE_ROWS_EVENTv2, 0, content), event(replication.XID_EVENT, 0, make([]byte, 8))
	log := logOf(large, small)
	open := func(log []byte) (*Reader, Event) {
		t.Helper()
		r, err := NewReader(bytes.NewReader(log))
		must(t, err)
		e, err := r.Next()
		must(t, err)
		return r, e
	}
	r, e := open(log)
	if e.Whole() || len(e) != headerSize || int(e.Size()) != len(large) || r.Body().Len() != int64(len(content)) {
		t.Fatalf("it is %d of %d bytes", len(e), e.Size())
	}
	read, err := io.ReadAll(r.Body())
	must(t, err)
	if !bytes.Equal(read, content) {
		t.Error("what was read is not what was written")
	}
	if e, err := r.Next(); err != nil || !bytes.Equal(e, small) {
		t.Errorf("then comes %v, %v", e, err)
	}
	r, _ = open(log)
	if e, err := r.Next(); err != nil || !bytes.Equal(e, small) || r.Body() != nil {
		t.Errorf("passed over: %v, %v", e, err)
	}
	log[len(log)-len(small)-1] ^= 1
	r, _ = open(log)
	if _, err := io.ReadAll(r.Body()); !errors.Is(err, ErrDamaged) {
		t.Errorf("another checksum: %v", err)
	}
	r, _ = open(log)
	if _, err := r.Next(); !errors.Is(err, ErrDamaged) {
		t.Errorf("another checksum, passed over: %v", err)
	}
	r, _ = open(log[:len(log)/2])
	if _, err := io.ReadAll(r.Body()); !errors.Is(err, ErrDamaged) {
		t.Errorf("cut short: %v", err)
	}
}
