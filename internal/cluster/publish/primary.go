package publish

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// showLimit bounds how long what a pass has to do waits for Kubernetes to take a new primary's address.
const showLimit = 2 * time.Second

// Publish makes Kubernetes show the cluster: Services, their endpoints, the application's Secret.
func (r *Publisher) Publish(ctx context.Context, s *pass.Pass) error {
	if s.Deleting() {
		r.Prober.Forget(s.UID())
		return r.withdraw(ctx, s)
	}
	err := r.show(ctx, s)
	if s.Result.Published && s.Plan.Primary != "" {
		s.Cache.Published.Clients.PrimaryShown(s.Plan, s.Observed)
	}
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
