package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

var errNotSynced = errors.New("the caches are not filled yet")

// setUpWebhookAndHealth serves the webhook, and tells Kubernetes by /healthz and /readyz how the operator is.
func setUpWebhookAndHealth(mgr ctrl.Manager, o Options) error {
	ready, err := webhook.SetUp(mgr, webhook.Options{Certificates: o.WebhookCertificates, Namespace: o.Namespace})
	if err != nil {
		return fmt.Errorf("set up the webhook: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return fmt.Errorf("set up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", ready); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	synced := &cachesSynced{}
	if err := mgr.Add(synced); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	return mgr.AddReadyzCheck("caches", synced.check)
}

// cachesSynced knows when the manager's caches are filled: only then the manager starts what is neither a cache nor a
// webhook.
type cachesSynced struct{ started atomic.Bool }

// Start implements manager.Runnable.
func (c *cachesSynced) Start(context.Context) error {
	c.started.Store(true)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a follower is ready too.
func (c *cachesSynced) NeedLeaderElection() bool { return false }

func (c *cachesSynced) check(*http.Request) error {
	if !c.started.Load() {
		return errNotSynced
	}
	return nil
}
