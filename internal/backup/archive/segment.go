// Package archive keeps a cluster's binary log for ever: as numbered objects that are never rewritten, each of which says
// which transactions it holds and which ones those before it hold, so that a gap cannot hide.
package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

const (
	// formatVersion of a segment.
	formatVersion = 1
	// maxHeader bounds a segment's header, in bytes. A GTID set with many gaps is long.
	maxHeader = 16 << 20
	// suffix ends the name of a segment, after its number of 20 digits.
	suffix = ".seg"
)

// Header is a segment's first line. What it names as sets are GTID sets as text, as times those of commits on the server
// where a transaction was made.
type Header struct {
	FormatVersion int `json:"formatVersion"`
	// Number counts from 1 on, without a gap.
	Number uint64 `json:"number"`
	// ClusterUID is the cluster's, ServerUUID and Version those of the server that the segment was read from.
	ClusterUID string `json:"clusterUID"`
	ServerUUID string `json:"serverUUID"`
	Version    string `json:"version"`
	// Epoch is that of the cluster's membership when it was read; 0 where that is not known.
	Epoch uint64 `json:"epoch,omitempty"`
	// GTIDSet is what the segment holds. Before is what had been committed before it, and Cumulative both.
	GTIDSet    string `json:"gtidSet"`
	Before     string `json:"before"`
	Cumulative string `json:"cumulative"`
	// Anchor is what a backup must hold to be the base of this segment: the archive has no gap from there on.
	Anchor string `json:"anchor"`
	// AnchorNumber is the first segment after it, and AnchorTime a moment at which all of it had been committed.
	AnchorNumber uint64    `json:"anchorNumber"`
	AnchorTime   time.Time `json:"anchorTime"`
	// Gap are transactions before this segment that no segment holds: the servers had purged them before they were read.
	Gap string `json:"gap,omitempty"`
	// Lost are transactions in segments before this one that the cluster has not: they were committed without an
	// acknowledgement (durability Async) and lost with their server.
	Lost string `json:"lost,omitempty"`
	// Losses are all that is known to have been lost so, up to this segment, whether a segment held it or not. Each segment repeats
	// them: a GTID that was lost may be given out again, or was used up.
	Losses Losses `json:"losses,omitempty"`
	Times
	// Transactions and Bytes count what it holds, Stored and SHA256 are of what follows the header.
	Transactions int64  `json:"transactions"`
	Bytes        int64  `json:"bytes"`
	Stored       int64  `json:"stored"`
	SHA256       string `json:"sha256"`
}

// EverLost returns the part of a set whose GTIDs were once lost.
func (h *Header) EverLost(set gtid.Set) gtid.Set {
	return h.Losses.within(set, func(Loss) bool { return true })
}

// LostIn returns what the cluster has lost of a backup that was taken at a time, before it was lost. Later the same GTIDs may be those of other
// transactions.
func (h *Header) LostIn(set gtid.Set, taken time.Time) gtid.Set { return h.Losses.in(set, taken) }

// Times are those of a segment.
type Times struct {
	// First and Last are the earliest and the latest commit in the segment, by what the servers say.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Ahead is the transaction of Last when that is more than ClockTolerance after ClosedAt.
	Ahead string `json:"ahead,omitempty"`
	// Reaches is the latest commit in the archive up to and including this segment, where a time ahead counts as ClosedAt: see Until.
	Reaches time.Time `json:"reaches"`
	// ClosedAt is when the segment was complete.
	ClosedAt time.Time `json:"closedAt"`
}

// sets parses the header's sets.
func (h *Header) sets() (own, before, cumulative gtid.Set, err error) {
	own, errOwn := gtid.Parse(h.GTIDSet)
	before, errBefore := gtid.Parse(h.Before)
	cumulative, errAll := gtid.Parse(h.Cumulative)
	if err := errors.Join(errOwn, errBefore, errAll); err != nil {
		return own, before, cumulative, fmt.Errorf("%w: segment %d: %w", backup.ErrCorrupt, h.Number, err)
	}
	return own, before, cumulative, nil
}

