package conn

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// What the tests see of the package's inside.
const (
	ControlLock     = controlLock
	TransactionLock = transactionLock
	OpRoom          = opRoom
	RestAfter       = restAfter
	SeldomLooks     = seldomLooks
	LongestRefusal  = longestRefusal
)

// Sessions is how many of the pool's are open.
func (p *Pool) Sessions() int64 { return p.open.Load() }

func (s *slot) isOpen() bool {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.session != nil
}

func (s *slot) lose() {
	s.turn <- struct{}{}
	s.drop()
	s.give()
}

func (m *Handle) HasWriter() bool { return m.e.writer.isOpen() }

func (m *Handle) HasReader() bool { return m.e.reader.isOpen() }

func (m *Handle) LoseWriter() { m.e.writer.lose() }

func (m *Handle) LoseReader() { m.e.reader.lose() }

func (m *Handle) ReaderShows() *credentials { return m.e.reader.session.shown }

func (m *Handle) WriterShows() *credentials { return m.e.writer.session.shown }

// DropSlots has nobody hold the sessions of a member that was forgotten.
func (m *Handle) DropSlots() { m.e.reader, m.e.writer = slot{}, slot{} }

func (m *Handle) LastLookLongAgo() { m.e.reader.used = time.Time{} }

func (m *Handle) Looks() *resumption { return &m.e.looks }

func (m *Handle) ForgetLooks() { m.e.looks.forget() }

func (m *Handle) DialReader(ctx context.Context) (*Session, error) { return m.dialReader(ctx) }

func (s *Session) Resumed() bool { return s.resumed }

func (s *Session) OfferedLittle() bool { return s.brief }

func (s *Session) Shows() *credentials { return s.shown }

func (s *Session) Bind(ctx context.Context, limit time.Duration) bound { return s.bind(ctx, limit) }

func (b bound) Read(query string, into ...any) error {
	return b.note(b.s.conn.QueryRowContext(b.ctx, query).Scan(into...))
}

func (b bound) Stop() bool { return b.stop() }

func (b bound) Release() { b.release() }

func (r *resumption) Of(shown *credentials, now time.Time) *resumption { return r.of(shown, now) }

func (r *resumption) Kept() bool { return r.kept() }

func (r *resumption) Forget() { r.forget() }

func (c *credentials) Copy() *credentials { return &credentials{certificate: c.certificate} }

func (c *credentials) NotAfter() time.Time { return c.certificate.Leaf.NotAfter }

// Shown are the credentials of an identity that sessions share.
func Shown(identity mysql.Identity) (*credentials, error) { return inUse.get(identity) }

// IsShown says whether a session shows an identity.
func IsShown(identity mysql.Identity) bool {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	_, there := inUse.of[digest(identity)]
	return there
}
