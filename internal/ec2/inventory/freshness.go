package inventory

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// How old what is known of EC2 may become, and how often EC2 is asked, stands in this file:
//
//	instances, volumes, groups of ours a sweep every interval, of large accounts every second one; Observe asks for it sooner. What a list
//	                                   shows counts as soon as EC2 has answered it; nothing is created before EC2 has answered all three
//	snapshots, status of instances     read after each sweep, each by itself. While EC2 does not answer one its last answer is kept, for
//	                                   3 min as good as new; what it lacks says nothing, and status reports it (Unanswered)
//	what of a cluster is changing      looked at by id, by Refresh: every 0.5 to 5 s, the less often the longer it takes
//	a cluster whose members are silent all of it is looked at by id, by RefreshNow: every 2 s, over all clusters 4 times a second
//	a list of the sweeps that EC2      the sweeps fail, and nothing is created once the last good one is too old; looks by id go on, and what
//	throttles or refuses               they show of an instance counts with its own time (Inventory.Answered)
//	subnets                            every 10 min, those that are missing or pending every interval
//	after a failure                    the same error without a call, for a sixth of the interval (looks by id: 2 s)
//	what EC2 has just created          is believed in for 2 min, though the lists do not show it
const (
	// SweepInterval is how old the store may get when nothing is in transition.
	SweepInterval = 30 * time.Second
	// MostPages is how many pages of instances a sweep may have before it becomes rarer no more. What reconciles rely on in the
	// store is never older than two minutes, and a sweep that failed is made again before that.
	MostPages = 2
	// RetryPart of the sweep interval must pass after a failed sweep before EC2 is asked again. With a thousand clusters
	// waiting on a silent EC2 there is then one sweep every 5 s, not one after the other.
	RetryPart = 6

	// sweepPages is how many pages' time a sweep gets before it is given up.
	sweepPages = 15

	// AdvisoryFor is how long a list beside the sweep may go unanswered before what it says of the moment (that an instance is impaired)
	// counts no more, and status reports it. It is longer than what reconciles rely on in the store is old.
	AdvisoryFor = 3 * time.Minute
	// advisoryPart is how many times LookPatience a reconcile that had to sweep waits for the lists beside the sweep.
	advisoryPart = 4

	// FreshFor is how long an id that EC2 has just handed out is believed in although EC2's lists do not show it yet.
	// AWS promises "a few minutes at most" in its text on eventual consistency and usually needs seconds.
	FreshFor = 2 * time.Minute

	// RefreshFloor is the shortest time between two refreshes of one cluster. Reconciles come as fast as Kubernetes' watches
	// fire; EC2's states change in seconds.
	RefreshFloor = 500 * time.Millisecond
	// refreshCeiling is the longest such time. In between a refresh waits for refreshPart of the time that the same things
	// have been on their way: what takes minutes is seen a few seconds late, and costs few calls.
	refreshCeiling = 5 * time.Second
	refreshPart    = 8

	// UrgentFloor is the shortest time between two looks at all of one cluster, by RefreshNow.
	UrgentFloor = 2 * time.Second
	// UrgentRate and UrgentBurst bound RefreshNow over all clusters of an account, in looks a second, each of two calls. When
	// the operator itself loses its network a thousand clusters fall silent at once; EC2's bucket of 100 list calls refills
	// by 20 a second, and the sweeps and the fences must have their share of it.
	UrgentRate, UrgentBurst = 4, 20
	// UrgentSweep is how old the last sweep may be for the clusters that get no look of their own.
	UrgentSweep = 5 * time.Second

	// LookPatience is how long a reconcile waits for a look by ids. EC2 answers sooner. When it does not, a failover must
	// not stand still for it: what it says later is in the store for the next pass.
	LookPatience = 500 * time.Millisecond
	// lookPause must pass after a look that failed before another is made.
	lookPause = 2 * time.Second

	// SubnetFor is how long a subnet is taken as read: its VPC, zone and CIDR never change; the count of free addresses
	// does, and who needs that asks afresh.
	SubnetFor = 10 * time.Minute
	// SubnetGrace is how many times its life an entry may last before a reader asks for it himself: the background keeps
	// entries younger than that, so that looking at a Ready cluster costs no call.
	SubnetGrace = 2
	// IdleAfter is how long after its last use an account is still swept, and a subnet kept up to date: several times the interval
	// at which a Ready cluster is looked at.
	IdleAfter = 5 * time.Minute
)

// freshness decides when EC2 is asked again. It is safe for concurrent use.
type freshness struct {
	clock    clock.PassiveClock
	interval time.Duration
	// patience is how long a reconcile waits for a look by ids.
	patience time.Duration
	// sweepTimeout bounds a whole sweep, which no single caller's deadline may cut short for the others.
	sweepTimeout time.Duration
	// urgent bounds RefreshNow over all clusters.
	urgent flowcontrol.PassiveRateLimiter

	mu sync.Mutex
	// swept and described are how the last sweep and the last look at subnets went.
	swept, described reading
	// looked are how the last looks by ids went.
	looked looks
	// trouble is why EC2 could not be read when that was tried last, nil once it answered for instances; incomplete is why EC2, which
	// answers for those, does not answer something else, nil after a good sweep. As long as either goes on in the same way it is
	// reported in the words in which it began.
	trouble, incomplete error
	// refreshed and urged are when each cluster was last looked at by Refresh and by RefreshNow.
	refreshed, urged map[string]time.Time
	// journeys are what of each cluster was on its way from one state to another at the last look.
	journeys map[string]journey
}

