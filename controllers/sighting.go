package controllers

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// lookPatience is how long a pass waits for a member's answer, silentPatience for that of one which gave none before: a
	// machine that is dead must not slow down what is done about it.
	lookPatience   = 1500 * time.Millisecond
	silentPatience = 300 * time.Millisecond
	// lookTimeout is when an answer is given up that no pass waits for any more.
	lookTimeout = 4 * time.Second
	// lookFresh is how old an answer may be that came after its pass had gone on.
	lookFresh = time.Second
)

// sighting is one look at a member's mysqld. It goes on when the pass that began it does not wait any longer, and the next
// pass takes what came of it.
type sighting struct {
	started time.Time
	done    chan struct{}
	// What follows is written before done is closed and read only after.
	observation mysql.Observation
	ended       time.Time
	// claimed says that the member's writing session was asked for, claim what came of that.
	claimed bool
	claim   error
}

// look begins to look at a member, or returns the look that is under way or has just ended.
func (r *mysqlObserver) look(ctx context.Context, s *pass, member string, in *topology.Instance) *sighting {
	if sg := s.cache.looks.sightings[in.ID]; sg != nil {
		if _, ended := sg.outcome(); !ended || r.Clock.Since(sg.ended) < lookFresh {
			return sg
		}
	}
	sg := &sighting{started: r.Clock.Now(), done: make(chan struct{})}
	s.cache.looks.sightings[in.ID] = sg
	handle := r.handle(ctx, s, member, in.ID, in.Address)
	handle.WatchSettings(s.settingNames())
	wantsClaim := !s.cache.looks.claimed[in.ID]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	go func() {
		defer cancel()
		defer close(sg.done)
		sg.observation = handle.Observe(ctx)
		if wantsClaim && sg.observation.Access == mysql.AccessVerified {
			sg.claimed, sg.claim = true, handle.Claim(ctx)
		}
		sg.ended = r.Clock.Now()
	}()
	return sg
}

// await waits for the end of the look, at most for a time.
func (sg *sighting) await(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-sg.done:
	case <-timer.C:
	}
}

// outcome returns what was seen, or that nothing was until now.
func (sg *sighting) outcome() (mysql.Observation, bool) {
	select {
	case <-sg.done:
		return sg.observation, true
	default:
		return mysql.Observation{Access: mysql.AccessSilent, Reason: "no answer yet"}, false
	}
}
