package publish

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// showLimit bounds how long what a pass has to do waits for Kubernetes to take a new primary's address.
const showLimit = 2 * time.Second

// Publish makes Kubernetes show the cluster: Services, their endpoints, the application's Secret, the probe's target.
func (r *Publisher) Publish(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() {
		r.Prober.Forget(s.UID())
		return r.withdraw(ctx, s)
	}
	err := r.show(ctx, s)
	if s.Result.Published && s.Plan.Primary != "" {
		s.Cache.Published.Clients.PrimaryShown(s.Plan, s.Observed)
	}
	r.aimProbe(s)
	return err
}

// ShowPrimary lets clients find a primary that they were not shown before without waiting for what this pass does: MySQL takes up
// to a second to point the former primary at it. Trouble is publish's to report, after that.
func (r *Publisher) ShowPrimary(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() || !s.Cache.Published.Clients.PrimaryFirst(s.Plan, s.Observed) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showLimit)
	defer cancel()
	told := s.Result.InTheWay
	if err := r.show(ctx, s); err != nil {
		s.Log.V(1).Info("the primary is shown later", "primary", s.Plan.Primary, "problem", err.Error())
	}
	s.Result.InTheWay = told // publish tells of what is in the way
	s.Cache.Told.Timeline.Show(s, r.Clock.Now())
	return nil
}

// aimProbe tells the prober where to write.
func (r *Publisher) aimProbe(s *pass.Pass) {
	if s.Cluster.Spec.Hibernate {
		r.Prober.Forget(s.UID())
		return
	}
	if s.Plan.Primary == "" {
		return
	}
	host := resources.PrimaryHost(s.Cluster)
	target := probe.Target{ServerName: host, Identity: s.Keys.Identity}
	if r.Config.ProbeThroughService && !s.Keys.Leaving {
		target.Address = net.JoinHostPort(host+"."+r.Config.ClusterDomain, strconv.Itoa(v1alpha1.MySQLPort))
	} else if m := s.Observed.Members[s.Plan.Primary]; m != nil && m.CurrentInstance() != nil {
		target.Address = net.JoinHostPort(m.CurrentInstance().Address, strconv.Itoa(v1alpha1.MySQLPort))
	}
	r.Prober.Set(s.UID(), target)
}
