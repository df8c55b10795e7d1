package simulation

import "math/rand/v2"

// timeOutSeed begins the numbers from which is drawn when somebody lets commits wait for a moment only.
const timeOutSeed = 0x74696d65

const (
	// timeOutTries is how often, once a second, a commit is looked for that waits.
	timeOutTries = 30
	// longestTimeOut is the longest time that a commit may wait then.
	longestTimeOut = 10 * second
)

// drawTimeOuts lets a person lower rpl_semi_sync_source_timeout for a moment, in some schedules. The commits that wait then keep that limit,
// whatever the operator sets.
func drawTimeOuts(w *world, seed, schedule uint64) {
	rng := rand.New(rand.NewPCG(seed^timeOutSeed, schedule))
	if rng.IntN(4) > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		limit := 1 + rng.Int64N(longestTimeOut)
		w.after(rng.Int64N(w.shape.span+1), func() { limitWaiting(w, limit, timeOutTries) })
	}
}

// limitWaiting has the primary time out unless the first commit that waits is answered in time.
func limitWaiting(w *world, limit int64, tries int) {
	if w.healed > 0 || w.desired.Deleting || w.lossy || tries == 0 {
		return
	}
	s := w.serverAt(w.kube.primary)
	if s == nil || !s.writable || !s.waits() || len(s.waiting) == 0 {
		w.after(second, func() { limitWaiting(w, limit, tries-1) })
		return
	}
	c := s.waiting[0]
	w.after(limit, func() {
		if s.alive() && !s.on.frozen && s.waits() && len(s.waiting) > 0 && s.waiting[0] == c {
			w.say("MEDDLING: a commit of %s has waited for %d ms, and everybody is answered", s.on.member, limit)
			timeOut(s)
		}
	})
}
