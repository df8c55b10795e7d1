package store

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// progressKey is the key of a counter in a context.
type progressKey struct{}

// WithProgress returns a context in which uploads add to accepted what the store takes, in bytes. Those of a repeated attempt count again.
func WithProgress(ctx context.Context, accepted *atomic.Int64) context.Context {
	return context.WithValue(ctx, progressKey{}, accepted)
}

// Accepted adds bytes that a store took to the counter of the context, if it has one.
func Accepted(ctx context.Context, n int) {
	if counter, ok := ctx.Value(progressKey{}).(*atomic.Int64); ok {
		counter.Add(int64(n))
	}
}

// sentBody counts what is read of a request's body, which is what the connection took.
type sentBody struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // the request's
}

func (b sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	Accepted(b.ctx, n)
	return n, err
}

// countSent has a request count what is sent of its body.
func countSent(request *http.Request) {
	if request.Body != nil && request.Body != http.NoBody {
		request.Body = sentBody{request.Body, request.Context()}
	}
}

// acceptingWriter counts what is written, and has it stored in pieces of syncEach bytes: what waits in memory was not accepted yet.
type acceptingWriter struct {
	ctx  context.Context //nolint:containedctx // a writer has nowhere else to take it from
	file interface {
		io.Writer
		Sync() error
	}
	waiting int
}

// syncEach is how much of a file may wait to be written, in bytes.
const syncEach = 64 << 20

func (w *acceptingWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	Accepted(w.ctx, n)
	if w.waiting += n; err == nil && w.waiting >= syncEach {
		w.waiting, err = 0, w.file.Sync()
	}
	return n, err
}
