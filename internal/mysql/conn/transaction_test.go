package conn_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// unheard is a connection whose end the server does not hear of, once it is told so, until the test has ended: as on a server
// that is too busy to notice.
type unheard struct {
	net.Conn
	deaf *atomic.Bool
}

// longestFarewell is longer than what ends a session, in bytes: the command and the alert of TLS. Every query is longer.
const longestFarewell = 40

// Write implements net.Conn.
func (c unheard) Write(b []byte) (int, error) {
	if c.deaf.Load() && len(b) < longestFarewell {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c unheard) Close() error {
	if c.deaf.Load() {
		return nil
	}
	return c.Conn.Close()
}

// TestATransactionThatIsOverWaitsForNothing: the next one does not take it for a commit that waits, though the server has not yet
// noticed the end of its session.
func TestATransactionThatIsOverWaitsForNothing(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	var last atomic.Pointer[atomic.Bool]
	m := w.Members(mysqltest.NewPool(t, func(o *conn.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { connection.Close() })
			deaf := &atomic.Bool{}
			last.Store(deaf)
			return unheard{connection, deaf}, nil
		}
		o.Hook = func(op, phase string) error {
			if op == "membership/update" && phase == "after" {
				last.Load().Store(true) // the transaction's own, which was opened last
			}
			return nil
		}
	}))[0]
	for range 3 {
		row := *m.Observe(ctx).Membership
		next := row
		next.Epoch++
		mysqltest.Must(t, m.WriteMembership(ctx, row.Epoch, next))
	}
}