// Own returns the transactions of the segment.
func (h *Header) Own() gtid.Set { return gtid.MustParse(h.GTIDSet) }

// Preceding returns what had been committed before the segment.
func (h *Header) Preceding() gtid.Set { return gtid.MustParse(h.Before) }

// All returns what the archive holds or presupposes up to and including the segment.
func (h *Header) All() gtid.Set { return gtid.MustParse(h.Cumulative) }

// Base returns what a backup must hold to be the base of the segment.
func (h *Header) Base() gtid.Set { return gtid.MustParse(h.Anchor) }

// sealed is how a header is stored: with a checksum over it.
type sealed struct {
	SHA256 string          `json:"sha256"`
	Header json.RawMessage `json:"header"`
}

func encodeHeader(h *Header) ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write a segment's header: %w", err)
	}
	sum := sha256.Sum256(text)
	line, err := json.Marshal(sealed{SHA256: hex.EncodeToString(sum[:]), Header: text})
	if err != nil {
		return nil, fmt.Errorf("write a segment's header: %w", err)
	}
	return append(line, '\n'), nil
}

func decodeHeader(line []byte) (*Header, error) {
	var s sealed
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("%w: a segment's header is no JSON: %w", backup.ErrCorrupt, err)
	}
	if sum := sha256.Sum256(s.Header); hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, fmt.Errorf("%w: the checksum of a segment's header is another", backup.ErrCorrupt)
	}
	var h Header
	if err := json.Unmarshal(s.Header, &h); err != nil {
		return nil, fmt.Errorf("%w: a segment's header is none: %w", backup.ErrCorrupt, err)
	}
	if h.FormatVersion < 1 || h.FormatVersion > formatVersion {
		return nil, fmt.Errorf("segment %d has format %d; this release of the operator reads up to %d", h.Number, h.FormatVersion, formatVersion)
	}
	for _, text := range []string{h.GTIDSet, h.Before, h.Cumulative, h.Anchor, h.Gap, h.Lost} {
		if _, err := gtid.Parse(text); err != nil {
			return nil, fmt.Errorf("%w: segment %d: %w", backup.ErrCorrupt, h.Number, err)
		}
	}
	return &h, nil
}

// Folder is where a cluster's segments are.
type Folder struct{ backup.Place }

func (f Folder) prefix() string { return f.Root + "/archive/" }

func (f Folder) key(number uint64) string {
	return fmt.Sprintf("%s%020d%s", f.prefix(), number, suffix)
}

