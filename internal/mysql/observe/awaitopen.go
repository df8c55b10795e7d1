package observe

import (
	"context"
	"time"
)

// AwaitOpen waits until something takes connections at the member's address where nothing did, trying once in every pause,
// which also bounds each try. It returns false when the first try succeeds already, so that nobody waits for what is no
// news, and when ctx ends. Who took the connection it does not ask: it is closed without a word.
func (m *Observer) AwaitOpen(ctx context.Context, pause time.Duration) bool {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for closed := false; ; closed = true {
		if m.h.TakesConnections(ctx, pause) {
			return closed
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}
