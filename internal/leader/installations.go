package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Duration is how long the operator's lease lasts after its renewal.
const Duration = 15 * time.Second

// Lasts returns for how long after its renewal a lease counts: its own duration, but no longer than that of the operator's leases.
func Lasts(lease *coordination.Lease) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return min(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second, Duration)
}

// LeaseName names the lease in the operator's namespace.
const LeaseName = "nairobi-mysql-operator"

// ErrOtherInstallation: an operator in another namespace holds its own lease. All installations act on the clusters of all namespaces,
// so only one may lead.
var ErrOtherInstallation = errors.New("an operator in another namespace leads")

// Installation is an operator in another namespace that holds its lease. The zero value is none.
type Installation struct{ Namespace, Holder string }

// installations observes the leases of the operators in other namespaces.
type installations struct {
	leases coordinationv1.LeasesGetter
	own    string // namespace
	clock  clock.PassiveClock
	// reviews judge whether a lease is that of an installation.
	reviews *reviews

	mu      sync.Mutex
	seen    map[string]sighting // by namespace
	leading Installation
	// changed is called with each new value of leading. It may be nil.
	changed func(Installation)
	// denied is called when the API server begins to forbid the list. It may be nil. forbidden says that it does.
	denied    func(error)
	forbidden bool
	// ignored is called with each lease that begins to be ignored, because it belongs to no installation. It may be nil.
	ignored func(Installation)
	// strangers are the namespaces of such leases.
	strangers map[string]bool
	// heldUntil is when the lease of this process runs out, which has been held without a gap since a look that found no other; zero
	// while it has not. Other installations see it renewed, so that none has taken over meanwhile.
	heldUntil time.Time
}

// sighting is a version of a lease, and when it was first observed. Whether a lease is renewed is judged by our own clock alone, as the
// leader election judges it.
type sighting struct {
	version string
	at      time.Time
}

// live lists the leases in other namespaces and returns one that is held and renewed by an installation, nil if there is none. An API
// server that forbids the list, as after an upgrade that left the old ClusterRole in place, shows none: an operator that never led would
// help nobody.
func (i *installations) live(ctx context.Context) (*coordination.Lease, error) {
	list, err := i.leases.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, LeaseName).String()})
	forbidden := apierrors.IsForbidden(err)
	if err != nil && !forbidden {
		return nil, fmt.Errorf("list the leases of other installations: %w", err)
	}
	if forbidden {
		list = &coordination.LeaseList{}
	}
	slices.SortFunc(list.Items, func(a, b coordination.Lease) int { return strings.Compare(a.Namespace, b.Namespace) })
	renewed := i.renewed(list.Items, forbidden, err)
	found, strangers, err := i.judge(ctx, renewed)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.report(found)
	i.ignore(strangers)
	return found, nil
}

// renewed returns those of some leases that are another's, held and renewed.
func (i *installations) renewed(leases []coordination.Lease, forbidden bool, err error) (renewed []*coordination.Lease) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if forbidden && !i.forbidden && i.denied != nil {
		i.denied(err)
	}
	i.forbidden = forbidden
	now, seen := i.clock.Now(), map[string]sighting{}
	for n := range leases {
		lease := &leases[n]
		if lease.Namespace == i.own || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			continue
		}
		at, known := i.seen[lease.Namespace]
		if !known || at.version != lease.ResourceVersion {
			at = sighting{version: lease.ResourceVersion, at: now}
		}
		seen[lease.Namespace] = at
		if now.Before(at.at.Add(Lasts(lease))) {
			renewed = append(renewed, lease)
		}
	}
	i.seen = seen
	return renewed
}

