// Package leader holds the operator's lease and answers whether it is still ours. A leader that was paused for longer
// than its lease believes that it leads; before it opens a session that writes to a database it must look again.
// Each installation has its lease in its own namespace, and only one installation leads.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ErrNotLeader: the lease belongs to somebody else, or ran out.
var ErrNotLeader = errors.New("this process does not hold the operator's lease")

// Lock is the operator's lease.
type Lock struct {
	// elected is what the manager elects with, looked what Check reads the lease with. They must be two: a LeaseLock remembers the
	// version that it read last and renews that one. Were they the same, a leader that was paused, was replaced and looks would learn
	// the version that its successor wrote, and its next renewal, which it begins without a look, would take the lease back.
	elected, looked resourcelock.Interface
	clock           clock.PassiveClock
	others          *installations

	begun atomic.Uint64 // looks at the lease, so far

	mu   sync.Mutex // held during a look
	held uint64     // the last look that found the lease to be ours
}

// New prepares the lease of this process, which runs as a ServiceAccount of a namespace. When elect is false there is none, and Check
// always agrees.
func New(config *rest.Config, namespace, serviceAccount string, elect bool, clock clock.PassiveClock) (*Lock, error) {
	if !elect {
		return &Lock{clock: clock}, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the host's name: %w", err)
	}
	config = rest.CopyConfig(config)
	access, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the lease's client: %w", err)
	}
	coordination, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the lease's client: %w", err)
	}
	l := &Lock{clock: clock, others: &installations{leases: coordination, own: namespace, clock: clock, reviews: reviewsOf(access, clock)}}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	for _, lock := range []*resourcelock.Interface{&l.elected, &l.looked} {
		*lock = &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}, Client: signed{coordination, serviceAccount}, LockConfig: identity,
		}
	}
	l.elected = &onlyOne{Interface: l.elected, others: l.others}
	return l, nil
}

// OnOtherInstallation has changed called whenever this process learns that another installation leads, or with the zero value that none
// does any more. It must be called before the election begins; changed must not block.
func (l *Lock) OnOtherInstallation(changed func(Installation)) {
	if l.others != nil {
		l.others.changed = changed
	}
}

// OnDenied has denied called when the API server begins to forbid the list of the leases of other installations. It must be called before
// the election begins; denied must not block.
func (l *Lock) OnDenied(denied func(error)) {
	if l.others != nil {
		l.others.denied = denied
	}
}

// OnIgnored has ignored called with each lease in another namespace that begins to be ignored because it belongs to no installation. It
// must be called before the election begins; ignored must not block.
func (l *Lock) OnIgnored(ignored func(Installation)) {
	if l.others != nil {
		l.others.ignored = ignored
	}
}

// OtherInstallation returns the installation that led at the last look, the zero value for none.
func (l *Lock) OtherInstallation() Installation {
	if l.others == nil {
		return Installation{}
	}
	l.others.mu.Lock()
	defer l.others.mu.Unlock()
	return l.others.leading
}

// Interface is what the manager elects with, nil without election.
func (l *Lock) Interface() resourcelock.Interface { return l.elected }

// Identity names this process, unlike any other; empty without election.
func (l *Lock) Identity() string {
	if l.elected == nil {
		return ""
	}
	return l.elected.Identity()
}

// Check reads the lease from the API server and returns ErrNotLeader unless this process holds it now and no other installation leads. A look that began after
// somebody asked answers him as well: a thousand members that are claimed after a hand-over do not ask a thousand times. One that
// began before does not, however short ago, because a process that was paused does not know for how long.
func (l *Lock) Check(ctx context.Context) error {
	if l.looked == nil {
		return nil
	}
	asked := l.begun.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held > asked {
		return nil
	}
	look := l.begun.Add(1)
	if err := l.look(ctx); err != nil {
		return err
	}
	l.held = look
	return nil
}

// look reads the lease, and those of other installations: one of them may have taken over from a leader that was paused, whose own lease
// nobody else writes.
func (l *Lock) look(ctx context.Context) error {
	record, _, err := l.looked.Get(ctx)
	if err != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	if record.HolderIdentity != l.looked.Identity() {
		return fmt.Errorf("%w: %q does", ErrNotLeader, record.HolderIdentity)
	}
	if end := record.RenewTime.Add(time.Duration(record.LeaseDurationSeconds) * time.Second); l.clock.Now().After(end) {
		return fmt.Errorf("%w: it ran out at %s", ErrNotLeader, end.Format(time.RFC3339))
	}
	other, err := l.others.live(ctx)
	if err != nil && !l.others.holds(l.clock.Now()) {
		return err
	}
	if other != nil {
		return fmt.Errorf("%w: %q in %s does", ErrNotLeader, *other.Spec.HolderIdentity, other.Namespace)
	}
	return nil
}