// Numbers lists the segments that are there, in order.
func (f Folder) Numbers(ctx context.Context) ([]uint64, error) {
	var numbers []uint64
	for object, err := range f.Store.List(ctx, f.prefix()) {
		if err != nil {
			return nil, fmt.Errorf("list the archive: %w", err)
		}
		digits, found := strings.CutSuffix(path.Base(object.Key), suffix)
		number, err := strconv.ParseUint(digits, 10, 64)
		if found && err == nil && object.Key == f.key(number) {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// Segment is a segment that is being read.
type Segment struct {
	Header *Header

	body   io.ReadCloser
	line   *bufio.Reader
	hash   hash.Hash
	stored int64
	zstd   *zstd.Decoder
	bytes  int64
}

// Open reads a segment's header and leaves the rest to be read. store.ErrNotFound says that it is not there,
// backup.ErrCorrupt that its header is not what was written.
func (f Folder) Open(ctx context.Context, number uint64) (*Segment, error) {
	body, err := f.Store.Get(ctx, f.key(number))
	if err != nil {
		return nil, fmt.Errorf("read segment %d: %w", number, err)
	}
	s := &Segment{body: body, line: bufio.NewReaderSize(body, 64<<10), hash: sha256.New()}
	if err := s.begin(number); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Segment) begin(number uint64) error {
	var line []byte
	for {
		part, err := s.line.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < maxHeader:
			continue
		case errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF):
			return fmt.Errorf("%w: segment %d has no header", backup.ErrCorrupt, number)
		default:
			return fmt.Errorf("read segment %d: %w", number, err)
		}
		break
	}
	header, err := decodeHeader(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return fmt.Errorf("segment %d: %w", number, err)
	}
	if header.Number != number {
		return fmt.Errorf("%w: what should be segment %d is segment %d", backup.ErrCorrupt, number, header.Number)
	}
	s.Header = header
	return nil
}

// Read gives the segment as a binary log file. What was altered, cut off or made longer ends with backup.ErrCorrupt, at
// the latest in place of io.EOF.
func (s *Segment) Read(p []byte) (int, error) {
	if s.zstd == nil {
		var err error
		if s.zstd, err = zstd.NewReader(readerFunc(s.take), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(2*window)); err != nil {
			return 0, fmt.Errorf("set up decompression: %w", err)
		}
	}
	n, err := s.zstd.Read(p)
	s.bytes += int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		// The decoder may not have asked for what follows its last frame.
		if _, rest := io.Copy(io.Discard, readerFunc(s.take)); rest != nil {
			return n, rest
		}
		return n, s.end()
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrDenied):
		return n, err
	}
	return n, fmt.Errorf("%w: segment %d: %w", backup.ErrCorrupt, s.Header.Number, err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (s *Segment) take(p []byte) (int, error) {
	n, err := s.line.Read(p)
	s.hash.Write(p[:n])
	s.stored += int64(n)
	return n, err
}

func (s *Segment) end() error {
	switch h := s.Header; {
	case s.stored != h.Stored:
		return fmt.Errorf("%w: segment %d has %d bytes instead of %d", backup.ErrCorrupt, h.Number, s.stored, h.Stored)
	case hex.EncodeToString(s.hash.Sum(nil)) != h.SHA256:
		return fmt.Errorf("%w: the checksum of segment %d is another", backup.ErrCorrupt, h.Number)
	case s.bytes != h.Bytes:
		return fmt.Errorf("%w: segment %d holds %d bytes instead of %d", backup.ErrCorrupt, h.Number, s.bytes, h.Bytes)
	}
	return io.EOF
}

// Close lets go of the segment.
func (s *Segment) Close() {
	if s.zstd != nil {
		s.zstd.Close()
	}
	s.body.Close()
}

// Header reads a segment's header alone.
func (f Folder) Header(ctx context.Context, number uint64) (*Header, error) {
	s, err := f.Open(ctx, number)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Header, nil
}

// Verify reads a segment to its end and says whether it is what was written.
func (f Folder) Verify(ctx context.Context, number uint64) (*Header, error) {
	s, err := f.Open(ctx, number)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := io.Copy(io.Discard, s); err != nil {
		return s.Header, err
	}
	return s.Header, nil
}

// Head returns the header of the newest segment that can be read, and the number of the newest there is; nil and 0 for an
// empty archive. hint is a number that was there before, or 0: from there on it is found without listing all.
func (f Folder) Head(ctx context.Context, hint uint64) (*Header, uint64, error) {
	newest := uint64(0)
	var head *Header
	if hint > 0 {
		for number := hint; ; number++ {
			h, err := f.Header(ctx, number)
			if errors.Is(err, store.ErrNotFound) {
				break
			}
			if err != nil && !errors.Is(err, backup.ErrCorrupt) {
				return nil, 0, err
			}
			newest = number
			if err == nil {
				head = h
			}
		}
		if head != nil {
			return head, newest, nil
		}
	}
	numbers, err := f.Numbers(ctx)
	if err != nil || len(numbers) == 0 {
		return nil, 0, err
	}
	for i := len(numbers) - 1; i >= 0; i-- {
		h, err := f.Header(ctx, numbers[i])
		if err == nil {
			return h, numbers[len(numbers)-1], nil
		}
		if !errors.Is(err, backup.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
			return nil, 0, err
		}
	}
	return nil, numbers[len(numbers)-1], nil
}
