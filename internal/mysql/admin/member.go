package admin

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
)

// Member changes one member, and reads it. Its methods may be called by several goroutines; writes to one member take turns.
type Member struct {
	*observe.Observer
	h *conn.Handle
}

// Open returns a member of a cluster. It is cheap and does not dial.
func Open(pool *conn.Pool, endpoint mysql.Endpoint, identity mysql.Identity) *Member {
	h := pool.Handle(endpoint, identity)
	return &Member{Observer: observe.NewObserver(h), h: h}
}

// Claim takes control of a member once: it asks for the lease, takes the lock on the member, killing a holder that is not us, and asks
// for the lease once more. A new leader claims every member that it reaches before it decides anything. The session for that is
// closed again unless the server is filling up: a leader of thousands of members needs one on hardly any.
// It fails with ErrLeaseRefused, ErrUnreachable or ErrLockHeld.
func (m *Member) Claim(ctx context.Context) (err error) {
	defer m.h.Annotate(&err, "claim the writing session")
	return m.h.Claim(ctx)
}
