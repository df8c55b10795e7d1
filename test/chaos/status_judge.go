package chaos

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
)

const (
	// passAllowance is the time that the operator needs to publish a failed probe: a pass that observes silent members, and the
	// write of the status, on the two processors that the lab has for everything.
	passAllowance = 5 * time.Second
	// statusAllowance is how long status may claim that writes succeed after the last acknowledged write of the ledger: the probe
	// may succeed one interval and one time-out later, its success counts for a while, and then the operator publishes it.
	statusAllowance = probe.DefaultProbeInterval + probe.DefaultProbeTimeout + probe.ProbeFresh + passAllowance
	// claimGrace is how long a new claim may precede the first acknowledged write. The probe may be the first to reach a new
	// primary: a client of the ledger first waits for an answer of the old one, and then for a connection.
	claimGrace = following + 3*time.Second
	// attemptGap is the longest time between two attempts of a client of the ledger: a dial, two answers, and a busy machine.
	// Longer gaps are pauses, in which a missing write proves nothing.
	attemptGap = dialTimeout + 2*answerTimeout + time.Second
	// renewalGap is the longest time between two renewals of the lease of an operator that works. It renews every second.
	renewalGap = 6 * time.Second
)

// The claims of a status that the ledger can disprove, and what kstatus concludes, which the rest of the status can.
const (
	claimAvailable = "Available=True"
	claimHealthy   = "Degraded=False"
	claimKstatus   = "kstatus"
)

// Lie is a claim of the status that the ledger disproves. Its times are those of the ledger.
type Lie struct {
	Claim, Reason string
	// From and Until are when the claim was wrong beyond the allowance.
	From, Until time.Duration
}

// String says what was claimed, when, and why it is wrong.
func (l Lie) String() string {
	return fmt.Sprintf("status lie: %s from %.1f s to %.1f s of the ledger: %s", l.Claim, l.From.Seconds(), l.Until.Seconds(), l.Reason)
}

// standing is one claim as status shows it at present.
type standing struct {
	name   string
	stands bool
	since  time.Duration
	// lie is the index in statusJudge.lies of the lie that continues, or -1.
	lie int
}

// statusJudge compares the claims of a status with the writes of the ledger, event by event. It reads no clock: every event
// carries its time since the ledger began.
//
// Only an operator that can write the status can lie: the time counts in which its lease is renewed. A frozen operator or API
// server leaves an old status behind, and a new leader has the whole allowance again.
type statusJudge struct {
	mu     sync.Mutex
	claims []*standing
	lies   []Lie

	// lastAck is the last acknowledged write. silentSince is the same, moved forward by the time in which nobody wrote.
	lastAck, silentSince time.Duration
	// lastAttempt is when a write last ended, however it did; lastFailure when one last failed.
	lastAttempt, lastFailure time.Duration
	// holder has the lease, which was renewed without a gap from leadingSince to lastRenewal. Empty: none was seen.
	holder                    string
	leadingSince, lastRenewal time.Duration
}

func newStatusJudge() *statusJudge {
	return &statusJudge{claims: []*standing{{name: claimAvailable, lie: -1}, {name: claimHealthy, lie: -1}}}
}

// write records that a client of the primary Service ended an attempt to write.
func (j *statusJudge) write(at time.Duration, acknowledged bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if at-j.lastAttempt > attemptGap {
		j.silentSince += at - j.lastAttempt
	}
	j.lastAttempt = max(j.lastAttempt, at)
	if acknowledged {
		j.lastAck, j.silentSince = max(j.lastAck, at), max(j.silentSince, at)
		j.endLies()
		return
	}
	j.lastFailure = max(j.lastFailure, at)
	j.judge()
}

// paused records that nobody was meant to write until now.
func (j *statusJudge) paused(until time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if until > j.lastAttempt {
		j.silentSince += until - j.lastAttempt
		j.lastAttempt = until
	}
}

// status records the conditions that a client sees from now on.
func (j *statusJudge) status(at time.Duration, available, healthy bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, stands := range []bool{available, healthy} {
		c := j.claims[i]
		if stands != c.stands {
			c.stands, c.since, c.lie = stands, at, -1
		}
	}
}

// renewal records that an operator renewed its lease: it works, and can write the status.
func (j *statusJudge) renewal(at time.Duration, holder string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if holder != j.holder || at-j.lastRenewal > renewalGap {
		j.holder, j.leadingSince = holder, at
		j.endLies()
	}
	j.lastRenewal = at
	j.judge()
}

// leading says whether a renewal of the lease was ever seen. Without one nothing is judged.
func (j *statusJudge) leading() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.holder != ""
}

// judge begins and continues lies. Call it with the lock held.
func (j *statusJudge) judge() {
	if j.holder == "" {
		return
	}
	proven := min(j.lastFailure, j.lastRenewal)
	for _, c := range j.claims {
		limit := max(j.silentSince+statusAllowance, j.leadingSince+statusAllowance, c.since+claimGrace)
		switch {
		case !c.stands || proven <= limit:
		case c.lie >= 0:
			j.lies[c.lie].Until = proven
		default:
			c.lie = len(j.lies)
			j.lies = append(j.lies, Lie{Claim: c.name, From: limit, Until: proven,
				Reason: fmt.Sprintf("no write was acknowledged since %.1f s", j.lastAck.Seconds())})
		}
	}
}

// endLies ends what continues: the next lie is another one. Call it with the lock held.
func (j *statusJudge) endLies() {
	for _, c := range j.claims {
		c.lie = -1
	}
}

// add records lies that were found elsewhere.
func (j *statusJudge) add(lies ...Lie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lies = append(j.lies, lies...)
}

// found returns the lies so far, from one on. What continues may still become longer.
func (j *statusJudge) found(from int) []Lie {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lies[from:])
}
