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

	mu      sync.Mutex
	seen    map[string]sighting // by namespace
	leading Installation
	// changed is called with each new value of leading. It may be nil.
	changed func(Installation)
	// denied is called when the API server begins to forbid the list. It may be nil. forbidden says that it does.
	denied    func(error)
	forbidden bool
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

// live lists the leases in other namespaces and returns one that is held and renewed, nil if there is none. An API server that forbids the
// list, as after an upgrade that left the old ClusterRole in place, shows none: an operator that never led would help nobody.
func (i *installations) live(ctx context.Context) (*coordination.Lease, error) {
	list, err := i.leases.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, LeaseName).String()})
	forbidden := apierrors.IsForbidden(err)
	if err != nil && !forbidden {
		return nil, fmt.Errorf("list the leases of other installations: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if forbidden && !i.forbidden && i.denied != nil {
		i.denied(err)
	}
	if i.forbidden = forbidden; forbidden {
		list = &coordination.LeaseList{}
	}
	slices.SortFunc(list.Items, func(a, b coordination.Lease) int { return strings.Compare(a.Namespace, b.Namespace) })
	now, seen := i.clock.Now(), map[string]sighting{}
	var found *coordination.Lease
	for n := range list.Items {
		lease := &list.Items[n]
		if lease.Namespace == i.own || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			continue
		}
		at, known := i.seen[lease.Namespace]
		if !known || at.version != lease.ResourceVersion {
			at = sighting{version: lease.ResourceVersion, at: now}
		}
		seen[lease.Namespace] = at
		lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		if found == nil && now.Before(at.at.Add(lasts)) {
			found = lease
		}
	}
	i.seen = seen
	i.report(found)
	return found, nil
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
// Who leads goes on while the list fails, as long as its own lease does not run out in between: the others see that it is renewed.
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
