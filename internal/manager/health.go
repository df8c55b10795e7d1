package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/alx-ke/nairobi-mysql-operator/controllers"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// kindPause is the pause between two tries to fill the cache of a kind.
const kindPause = time.Second

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
	synced := &cachesSynced{cache: mgr.GetCache()}
	if err := mgr.Add(synced); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	return mgr.AddReadyzCheck("caches", synced.check)
}

// cachesSynced fills the caches that the reconcilers read, on a follower too, and knows when they are filled. The reconcilers' own
// watches begin only when they lead.
type cachesSynced struct {
	cache  cache.Cache
	filled atomic.Bool
}

// Start implements manager.Runnable. A kind that is not there yet, or not to be read, is asked for again. So is one whose list is
// not there: an informer is waited for only once the cache has begun.
func (c *cachesSynced) Start(ctx context.Context) error {
	for _, kind := range controllers.Watched() {
		err := wait.PollUntilContextCancel(ctx, kindPause, true, func(ctx context.Context) (bool, error) {
			informer, err := c.cache.GetInformer(ctx, kind)
			return err == nil && informer.HasSynced(), nil
		})
		if err != nil {
			return nil //nolint:nilerr // the operator ends
		}
	}
	c.filled.Store(true)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a follower is ready too.
func (c *cachesSynced) NeedLeaderElection() bool { return false }

func (c *cachesSynced) check(*http.Request) error {
	if !c.filled.Load() {
		return errNotSynced
	}
	return nil
}
