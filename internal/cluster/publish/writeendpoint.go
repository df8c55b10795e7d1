package publish

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// FollowClients reads how clients reach the primary, and has the probe go the same way. It runs also after a pass that failed. The probe keeps
// its connection, which outlives the Service that it was made through: where a new connection may lead elsewhere, it makes one.
func (r *Publisher) FollowClients(ctx context.Context, s *pass.Pass) {
	if s.Done || s.Deleting() {
		return
	}
	last := &s.Cache.Published.Write
	switch now, err := r.readWriteEndpoint(ctx, s); {
	case err != nil:
		s.Log.V(1).Info("cannot read how clients reach the primary", "problem", err.Error())
	default:
		if now.Missing == nil && last.Missing != nil {
			r.Prober.Forget(s.UID()) // what it wrote meanwhile did not go through the Service
		} else if now.Shown != last.Shown {
			r.Prober.Redial(s.UID())
		}
		*last = now
	}
	r.aimProbe(s)
}

// readWriteEndpoint reads the Service of the primary and its EndpointSlice. Whether a Service that belongs to somebody else leads to the
// primary is for a probe through it to find out.
func (r *Publisher) readWriteEndpoint(ctx context.Context, s *pass.Pass) (pass.WriteEndpoint, error) {
	name := resources.NamesOf(s.Cluster.Name).Primary
	var service corev1.Service
	var slice discoveryv1.EndpointSlice
	_, exists, err := r.Objects.Find(ctx, s, name, &service)
	if err != nil {
		return pass.WriteEndpoint{}, fmt.Errorf("read Service %s: %w", name, err)
	}
	_, led, err := r.Objects.Find(ctx, s, name, &slice)
	if err != nil {
		return pass.WriteEndpoint{}, fmt.Errorf("read EndpointSlice %s: %w", name, err)
	}
	e := pass.WriteEndpoint{
		Shown:   objects.HashOf([]any{service.UID, service.Spec, slice.UID, slice.Ports, slice.Endpoints}),
		Refused: s.Cache.Published.Write.Refused,
	}
	ours := exists && pass.OwnedBy(&service, s.Cluster)
	switch {
	case !exists:
		e.Missing = missing(s, "Service "+name+" does not exist")
	case !ours && r.Config.ProbeThroughService:
	case !led:
		e.Missing = missing(s, "EndpointSlice "+name+" does not exist")
	case slice.AddressType != "" && !slices.ContainsFunc(slice.Endpoints, ready): // without a type, the cache does not show it yet
		e.Missing = missing(s, "EndpointSlice "+name+" has no address that is ready")
	}
	return e, nil
}

// ready says whether Kubernetes leads clients to an endpoint.
func ready(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }

// missing says why clients are led nowhere, and what to do.
func missing(s *pass.Pass, what string) *topology.Finding {
	f := topology.Finding{Reason: v1alpha1.ReasonWriteFailed, Message: what + ", so that clients do not find the primary; the operator writes it again"}
	switch refused := s.Cache.Published.Write.Refused; {
	case s.Keys.Leaving:
		f.Reason = v1alpha1.ReasonDeletionProtected
		f.Message = fmt.Sprintf("%s, and cannot be made again because the namespace %s is being deleted: clients do not find the primary. Restore a backup in another namespace, then set spec.deletionProtection to false",
			what, s.Cluster.Namespace)
	case refused != nil && refused.Reason != "":
		f.Reason = refused.Reason
		f.Message = what + ", so that clients do not find the primary. Put right what refuses it: " + refused.Message
	case refused != nil:
		f.Message += ": " + refused.Message
	}
	return &f
}

// aimProbe sets where the prober writes: where clients are led, or at the primary's address while they are led nowhere, so that a failure of
// the primary is noticed all the same.
func (r *Publisher) aimProbe(s *pass.Pass) {
	if s.Plan.Hibernating {
		r.Prober.Forget(s.UID())
		return
	}
	if s.Plan.Primary == "" {
		return
	}
	host := resources.PrimaryHost(s.Cluster)
	target := probe.Target{ServerName: host, Identity: s.Keys.Identity}
	if r.Config.ProbeThroughService && s.Cache.Published.Write.Missing == nil {
		target.Address = net.JoinHostPort(host+"."+r.Config.ClusterDomain, strconv.Itoa(v1alpha1.MySQLPort))
	} else if m := s.Observed.Members[s.Plan.Primary]; m != nil && m.CurrentInstance() != nil {
		target.Address = net.JoinHostPort(m.CurrentInstance().Address, strconv.Itoa(v1alpha1.MySQLPort))
	}
	r.Prober.Set(s.UID(), target)
}
