package mysql

import (
	"context"
	"time"
)

// AwaitOpen waits until something takes connections at the member's address where nothing did, trying once in every pause,
// which also bounds each try. It returns false when the first try succeeds already, so that nobody waits for what is no
// news, and when ctx ends. Who took the connection it does not ask: it is closed without a word.
func (m *Member) AwaitOpen(ctx context.Context, pause time.Duration) bool {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for closed := false; ; closed = true {
		if m.takesConnections(ctx, pause) {
			return closed
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}

// takesConnections says whether a TCP connection to the member is made within a time.
func (m *Member) takesConnections(ctx context.Context, limit time.Duration) bool {
	endpoint, _ := m.e.target()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := m.pool.options.Dial(ctx, "tcp", endpoint.Address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said on it
	return true
}
