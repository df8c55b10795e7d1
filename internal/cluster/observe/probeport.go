package observe

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// probePause is the pause between two tries of a silent member's port.
	probePause = 200 * time.Millisecond
	// probeFor is how long a port is tried after a pass: longer than the pauses between passes that wait for mysqld.
	probeFor = 2 * time.Second
	// probeWithin is how long a member may have been silent: an instance that boots and a mysqld that starts need less, and
	// what is gone for longer is worth no packets.
	probeWithin = 5 * time.Minute
)

// probePort wakes the cluster as soon as the port of a silent member opens, so that what waits for its mysqld goes on then and
// not at the next look. A port that is open all the while, as an instance that hangs leaves it, wakes nobody.
func (r *Database) probePort(ctx context.Context, s *pass.Pass, m *topology.Member) {
	in := m.CurrentInstance()
	if r.Clock.Since(m.SilentSince) > probeWithin {
		return
	}
	if ended := s.Cache.Looks.PortProbes[in.ID]; ended != nil {
		select {
		case <-ended:
		default:
			return
		}
	}
	ended := make(chan struct{})
	s.Cache.Looks.PortProbes[in.ID] = ended
	member := r.handle(s, m.Name, in.ID, in.Address)
	cluster := client.ObjectKeyFromObject(s.Cluster)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeFor)
	go func() {
		defer cancel()
		defer close(ended)
		if member.AwaitOpen(ctx, probePause) {
			r.LookNow(cluster)
		}
	}()
}
