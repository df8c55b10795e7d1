package topology

import "time"

const (
	// Failovers by mere silence are limited as by a token bucket: failoverBurst may follow each other at once, and each is paid for after
	// failoverInterval. Beyond that silence has to last coolPatience: a network that comes and goes must not drive the primary around.
	failoverInterval = time.Minute
	failoverBurst    = 2
	coolPatience     = 10 * time.Second
)

// Failovers records the failovers of a cluster, and limits those by mere silence.
type Failovers struct {
	// PromotedAt is when a member was last promoted in place of another that failed, in Unix seconds.
	PromotedAt int64 `json:"promotedAt,omitempty"`
	// FailoversPaidAt is when, in Unix seconds, the failovers by mere silence are paid for: each adds failoverInterval.
	FailoversPaidAt int64 `json:"failoversPaidAt,omitempty"`
}

// recordFailover records a failover. One by mere silence counts against the limit.
func (f *Failovers) recordFailover(now time.Time, silence bool) {
	f.PromotedAt = now.Unix()
	if silence {
		f.FailoversPaidAt = max(f.FailoversPaidAt, now.Unix()) + int64(failoverInterval.Seconds())
	}
}

// failoversSpent says whether so many followed each other that the next waits for coolPatience.
func (f Failovers) failoversSpent(now time.Time) bool {
	return f.FailoversPaidAt-now.Unix() > (failoverBurst-1)*int64(failoverInterval.Seconds())
}
