package conn

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	driver "github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// DefaultMaxAnswer is how many bytes a server may answer to one statement where nobody chose another bound: enough for lists of all
// tables, which pods read that serve one cluster. The driver itself joins packets without end.
const DefaultMaxAnswer = 64 << 20

// longestRefusal is how many bytes of an error message of the server's are kept. MySQL's own are no longer than 512 (MYSQL_ERRMSG_SIZE).
const longestRefusal = 512

// ErrAnswerTooLarge is what a statement ends with whose answer is longer than its session may take.
var ErrAnswerTooLarge = errors.New("the connection was cut off")

// trackedConn tells its entry when it is closed, and is closed when an answer is too large.
type trackedConn struct {
	net.Conn
	forget func()
	// most is how many bytes the server may answer to one statement, answered how many came since the last statement began.
	most     int64
	answered atomic.Int64
}

func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.answered.Add(int64(n)) > c.most {
		_ = c.Close() // the reason is the error below
		return n, c.tooLarge()
	}
	return n, err
}

// begin says that a statement begins.
func (c *trackedConn) begin() {
	if c != nil {
		c.answered.Store(0)
	}
}

// explain replaces the error of a statement whose answer was cut off for its length, and shortens a longer message of the server's than
// MySQL has.
func (c *trackedConn) explain(err error) error {
	if err != nil && c != nil && c.answered.Load() > c.most {
		return c.tooLarge()
	}
	var refusal *driver.MySQLError
	if errors.As(err, &refusal) && len(refusal.Message) > longestRefusal {
		refusal.Message = text.Shorten(refusal.Message, longestRefusal)
	}
	return err
}

func (c *trackedConn) tooLarge() error {
	return fmt.Errorf("the server's answer is larger than %d KiB: %w", c.most>>10, ErrAnswerTooLarge)
}

func (c *trackedConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
