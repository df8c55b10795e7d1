package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
)

// Reader reads what one AWS account and region holds. All methods are safe for concurrent use.
type Reader struct {
	Instances *Kind[Instance]
	Volumes   *Kind[Volume]
	Snapshots *Kind[Snapshot]
	Groups    *Kind[Group]

	region    string
	clock     clock.PassiveClock
	log       logr.Logger
	reads     *prometheus.CounterVec
	lists     *lists
	store     *store
	subnets   *subnets
	identity  *identity
	freshness *freshness
	flights   singleflight.Group
	beside    *beside
}

// Options configure a Reader.
type Options struct {
	Region string
	Clock  clock.PassiveClock
	Logger logr.Logger
	// Interval is how often the background sweeps.
	Interval time.Duration
	// Patience is how long Refresh waits for a slow answer.
	Patience time.Duration
	// CallTimeout is what bounds one write; a list may take longer, see awsapi.Config.
	CallTimeout time.Duration
	// Reads counts by the label result; see NewReadCounter.
	Reads *prometheus.CounterVec
}

// NewReadCounter makes the counter of reads, for all accounts.
func NewReadCounter(r prometheus.Registerer) *prometheus.CounterVec {
	return awsapi.Register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mysqlcluster_aws_sweep_store_total",
		Help: "Reads of EC2's state by result: hit (answered from the store) or miss (a sweep was needed).",
	}, []string{"result"}))
}

// NewReader makes a Reader that knows nothing yet.
func NewReader(of awsapi.Clients, o Options) *Reader {
	pages := func() *paging { return newPaging(o.Clock, o.Interval/2) }
	log := o.Logger.WithValues("region", o.Region)
	l := &lists{api: of.EC2, paging: pages(), snapshotPaging: pages()}
	s := newStore()
	status := &statusLists{api: of.EC2, paging: pages(), filters: &healthFilters{log: log, dropped: map[string]bool{}}, store: s}
	r := &Reader{
		Instances: &Kind[Instance]{name: "instance", idFilter: "instance-id", clock: o.Clock, store: s, table: &s.instances, list: l.instances},
		Volumes:   &Kind[Volume]{name: "volume", idFilter: "volume-id", clock: o.Clock, store: s, table: &s.volumes, list: l.volumes},
		Snapshots: &Kind[Snapshot]{name: "snapshot", idFilter: "snapshot-id", clock: o.Clock, store: s, table: &s.snapshots, list: l.snapshots},
		Groups:    &Kind[Group]{name: "security group", idFilter: "group-id", clock: o.Clock, store: s, table: &s.groups, list: l.groups},
		region:    o.Region, clock: o.Clock, log: log, reads: o.Reads,
		lists: l, store: s, subnets: newSubnets(o.Interval), freshness: newFreshness(o),
		identity: &identity{sts: of.STS, credentials: of.Credentials, clock: o.Clock, interval: o.Interval},
	}
	r.beside = &beside{
		clock: o.Clock, log: log, store: s, identity: r.identity, timeout: r.freshness.sweepTimeout, patience: advisoryPart * o.Patience,
		all: []*advisory{
			{list: ListSnapshots, reason: v1alpha1.ReasonSnapshotsUnknown, read: r.Snapshots.sweep, again: r.Snapshots.look},
			{list: ListHealth, reason: v1alpha1.ReasonInstanceStatusUnknown, read: status.sweep, again: status.nothing},
		},
	}
	return r
}

// Region is the region that is read.
func (r *Reader) Region() string { return r.region }

// AccountID is the AWS account that is read. It comes from memory, where the background sweep keeps it: a call is made at the first
// use, and when the credentials have been exchanged since.
//
// After a failure the same error is returned without a call for a while.
func (r *Reader) AccountID(ctx context.Context) (string, error) {
	id, err := r.identity.remembered()
	if id == "" && err == nil {
		id, err = r.identity.look(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("ask AWS whose account it is: %w", err)
	}
	return id, nil
}

// Known is what the store has of a cluster, without a call.
func (r *Reader) Known(clusterUID string) Inventory {
	return r.store.inventory(clusterUID, r.clock.Now())
}

// Observe is what EC2 holds for a cluster, at most maxAge old (negative: the sweep interval). It sweeps the account when the store
// is older than that; callers that come meanwhile share that sweep. Once EC2 could not be read they wait for it no longer than
// LookPatience.
//
// When the sweep fails, the error comes with the last known Inventory, whose Taken tells its age: it is good enough to
// keep phases as they are, not to create anything from. Right after a failure the same error is returned without a call.
//
// The lists beside the sweep are waited for after a sweep, for a moment; that one of them fails is no error. See Unanswered.
func (r *Reader) Observe(ctx context.Context, clusterUID string, maxAge time.Duration) (Inventory, error) {
	f := r.freshness
	if maxAge < 0 {
		maxAge = f.interval
	}
	wanted := r.clock.Now().Add(-maxAge)
	if r.sweptSince(wanted) {
		r.reads.WithLabelValues("hit").Inc()
		return r.Known(clusterUID), nil
	}
	r.reads.WithLabelValues("miss").Inc()
	// A flight that we join may have begun before the moment that we want to see; the next one is then ours to start.
	for range 2 {
		err := f.recentFailure(&f.swept, f.retryPause())
		if err == nil {
			err = r.awaitSweep(ctx)
		}
		if err != nil {
			return r.Known(clusterUID), r.reported(err)
		}
		if r.sweptSince(wanted) {
			break
		}
	}
	r.beside.await(ctx)
	return r.Known(clusterUID), nil
}

// awaitSweep is joinSweep, but once EC2 could not be read, or throttled a list, it waits no longer than LookPatience and returns why: a list
// may take twenty seconds not to be answered, and the next pass asks again.
func (r *Reader) awaitSweep(ctx context.Context) error {
	trouble := r.freshness.troubled()
	if trouble == nil {
		trouble = r.freshness.lastSweep()
	}
	if trouble == nil {
		return r.joinSweep(ctx)
	}
	patience := time.NewTimer(r.freshness.patience)
	defer patience.Stop()
	select {
	case result := <-r.beginSweep(ctx):
		return result.Err
	case <-patience.C:
		return trouble
	case <-ctx.Done():
		return gaveUp(ctx, r.store)
	}
}

// Unanswered are the lists that EC2 does not answer. Everything else goes on without them.
func (r *Reader) Unanswered() []Unanswered { return r.beside.unanswered() }

// reported is the error of a reading in the words of the trouble that it is a part of; nil for nil.
func (r *Reader) reported(err error) error {
	if err == nil {
		return nil
	}
	if first := r.freshness.troubled(); first != nil && awsapi.Classify(first) == awsapi.Classify(err) {
		err = first
	}
	return fmt.Errorf("read the state of EC2 in %s: %w", r.region, err)
}

// Freshen begins a sweep when the store is older than maxAge, and does not wait for it. Whoever observes next gets its error.
func (r *Reader) Freshen(ctx context.Context, maxAge time.Duration) {
	f := r.freshness
	if !r.sweptSince(r.clock.Now().Add(-maxAge)) && f.recentFailure(&f.swept, f.retryPause()) == nil {
		r.beginSweep(ctx)
	}
}

// Round is the background's: it sweeps where that is due, and brings the subnets up to date. Whoever observes next gets its error.
func (r *Reader) Round(ctx context.Context) {
	if pause := r.freshness.sweepPause(r.store.size()); pause == 0 || !r.sweptSince(r.clock.Now().Add(-pause)) {
		_ = r.joinSweep(ctx)
	}
	r.refreshSubnets(ctx)
}
