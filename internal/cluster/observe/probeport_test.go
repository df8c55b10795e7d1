package observe

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// door is a member's port that refuses a number of connections first.
type door struct {
	closed, tried atomic.Int64
}

func (d *door) dial(context.Context, string, string) (net.Conn, error) {
	d.tried.Add(1)
	if d.closed.Add(-1) >= 0 {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	return near, far.Close()
}

// probing runs a test in which time passes only while everybody waits, so that no stall of the instance eats into the time for which a
// port is tried.
func probing(t *testing.T, refusals int64, silentFor time.Duration, judge func(t *testing.T, d *door, wake chan event.GenericEvent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d, wake := probeAt(t, refusals, silentFor)
		judge(t, d, wake)
	})
}

// probeAt has a member's port tried that refuses a number of connections, and waits until that has ended.
func probeAt(t *testing.T, refusals int64, silentFor time.Duration) (*door, chan event.GenericEvent) {
	t.Helper()
	d := &door{}
	d.closed.Store(refusals)
	pool := conn.NewPool(conn.Options{Dial: d.dial})
	t.Cleanup(pool.Close)
	r := &Database{Ports: &pass.Ports{SQL: pool, Clock: clock.RealClock{}, Wake: make(chan event.GenericEvent, 9)}}
	cluster := &v1alpha1.MySQLCluster{}
	cluster.Namespace, cluster.Name = "shop", "orders"
	s := &pass.Pass{Cluster: cluster, Cache: pass.NewCaches().Of(types.NamespacedName{Namespace: "shop", Name: "orders"}, "uid")}
	m := &topology.Member{Name: "orders-0", SilentSince: r.Clock.Now().Add(-silentFor),
		Instances: []topology.Instance{{ID: "i-1", Incarnation: 1, State: inventory.StateRunning, Address: "10.0.0.4"}}}
	r.probePort(t.Context(), s, m)
	r.probePort(t.Context(), s, m) // the pass after: it is being probed already
	if ended := s.Cache.Looks.PortProbes["i-1"]; ended != nil {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the port is tried for ever")
		}
	}
	return d, r.Wake
}

func TestProbeWakesWhenThePortOpens(t *testing.T) {
	probing(t, 3, time.Second, func(t *testing.T, d *door, wake chan event.GenericEvent) {
		if tried := d.tried.Load(); tried != 4 {
			t.Errorf("the port was tried %d times, not 4: refused three times, then open", tried)
		}
		if len(wake) != 1 {
			t.Fatalf("the cluster was woken %d times, not once", len(wake))
		}
		if woken := (<-wake).Object; woken.GetNamespace() != "shop" || woken.GetName() != "orders" {
			t.Errorf("%s/%s was woken", woken.GetNamespace(), woken.GetName())
		}
	})
}

// TestProbeAnOpenPort: a mysqld that hangs takes connections and says nothing. To be woken by that would be a hot loop.
func TestProbeAnOpenPort(t *testing.T) {
	probing(t, 0, time.Second, func(t *testing.T, d *door, wake chan event.GenericEvent) {
		if len(wake) != 0 {
			t.Error("the cluster was woken by a port that was open before")
		}
		if tried := d.tried.Load(); tried != 1 && tried != 2 { // the second pass may have come after the first try
			t.Errorf("the port was tried %d times", tried)
		}
	})
}

func TestProbeWhatIsGone(t *testing.T) {
	probing(t, 3, probeWithin+time.Second, func(t *testing.T, d *door, wake chan event.GenericEvent) {
		if d.tried.Load() != 0 || len(wake) != 0 {
			t.Errorf("a member that was silent for long was tried %d times", d.tried.Load())
		}
	})
}

// TestProbeEnds: a port that stays closed is given up until the next pass.
func TestProbeEnds(t *testing.T) {
	probing(t, 1_000_000, time.Second, func(t *testing.T, d *door, wake chan event.GenericEvent) {
		if most := int64(probeFor/probePause) + 1; d.tried.Load() > most || len(wake) != 0 {
			t.Errorf("the port was tried %d times, %d at most; the cluster was woken %d times", d.tried.Load(), most, len(wake))
		}
	})
}
