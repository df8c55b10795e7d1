package conn

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// bound is a statement under way that must end in time: by its limit, and with its caller's context. The connection's own deadline
// sees to that. A context that ends costs the driver a message to a goroutine and back for each statement, database/sql another
// goroutine, and the clock a timer; a thousand clusters are written to each second.
type bound struct {
	s      *Session
	caller context.Context //nolint:containedctx // of the one statement
	// ctx has the caller's values and never ends: it is what the driver gets.
	ctx   context.Context //nolint:containedctx // of the one statement
	until time.Time
	stop  func() bool
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// bind begins a statement that may take limit, which is more than zero. Call release when it is over.
func (s *Session) bind(ctx context.Context, limit time.Duration) bound {
	s.wire.begin()
	b := bound{s: s, caller: ctx, ctx: context.WithoutCancel(ctx), until: time.Now().Add(limit)} //nolint:forbidigo // the kernel's own clock
	if end, ok := ctx.Deadline(); ok && end.Before(b.until) {
		b.until = end
	}
	if ctx.Err() != nil {
		b.until = longAgo // nothing must leave for the server
	}
	_ = s.wire.SetDeadline(b.until) // fails on a closed connection only, and so does the statement
	if ctx.Done() != nil {
		wire := s.wire
		b.stop = context.AfterFunc(ctx, func() { _ = wire.SetDeadline(longAgo) })
	}
	return b
}

// note gives the statement's error its meaning, and marks the session broken when it is anything but an answer of the server.
func (b bound) note(err error) error {
	if err != nil && ServerErrorNumber(err) == 0 && !errors.Is(err, sql.ErrNoRows) && b.caller.Err() == nil && !time.Now().Before(b.until) { //nolint:forbidigo // the kernel's own clock
		err = ErrDeadline // the driver says "invalid connection"
	}
	return b.s.note(b.caller, err)
}

// release ends the statement. When its caller's context has ended meanwhile, the connection may be cut off at any moment: nothing
// goes over it any more, as after a statement that was cut off.
func (b bound) release() {
	if b.stop != nil && !b.stop() {
		if !b.s.broken {
			b.s.broken, b.s.timedOut, b.s.failure = true, true, ContextError(b.caller)
		}
		return
	}
	if !b.s.broken {
		_ = b.s.wire.SetDeadline(time.Time{}) // fails on a closed connection only
	}
}
