package pass

import (
	"testing"
	"time"
)

// TestARestartThatIsDueInTheFuture was noted by a clock that went wrong: it happens once, and not again and again until then.
func TestARestartThatIsDueInTheFuture(t *testing.T) {
	n, now := NewCache(""), time.Now()
	pending := func(started time.Time, due int64) bool { return started.Unix() < n.RestartDue("orders-0", due, now) }
	if due := now.Unix(); !pending(now.Add(-time.Minute), due) || pending(now, due) {
		t.Error("one that is due now")
	}
	due, before := now.Add(time.Hour).Unix(), now.Add(-time.Minute)
	if !pending(before, due) {
		t.Error("a server that started before is not restarted")
	}
	now = now.Add(20 * time.Second)
	if started := now.Add(-10 * time.Second); pending(started, due) {
		t.Error("a server that was restarted since is restarted again")
	}
	if another := due + 60; !pending(now.Add(-10*time.Second), another) {
		t.Error("another one is not noticed")
	}
}
