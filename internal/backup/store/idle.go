package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// idle is how long an answer that has begun may bring no byte before its connection is given up. S3 sends without a pause; a
// connection whose other end is gone says nothing for ever.
const idle = time.Minute

// doer is an HTTP client.
type doer interface {
	Do(request *http.Request) (*http.Response, error)
}

// impatient is an HTTP client whose answers end with an idleError when they stop coming.
type impatient struct {
	doer
	after time.Duration
}

// Do sends a request.
func (i impatient) Do(request *http.Request) (*http.Response, error) {
	ctx, giveUp := context.WithCancelCause(request.Context())
	request = request.WithContext(ctx)
	countSent(request)
	answer, err := i.doer.Do(request)
	if err != nil {
		giveUp(nil)
		return answer, err
	}
	b := &idleBody{ReadCloser: answer.Body, ctx: ctx, giveUp: giveUp, after: i.after}
	b.timer = time.AfterFunc(i.after, func() { giveUp(idleError{i.after}) })
	b.timer.Stop()
	answer.Body = b
	return answer, nil
}

// idleBody is what an answer brings. Only while somebody reads does the time count: who restores may be busy for long.
type idleBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // the request's, which the time-out ends
	giveUp context.CancelCauseFunc
	after  time.Duration
	timer  *time.Timer
}

func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.after)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if late := (idleError{}); err != nil && errors.As(context.Cause(b.ctx), &late) {
		err = late
	}
	return n, err
}

func (b *idleBody) Close() error {
	b.timer.Stop()
	b.giveUp(nil)
	return b.ReadCloser.Close()
}

// idleError is a net.Error: an answer stopped coming.
type idleError struct{ after time.Duration }

func (e idleError) Error() string { return fmt.Sprintf("no byte came for %s", e.after) }

func (idleError) Timeout() bool { return true }

func (idleError) Temporary() bool { return true }