// judge returns the first of some leases that belongs to an installation, and those before it that belong to none. It fails when the API
// server did not judge one of them.
func (i *installations) judge(ctx context.Context, renewed []*coordination.Lease) (found *coordination.Lease, strangers []*coordination.Lease, err error) {
	ctx, stop := context.WithTimeout(ctx, reviewTimeout)
	defer stop()
	var failures []error
	for _, lease := range renewed {
		switch of, failure := i.reviews.ofInstallation(ctx, lease); {
		case failure != nil:
			failures = append(failures, failure)
		case of:
			return lease, strangers, nil
		default:
			strangers = append(strangers, lease)
		}
	}
	return nil, strangers, errors.Join(failures...)
}

// ignore calls ignored with the leases that were not ignored at the last look. The caller holds mu.
func (i *installations) ignore(strangers []*coordination.Lease) {
	now := map[string]bool{}
	for _, lease := range strangers {
		now[lease.Namespace] = true
		if !i.strangers[lease.Namespace] && i.ignored != nil {
			i.ignored(Installation{Namespace: lease.Namespace, Holder: *lease.Spec.HolderIdentity})
		}
	}
	i.strangers = now
}

// holds says whether this process has held its lease without a gap since it last saw that no other installation leads. A process that
// was paused goes by both of its clocks: the monotonic one may have stood still.
func (i *installations) holds(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return now.Before(i.heldUntil) && now.Round(0).Before(i.heldUntil.Round(0))
}

// hold records until when the lease is held; the zero time when it is not.
func (i *installations) hold(until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heldUntil = until
}

// report calls changed when another installation leads than at the last look, or none any more.
func (i *installations) report(lease *coordination.Lease) {
	var leading Installation
	if lease != nil {
		leading = Installation{Namespace: lease.Namespace, Holder: *lease.Spec.HolderIdentity}
	}
	if leading != i.leading && i.changed != nil {
		i.changed(leading)
	}
	i.leading = leading
}

// onlyOne is the lease of this installation, which counts only while no other installation leads.
//
// Who leads for the first time writes its lease and then lists those of the others. Two that do so at the same time cannot both miss the
// other's lease; one that finds it gives its own back, so at worst both try again a moment later. An order by acquireTime would not
// do: with clocks that differ, the later one may be the one that has already found nobody, and leads.
//
// Who leads goes on while the list or a review fails, as long as its own lease does not run out in between: the others see that it is renewed.
type onlyOne struct {
	resourcelock.Interface
	others *installations
	leads  bool // a write was followed by a look that found no other
}

// Get returns the record of another installation that leads, which the election then waits for as for another pod of its own. Else
// it returns the record of this installation.
func (o *onlyOne) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := o.Interface.Get(ctx)
	other, errOthers := o.others.live(ctx)
	if errOthers != nil && !o.others.holds(o.others.clock.Now()) {
		return nil, nil, errOthers
	}
	if other == nil {
		return record, raw, err
	}
	record = resourcelock.LeaseSpecToLeaderElectionRecord(&other.Spec)
	record.LeaseDurationSeconds = int(Lasts(other).Seconds())
	raw, err = json.Marshal(record)
	return record, raw, err
}

func (o *onlyOne) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return o.write(ctx, record, o.Interface.Create)
}

func (o *onlyOne) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return o.write(ctx, record, o.Interface.Update)
}

// write writes the lease. It fails while another installation leads: a leader then ends as one that cannot renew its lease, and one
// that does not lead yet gives the lease back.
func (o *onlyOne) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	began := o.others.clock.Now()
	if err := write(ctx, record); err != nil {
		return err
	}
	if record.HolderIdentity == "" {
		o.leads = false
		o.others.hold(time.Time{})
		return nil
	}
	other, err := o.others.live(ctx)
	switch {
	case err != nil && !o.others.holds(began):
		return err
	case other == nil:
		o.leads = true
		o.others.hold(began.Add(time.Duration(record.LeaseDurationSeconds) * time.Second))
		return nil
	}
	o.others.hold(time.Time{})
	err = fmt.Errorf("%w: %s in %s", ErrOtherInstallation, *other.Spec.HolderIdentity, other.Namespace)
	if o.leads {
		return err
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	return errors.Join(err, o.Interface.Update(ctx, record))
}
