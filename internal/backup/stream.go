package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
)

const (
	// volumeSize is where a stream goes on in another object, in bytes: below what a multipart upload of unknown length
	// can hold, see the store's part size.
	volumeSize = 48 << 30
	// zstdWindow bounds the memory of compressing, in bytes: it is that of zstd's own default level. zstdWindowMost bounds
	// that of decompressing: there are backups with a larger window.
	zstdWindow, zstdWindowMost = 2 << 20, 8 << 20
)

// Stream is a compressed stream of bytes, in one object or several.
type Stream struct {
	// Objects hold it, in this order. Their names are relative to the backup's folder.
	Objects []StoredObject `json:"objects"`
	// Bytes is its length before compression.
	Bytes int64 `json:"bytes"`
	// SHA256 is that of the objects one after the other, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// StoredObject is a part of a stream.
type StoredObject struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Stored is how many bytes are stored.
func (s Stream) Stored() int64 {
	var sum int64
	for _, o := range s.Objects {
		sum += o.Bytes
	}
	return sum
}

// packer writes a stream.
type packer struct {
	place  Place
	folder string
	name   string
	limit  int64 // volumeSize, or less in tests

	stream Stream
	whole  hash.Hash
	part   *volume
}

// volume is the object that is being written.
type volume struct {
	name    string
	written int64
	// sum is the stream's own for the first object, which is the whole stream as a rule: it is read at its end, and goes on.
	sum  hash.Hash
	pipe *io.PipeWriter
	// err is what the upload ended with; it is set once done is closed.
	err  error
	done chan struct{}
}

// Pack compresses what src gives until io.EOF and stores it under name.zst in a folder, in constant memory. With any other
// error of src, or a ctx that ends, the object being written does not appear.
func (p Place) Pack(ctx context.Context, folder, name string, src io.Reader) (Stream, error) {
	return p.pack(ctx, folder, name, src, volumeSize)
}

func (p Place) pack(ctx context.Context, folder, name string, src io.Reader, limit int64) (Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &packer{place: p, folder: folder, name: name, limit: limit, whole: sha256.New()}
	err := w.run(ctx, src)
	if err != nil {
		cancel(err)
		w.abandon(err)
		return Stream{}, err
	}
	w.stream.SHA256 = hex.EncodeToString(w.whole.Sum(nil))
	return w.stream, nil
}

func (w *packer) run(ctx context.Context, src io.Reader) error {
	sink := writerFunc(func(b []byte) (int, error) { return w.write(ctx, b) })
	// One goroutine beside ours, and the fastest level: it stores about 3 % more than the next one and takes a third less
	// time, in which mysqldump and the server can work where cores are few (make bench-backup).
	compressor, err := zstd.NewWriter(sink, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return fmt.Errorf("set up compression: %w", err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{compressor}, src, make([]byte, 1<<20))
	w.stream.Bytes = n
	if err != nil {
		compressor.Reset(nil) // what it still holds must not be stored
		return err
	}
	if err := compressor.Close(); err != nil {
		return err
	}
	return w.finish()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// write stores compressed bytes, and begins another object where one is full.
func (w *packer) write(ctx context.Context, b []byte) (int, error) {
	written := 0
	for written < len(b) {
		if w.part == nil {
			w.begin(ctx)
		}
		n := int(min(int64(len(b)-written), w.limit-w.part.written))
		piece := b[written : written+n]
		if _, err := w.part.pipe.Write(piece); err != nil {
			<-w.part.done // the reader at the other end gave up: its own error says why
			return written, errors.Join(w.part.err, err)
		}
		w.whole.Write(piece)
		if w.part.sum != w.whole {
			w.part.sum.Write(piece)
		}
		w.part.written += int64(n)
		written += n
		if w.part.written == w.limit {
			if err := w.finish(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (w *packer) begin(ctx context.Context) {
	name, sum := w.name+".zst", w.whole
	if n := len(w.stream.Objects); n > 0 {
		name, sum = fmt.Sprintf("%s.zst.%03d", w.name, n), sha256.New()
	}
	r, pipe := io.Pipe()
	w.part = &volume{name: name, sum: sum, pipe: pipe, done: make(chan struct{})}
	go func(v *volume) {
		defer close(v.done)
		_, v.err = w.place.Store.Put(ctx, w.place.Folder(w.folder)+"/"+name, r)
		r.CloseWithError(errStored) // lets a writer go on that would wait for ever
	}(w.part)
}

// errStored is what a writer hears whose reader has ended.
var errStored = errors.New("the upload has ended")

// finish completes the object that is being written.
func (w *packer) finish() error {
	if w.part == nil {
		return nil
	}
	v := w.part
	v.pipe.Close()
	<-v.done
	w.part = nil
	if v.err != nil {
		return v.err
	}
	w.stream.Objects = append(w.stream.Objects, StoredObject{Name: v.name, Bytes: v.written, SHA256: hex.EncodeToString(v.sum.Sum(nil))})
	return nil
}

// abandon gives the object up that is being written, and waits until the store let go of it.
func (w *packer) abandon(err error) {
	if w.part == nil {
		return
	}
	w.part.pipe.CloseWithError(err)
	<-w.part.done
	w.part = nil
}

// Unpack opens a stream that Pack stored and gives it as it was before compression. What was altered, cut off or made
// longer ends with ErrCorrupt, at the latest in place of io.EOF: whoever uses what he reads before must take it back then.
func (p Place) Unpack(ctx context.Context, folder string, s Stream) (io.ReadCloser, error) {
	source := &objects{ctx: ctx, place: p, folder: folder, left: s.Objects, whole: sha256.New(), want: s.SHA256}
	decoder, err := zstd.NewReader(source, zstd.WithDecoderMaxWindow(zstdWindowMost), zstd.WithDecoderConcurrency(1))
	if err != nil {
		source.Close()
		return nil, fmt.Errorf("set up decompression: %w", err)
	}
	return &unpacked{decoder: decoder, source: source, want: s.Bytes}, nil
}

// objects reads the objects of a stream one after the other and compares each with what it should be.
type objects struct {
	ctx    context.Context //nolint:containedctx // a reader has nowhere else to take it from
	place  Place
	folder string
	left   []StoredObject
	whole  hash.Hash
	want   string

	body io.ReadCloser
	sum  hash.Hash
	read int64
	// failure is what ended the reading, other than the end.
	failure error
}

func (o *objects) Read(p []byte) (int, error) {
	n, err := o.take(p)
	if err != nil && !errors.Is(err, io.EOF) {
		o.failure = err
	}
	return n, err
}

func (o *objects) take(p []byte) (int, error) {
	for {
		if o.body == nil {
			if len(o.left) == 0 {
				if hex.EncodeToString(o.whole.Sum(nil)) != o.want {
					return 0, fmt.Errorf("%w: the checksum of the whole is another", ErrCorrupt)
				}
				return 0, io.EOF
			}
			body, err := o.place.Store.Get(o.ctx, o.place.Folder(o.folder)+"/"+o.left[0].Name)
			if err != nil {
				if errors.Is(err, store.ErrNotFound) {
					err = fmt.Errorf("%w: %w", ErrCorrupt, err)
				}
				return 0, err
			}
			o.body, o.sum, o.read = body, sha256.New(), 0
		}
		n, err := o.body.Read(p)
		o.sum.Write(p[:n])
		o.whole.Write(p[:n])
		if o.read += int64(n); o.read > o.left[0].Bytes {
			return 0, fmt.Errorf("%w: %s has more than %d bytes", ErrCorrupt, o.left[0].Name, o.left[0].Bytes)
		}
		if errors.Is(err, io.EOF) {
			err = o.next()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next closes an object that was read to its end.
func (o *objects) next() error {
	object := o.left[0]
	o.body.Close()
	o.body, o.left = nil, o.left[1:]
	if o.read != object.Bytes {
		return fmt.Errorf("%w: %s has %d bytes instead of %d", ErrCorrupt, object.Name, o.read, object.Bytes)
	}
	if hex.EncodeToString(o.sum.Sum(nil)) != object.SHA256 {
		return fmt.Errorf("%w: the checksum of %s is another", ErrCorrupt, object.Name)
	}
	return nil
}

// Close lets go of the object that is being read.
func (o *objects) Close() {
	if o.body != nil {
		o.body.Close()
		o.body = nil
	}
}

// unpacked is a decompressed stream.
type unpacked struct {
	decoder *zstd.Decoder
	source  *objects
	want    int64
	read    int64
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.decoder.Read(p)
	u.read += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		// The decoder stops at the end of the last frame, and may not have asked for what follows.
		if _, rest := io.Copy(io.Discard, u.source); rest != nil {
			return n, rest
		}
		if u.read != u.want {
			return n, fmt.Errorf("%w: %d bytes instead of %d", ErrCorrupt, u.read, u.want)
		}
	case u.source.failure != nil:
		return n, u.source.failure
	default:
		return n, fmt.Errorf("%w: %w", ErrCorrupt, err) // the decoder's own complaint
	}
	return n, err
}

func (u *unpacked) Close() error {
	u.decoder.Close()
	u.source.Close()
	return nil
}
