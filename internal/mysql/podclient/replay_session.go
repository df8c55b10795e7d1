package podclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	goclient "github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// MaxStatement is the longest statement that a server takes, in bytes.
const MaxStatement = conn.MaxPacket - 1

// ReplaySession is a session that replays transactions: under their own GTIDs, into the binary log. It sends statements that no
// memory holds. Close it.
type ReplaySession struct {
	conn *goclient.Conn
	// piece is what is sent at once of a long statement: a packet's header and the longest packet.
	piece []byte
}

// OpenReplay opens a session beside the visit's own, on the same server as the same user. PrepareGround comes before it.
func (v *Visit) OpenReplay(ctx context.Context) (*ReplaySession, error) {
	link, err := packets(ctx, v.o)
	if err != nil {
		return nil, fmt.Errorf("begin the replay on %s: %w", v.o.Endpoint.ServerName, err)
	}
	r := &ReplaySession{conn: link}
	// Whoever recovers the server after this pod ends the session by the lock: it may hold a transaction, and its GTID.
	for _, statement := range []string{"SET NAMES utf8mb4", replaySettings(), fmt.Sprintf("DO GET_LOCK('%s', %d)", replayLock, lockPatience)} {
		if err := r.Replay(ctx, statement); err != nil {
			r.Close()
			return nil, fmt.Errorf("begin the replay on %s: %w", v.o.Endpoint.ServerName, err)
		}
	}
	return r, nil
}

// Close ends the session, and takes back a transaction that has no end yet.
func (r *ReplaySession) Close() { _ = r.conn.Conn.Close() }

// Replay runs one statement, as it is and however long it takes.
func (r *ReplaySession) Replay(ctx context.Context, statement string) error {
	return r.during(ctx, func() error {
		_, err := r.conn.Execute(statement)
		return err
	})
}

// ReplayFrom runs one statement that is sent as it is read. An error of what it is read from ends the session.
func (r *ReplaySession) ReplayFrom(ctx context.Context, statement io.Reader) error {
	var failure error
	err := r.during(ctx, func() error {
		if failure = r.send(statement); failure != nil {
			return failure
		}
		return r.answer()
	})
	var broken *readError
	if errors.As(failure, &broken) {
		r.Close() // the server waits for the rest, which must not come
		return broken.err
	}
	return err
}

// readError is one of what a statement is read from.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// send sends a statement. A packet of the greatest length says that another one follows.
func (r *ReplaySession) send(statement io.Reader) error {
	const header = 4
	if r.piece == nil {
		r.piece = make([]byte, header+gomysql.MaxPayloadLen)
	}
	r.conn.ResetSequence()
	statement = io.MultiReader(strings.NewReader(string(rune(gomysql.COM_QUERY))), statement)
	for {
		n, err := io.ReadFull(statement, r.piece[header:])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return &readError{err}
		}
		if last {
			return r.conn.WritePacket(r.piece[:header+n])
		}
		copy(r.piece, []byte{0xff, 0xff, 0xff, r.conn.Sequence})
		if _, err := r.conn.Write(r.piece); err != nil {
			return err
		}
		r.conn.Sequence++
	}
}

// answer reads what the server says to a statement that gives no rows.
func (r *ReplaySession) answer() error {
	answer, err := r.conn.ReadPacket()
	switch {
	case err != nil:
		return err
	case len(answer) > 0 && answer[0] == gomysql.OK_HEADER:
		return nil
	case len(answer) > 0 && answer[0] == gomysql.ERR_HEADER:
		return r.conn.HandleErrorPacket(answer)
	}
	return errors.New("the server gave an answer that is none")
}

// during does something on the connection until ctx ends. An error that is no answer of the server wraps ErrUnreachable.
func (r *ReplaySession) during(ctx context.Context, do func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := r.conn.SetDeadline(time.Time{}); err != nil {
		return conn.Unreachable(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := do()
	switch {
	case err == nil, conn.ServerErrorNumber(err) != 0:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return conn.Unreachable(err)
}
