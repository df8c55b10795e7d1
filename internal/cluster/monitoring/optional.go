package monitoring

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/alerts"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// optionalCheck is how often it is checked again whether the API server has a kind, and whether an object of it is as it should be:
// these kinds are not watched.
const optionalCheck = 10 * time.Minute

// optional are the objects that are made for a monitored cluster where the API server has their kind. A new one needs its verbs in
// controllers/rbac.go: get, create, patch and delete.
var optional = []struct {
	kind  schema.GroupVersionKind
	build func(*v1alpha1.MySQLCluster, *v1alpha1.MonitoringSpec) *unstructured.Unstructured
}{
	{resources.PodMonitorKind, resources.PodMonitor},
	{resources.PrometheusRuleKind, rule},
}

// rule has Prometheus alert on the cluster.
func rule(c *v1alpha1.MySQLCluster, _ *v1alpha1.MonitoringSpec) *unstructured.Unstructured {
	return resources.PrometheusRule(c, alerts.OfCluster(c.Namespace, c.Name))
}

// Optional keeps objects of kinds that the API server may lack.
type Optional struct {
	*pass.Ports
	Objects *objects.Objects

	mu sync.Mutex
	// kinds is what is known of each kind.
	kinds map[schema.GroupVersionKind]knownKind
}

// knownKind is whether the API server has a kind, as seen at a time.
type knownKind struct {
	served bool
	at     time.Time
}

// Ensure writes the objects after a change of what they are made from, and every ten minutes.
func (r *Optional) Ensure(ctx context.Context, s *pass.Pass, want *v1alpha1.MonitoringSpec) error {
	now, hash := r.Clock.Now(), objects.HashOf(want)
	for _, o := range optional {
		if served, err := r.served(o.kind); err != nil {
			return err
		} else if !served {
			continue
		}
		if written := s.Cache.Monitors[o.kind.Kind]; written.Hash == hash && now.Sub(written.At) < optionalCheck {
			continue
		}
		object := o.build(s.Cluster, want)
		problem, err := r.Objects.Aside(s, o.kind.Kind+" "+object.GetName(), object, func() error { return r.apply(ctx, s, object) })
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // the kind is gone
			r.record(o.kind, false)
			continue
		}
		if err != nil {
			return err
		}
		if problem == nil {
			s.Cache.Monitors[o.kind.Kind] = pass.Written{Hash: hash, At: now}
		}
	}
	return nil
}

// Remove deletes the objects.
func (r *Optional) Remove(ctx context.Context, s *pass.Pass) error {
	for _, o := range optional {
		if served, err := r.served(o.kind); err != nil {
			return err
		} else if !served {
			continue
		}
		object := o.build(s.Cluster, (&v1alpha1.MySQLCluster{Spec: v1alpha1.MySQLClusterSpec{Monitoring: &v1alpha1.MonitoringSpec{}}}).EffectiveMonitoring())
		err := r.Reader.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil && pass.OwnedBy(object, s.Cluster) {
			uid := object.GetUID()
			err = r.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
		}
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("delete %s %s: %w", o.kind.Kind, object.GetName(), err)
		}
		delete(s.Cache.Monitors, o.kind.Kind)
	}
	return nil
}

// apply writes an object, unless one of that name is somebody else's.
func (r *Optional) apply(ctx context.Context, s *pass.Pass, object *unstructured.Unstructured) error {
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(object.GroupVersionKind())
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(object), current)
	switch {
	case err == nil && !pass.OwnedBy(current, s.Cluster):
		return r.Objects.Foreign(ctx, s, object.GetKind(), current)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// served says whether the API server has a kind. It is asked at most every ten minutes, whatever it answers.
func (r *Optional) served(kind schema.GroupVersionKind) (bool, error) {
	r.mu.Lock()
	known := r.kinds[kind]
	r.mu.Unlock()
	if !known.at.IsZero() && r.Clock.Since(known.at) < optionalCheck {
		return known.served, nil
	}
	_, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("find kind %s: %w", kind.Kind, err)
	}
	r.record(kind, err == nil)
	return err == nil, nil
}

func (r *Optional) record(kind schema.GroupVersionKind, served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = map[schema.GroupVersionKind]knownKind{}
	}
	r.kinds[kind] = knownKind{served: served, at: r.Clock.Now()}
}
