package conn

import (
	"fmt"
	"net"
	"sync/atomic"
)

// maxStatementAnswer is how many bytes a server may answer to one statement. What the operator asks for takes kilobytes, a GTID set in
// pieces some more; the driver itself joins packets without end, and a server that was taken over must not take the
// operator's memory, which all clusters share.
const maxStatementAnswer = 64 << 20

// errAnswerTooLarge is what a statement ends with whose answer is longer.
var errAnswerTooLarge = fmt.Errorf("the server's answer is larger than %d MiB, and the connection was cut off", maxStatementAnswer>>20)

// trackedConn tells its entry when it is closed, and is closed when an answer is too large.
type trackedConn struct {
	net.Conn
	forget func()
	// answered is how many bytes came since the last statement began.
	answered atomic.Int64
}

func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.answered.Add(int64(n)) > maxStatementAnswer {
		_ = c.Close() // the reason is the error below
		return n, errAnswerTooLarge
	}
	return n, err
}

// begin says that a statement begins.
func (c *trackedConn) begin() {
	if c != nil {
		c.answered.Store(0)
	}
}

// explain replaces the error of a statement whose answer was cut off for its length.
func (c *trackedConn) explain(err error) error {
	if err != nil && c != nil && c.answered.Load() > maxStatementAnswer {
		return errAnswerTooLarge
	}
	return err
}

func (c *trackedConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
