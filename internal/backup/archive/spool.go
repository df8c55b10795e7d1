package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/binlog"
)

const (
	// window bounds the memory of compressing and of decompressing, in bytes.
	window = 4 << 20
	// writing is the name of the file of the segment that is being written.
	writing = "writing"
	// hintName is the file with the number of a segment that is in the archive.
	hintName = "hint"
	// Extensions of a segment that is complete and not yet in the archive. It is complete once its header is there.
	headerExt, bodyExt = ".header", ".body"
)

// Spool keeps segments on a disk until they are in the archive. What is in it survives the pod, and is of use only as long
// as it follows what the archive ends with.
type Spool struct {
	dir string

	mu      sync.Mutex
	pending []*spooled
	bytes   int64
	changed chan struct{} // closed and replaced at every change
}

// spooled is a segment that waits.
type spooled struct {
	header *Header
	size   int64
}

// OpenSpool reads what is in a directory.
func OpenSpool(dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o770); err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	s := &Spool{dir: dir, changed: make(chan struct{})}
	names, err := filepath.Glob(filepath.Join(dir, "*"+headerExt))
	if err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if header, size, err := s.load(name); err == nil {
			s.pending = append(s.pending, &spooled{header, size})
			s.bytes += size
		}
	}
	return s, s.clean()
}

func (s *Spool) load(name string) (*Header, int64, error) {
	line, err := os.ReadFile(name) //nolint:gosec // in our own directory
	if err != nil {
		return nil, 0, err
	}
	header, err := decodeHeader(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return nil, 0, err
	}
	info, err := os.Stat(s.path(header.Number, bodyExt))
	if err != nil {
		return nil, 0, err
	}
	if info.Size() != header.Stored || filepath.Base(name) != filepath.Base(s.path(header.Number, headerExt)) {
		return nil, 0, errors.New("it is not whole")
	}
	return header, info.Size(), nil
}

// clean removes what belongs to no segment that waits.
func (s *Spool) clean() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read the spool: %w", err)
	}
	for _, entry := range entries {
		keep := entry.IsDir() || entry.Name() == hintName || slices.ContainsFunc(s.pending, func(p *spooled) bool {
			return strings.HasPrefix(entry.Name(), number20(p.header.Number)+".")
		})
		if !keep {
			if err := os.Remove(filepath.Join(s.dir, entry.Name())); err != nil {
				return fmt.Errorf("clean the spool: %w", err)
			}
		}
	}
	return nil
}

func number20(number uint64) string { return fmt.Sprintf("%020d", number) }

func (s *Spool) path(number uint64, ext string) string {
	return filepath.Join(s.dir, number20(number)+ext)
}

// Hint returns the number of a segment that was in the archive, or 0.
func (s *Spool) Hint() uint64 {
	text, err := os.ReadFile(filepath.Join(s.dir, hintName))
	if err != nil {
		return 0
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// Pending returns the headers of what waits, in order.
func (s *Spool) Pending() []*Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	headers := make([]*Header, len(s.pending))
	for i, p := range s.pending {
		headers[i] = p.header
	}
	return headers
}

// Bytes is how much waits.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Changed is closed at the next change of what waits.
func (s *Spool) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Spool) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Keep throws all away but the first n that wait.
func (s *Spool) Keep(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = s.pending[:n]
	s.bytes = 0
	for _, p := range s.pending {
		s.bytes += p.size
	}
	s.change()
	return s.clean()
}

// open reads a segment that waits as the object that it becomes.
func (s *Spool) open(header *Header) (io.Reader, io.Closer, error) {
	line, err := encodeHeader(header)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(s.path(header.Number, bodyExt))
	if err != nil {
		return nil, nil, fmt.Errorf("read the spool: %w", err)
	}
	return io.MultiReader(bytes.NewReader(line), &checked{file, sha256.New(), header.SHA256}), file, nil
}

// checked is a file that ends with an error when it is not what was written into it.
type checked struct {
	r    io.Reader
	hash hash.Hash
	want string
}