// journey is what of a cluster is on its way from one state to another, since when just that is, and when it was seen last.
type journey struct {
	what        string
	since, seen time.Time
}

// looks are how the last looks by ids went, by kind: EC2 may answer for one and not for another.
type looks struct{ instances, volumes, snapshots reading }

// reading is how a reading of EC2 went: err is nil after a good one.
type reading struct {
	err error
	at  time.Time
}

func newFreshness(o Options) *freshness {
	return &freshness{
		clock: o.Clock, interval: o.Interval, patience: o.Patience, sweepTimeout: sweepPages * o.CallTimeout,
		urgent:    flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(UrgentRate, UrgentBurst, o.Clock),
		refreshed: map[string]time.Time{}, urged: map[string]time.Time{}, journeys: map[string]journey{},
	}
}

// retryPause must pass after a sweep or a look at subnets that failed.
func (f *freshness) retryPause() time.Duration { return f.interval / RetryPart }

// sweepPause is the time from one sweep in the background to the next, where there are so many instances or volumes: an interval for
// each page of them that one has. So what sweeps cost, here and in EC2's bucket of calls, grows less than the instances. Who is in
// trouble does not wait for it; see Freshen and RefreshNow.
func (f *freshness) sweepPause(things int) time.Duration {
	pages := min(max((things+PageSize-1)/PageSize, 1), MostPages)
	if pages == 1 {
		return 0 // at each round
	}
	return time.Duration(pages)*f.interval - f.interval/2 // rounds and sweeps do not begin at quite the same moment
}

// recentFailure is why EC2 could not be read less than pause ago; nil when that was long enough ago to ask again.
func (f *freshness) recentFailure(last *reading, pause time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(last.at) >= pause {
		return nil
	}
	return last.err
}

// record keeps the outcome of a reading of EC2 for recentFailure.
func (f *freshness) record(last *reading, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*last = reading{err: err, at: f.clock.Now()}
}

// concludeSweep keeps the outcome of a sweep, of its instances and of its other lists: what it says of EC2 counts until the next one. EC2
// that answers for instances, or refuses a list, is there: what is looked at by id may be answered.
func (f *freshness) concludeSweep(instances, others error) {
	err := cmp.Or(instances, others)
	f.record(&f.swept, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	of := &f.trouble
	if instances == nil || awsapi.IsDenied(err) {
		of, f.trouble = &f.incomplete, nil
	}
	f.keepTrouble(of, err)
}

// concludeLook keeps the outcome of a look by ids at one kind. Only that at instances says whether EC2 can be read; that volumes were
// answered does not end what a sweep lacked.
func (f *freshness) concludeLook(last *reading, err error) {
	f.record(last, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case last == &f.looked.instances:
		f.keepTrouble(&f.trouble, err)
	case last == &f.looked.volumes && err != nil:
		f.keepTrouble(&f.incomplete, err)
	}
}

// keepTrouble takes the outcome of a reading over into what is known of the trouble with EC2. That EC2 takes no more calls just now says
// that it is there. The caller has locked f.
func (f *freshness) keepTrouble(of *error, err error) {
	same := func(known error) bool { return known != nil && awsapi.Classify(known) == awsapi.Classify(err) }
	switch {
	case err == nil:
		*of = nil
	case awsapi.IsThrottled(err), same(*of):
	case same(f.incomplete):
		*of = f.incomplete // the first that was not answered began it
	default:
		*of = err
	}
}

// troubled is why EC2 could not be read when that was tried last, or why it does not answer all that was asked; nil when neither is so.
func (f *freshness) troubled() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.trouble, f.incomplete)
}

// lastSweep is why the last sweep failed; nil when it did not.
func (f *freshness) lastSweep() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.swept.err
}

// silent says whether EC2 did not answer for instances when that was tried last.
func (f *freshness) silent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble != nil
}

// pace is how long after a cluster's last refresh the next is due, with these things of it on their way.
func (f *freshness) pace(clusterUID string, moving IDs) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, what := f.clock.Now(), moving.String()
	for uid, j := range f.journeys {
		if now.Sub(j.seen) > FreshFor {
			delete(f.journeys, uid)
		}
	}
	j := f.journeys[clusterUID]
	if j.what != what {
		j = journey{what: what, since: now}
	}
	j.seen = now
	f.journeys[clusterUID] = j
	return min(max(RefreshFloor, now.Sub(j.since)/refreshPart), refreshCeiling)
}

// due says whether the last time that a cluster's turn came is long enough ago, and if so takes the turn.
func (f *freshness) due(turns map[string]time.Time, clusterUID string, floor time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if now.Sub(turns[clusterUID]) < floor {
		return false
	}
	for uid, at := range turns {
		if now.Sub(at) > FreshFor {
			delete(turns, uid)
		}
	}
	turns[clusterUID] = now
	return true
}
