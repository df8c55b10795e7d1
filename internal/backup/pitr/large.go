package pitr

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// ErrTooLarge: a transaction holds an event that no statement can bring to a server.
var ErrTooLarge = errors.New("a transaction is too large to be replayed")

// large replays an event that is read in parts: a compressed transaction, or a row of many megabytes.
func (a *applier) large(ctx context.Context, header binlog.Event, body *binlog.Body) error {
	switch header.Type() { //nolint:exhaustive // the others are refused
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return a.payload(ctx, body)
	case replication.WRITE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv1,
		replication.WRITE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT:
		return a.largeRows(ctx, header, body)
	case replication.ROWS_QUERY_EVENT, replication.IGNORABLE_EVENT:
		return nil // for people
	}
	return fmt.Errorf("%w: it holds an event of type %s with %d bytes, and those of more than %d are replayed for rows only", ErrTooLarge, header.Type(), header.Size(), binlog.WholeEvent)
}

// payload replays a compressed transaction as it is decompressed. Its last event ends it, and is replayed only when all of it
// was what the server wrote.
func (a *applier) payload(ctx context.Context, body *binlog.Body) error {
	t, err := body.Transaction()
	if err != nil {
		return err
	}
	defer t.Close()
	var waiting binlog.Event
	replay := func() error {
		e := waiting
		if waiting = nil; e == nil {
			return nil
		}
		return a.plain(ctx, e)
	}
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			return replay()
		}
		if err != nil {
			return err
		}
		if err := replay(); err != nil {
			return err
		}
		if inner := t.Body(); inner != nil {
			err = a.large(ctx, e, inner)
		} else {
			waiting = e
		}
		if err != nil {
			return err
		}
	}
}

// largeRows replays a row event of many megabytes as it is read, in a statement of its own.
func (a *applier) largeRows(ctx context.Context, header binlog.Event, body *binlog.Body) error {
	if err := a.sendBatch(ctx); err != nil {
		return err
	}
	begin := make([]byte, rowFlags+2)
	size := int64(len(header)) + body.Len()
	if _, err := io.ReadFull(body, begin); err != nil {
		return fmt.Errorf("%w: a row event is too short", binlog.ErrDamaged)
	}
	flags := binary.LittleEndian.Uint16(begin[rowFlags:])
	binary.LittleEndian.PutUint16(begin[rowFlags:], flags|stmtEnd)
	plain := append(binlog.Event(nil), header...)
	plain.SetSize(uint32(size)) //nolint:gosec // an event's size has 32 bits
	total := size
	parts := make([]io.Reader, 0, len(a.tables)+3)
	for _, table := range a.tables {
		parts = append(parts, strings.NewReader(string(table)))
		total += int64(len(table))
	}
	const verb, end = "BINLOG '", "'"
	if length := int64(len(verb)) + base64Length(total) + int64(len(end)); length > podclient.MaxStatement {
		return fmt.Errorf("%w: it holds a row of %d bytes, which needs a statement of %d, and a server takes %d", ErrTooLarge, header.Size(), length, podclient.MaxStatement)
	}
	parts = append(parts, strings.NewReader(string(plain)), strings.NewReader(string(begin)), body)
	err := a.to.ReplayFrom(ctx, io.MultiReader(strings.NewReader(verb), &encoding{r: io.MultiReader(parts...)}, strings.NewReader(end)))
	if flags&stmtEnd != 0 {
		a.tables = nil
	}
	return err
}

// base64Length is how long n bytes become; base64.Encoding counts with int, which may have 32 bits.
func base64Length(n int64) int64 { return (n + 2) / 3 * 4 }

// encoding gives what it reads in base64.
type encoding struct {
	r     io.Reader
	raw   [48 << 10]byte // a multiple of three
	coded [64 << 10]byte
	ready []byte
	err   error
}

func (e *encoding) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		n, err := io.ReadFull(e.r, e.raw[:])
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			e.err = io.EOF
		case err != nil:
			e.err = err
		}
		if e.err != nil && !errors.Is(e.err, io.EOF) {
			return 0, e.err
		}
		base64.StdEncoding.Encode(e.coded[:], e.raw[:n])
		e.ready = e.coded[:base64.StdEncoding.EncodedLen(n)]
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}