// errSpool: the disk gives back something else than what was written to it.
var errSpool = errors.New("the spool is damaged")

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.hash.Sum(nil)) != c.want {
		err = errSpool
	}
	return n, err
}

// done forgets the first that waits: it is in the archive.
func (s *Spool) done() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.pending[0]
	if err := writeFile(filepath.Join(s.dir, hintName), []byte(strconv.FormatUint(first.header.Number, 10))); err != nil {
		return fmt.Errorf("note what is archived: %w", err)
	}
	s.pending, s.bytes = s.pending[1:], s.bytes-first.size
	s.change()
	for _, ext := range []string{headerExt, bodyExt} {
		if err := os.Remove(s.path(first.header.Number, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clean the spool: %w", err)
		}
	}
	return nil
}

// writeFile makes a file appear whole.
func writeFile(path string, content []byte) error {
	temporary := path + ".new"
	file, err := os.Create(temporary) //nolint:gosec // in our own directory
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// writer writes a segment into the spool.
type writer struct {
	spool  *Spool
	header Header
	set    binlog.Collector
	// latest is the transaction with the latest time.
	latest string
	file   *os.File
	zstd   *zstd.Encoder
	hash   hash.Hash
	began  time.Time
}

// begin opens a segment of a log with the given format.
func (s *Spool) begin(header Header, format *binlog.Format, now time.Time) (*writer, error) {
	file, err := os.Create(filepath.Join(s.dir, writing))
	if err != nil {
		return nil, fmt.Errorf("write a segment: %w", err)
	}
	w := &writer{spool: s, header: header, file: file, hash: sha256.New(), began: now}
	if w.zstd, err = zstd.NewWriter(io.MultiWriter(file, w.hash), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, errors.Join(fmt.Errorf("set up compression: %w", err), file.Close())
	}
	if err := errors.Join(w.write([]byte(binlog.Magic)), w.write(format.Event)); err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

func (w *writer) write(b []byte) error {
	n, err := w.zstd.Write(b)
	w.header.Bytes += int64(n)
	if err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	return nil
}

// committed notes a transaction all of whose events were written.
func (w *writer) committed(t *binlog.Transaction) {
	w.set.Add(*t)
	w.header.Transactions++
	if w.header.First.IsZero() || t.Committed.Before(w.header.First) {
		w.header.First = t.Committed
	}
	if t.Committed.After(w.header.Last) {
		w.header.Last, w.latest = t.Committed, t.GTID()
	}
}

// finish completes the segment: its header makes it one.
func (w *writer) finish(now time.Time) (*Header, error) {
	h := &w.header
	before := h.Preceding()
	own := w.set.Set()
	h.GTIDSet, h.Cumulative = own.String(), before.Union(own).String()
	h.FormatVersion, h.ClosedAt = formatVersion, now.UTC()
	latest := h.Committed(h.Last)
	if !latest.Equal(h.Last) {
		h.Ahead = w.latest
	}
	if latest.After(h.Reaches) {
		h.Reaches = latest
	}
	err := w.zstd.Close()
	if err == nil {
		err = w.file.Sync()
	}
	info, statErr := w.file.Stat()
	if err = errors.Join(err, statErr, w.file.Close()); err != nil {
		return nil, fmt.Errorf("complete a segment: %w", err)
	}
	h.Stored, h.SHA256 = info.Size(), hex.EncodeToString(w.hash.Sum(nil))
	line, err := encodeHeader(h)
	if err != nil {
		return nil, err
	}
	s := w.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(filepath.Join(s.dir, writing), s.path(h.Number, bodyExt)); err != nil {
		return nil, fmt.Errorf("complete a segment: %w", err)
	}
	if err := writeFile(s.path(h.Number, headerExt), line); err != nil {
		return nil, fmt.Errorf("complete a segment: %w", err)
	}
	s.pending = append(s.pending, &spooled{h, info.Size()})
	s.bytes += info.Size()
	s.change()
	return h, nil
}

// abandon throws the segment away.
func (w *writer) abandon() {
	w.zstd.Reset(nil)
	w.file.Close()
	os.Remove(w.file.Name())
}
