// Package monitoring has the metrics of a cluster's members exported: the Deployment, what it logs in with, and what finds it.
package monitoring

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/podlogin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// Monitoring keeps what exports the metrics of a cluster's members.
type Monitoring struct {
	*pass.Ports
	Objects *objects.Objects
	Logins  *podlogin.Logins
	// Optional are objects of kinds that the API server may lack.
	Optional *Optional
}

// Ensure makes what exports the metrics, or removes it. Trouble with it is reported and holds nothing else up.
func (r *Monitoring) Ensure(ctx context.Context, s *pass.Pass) error {
	want := s.Cluster.EffectiveMonitoring()
	if want == nil || s.Cluster.Spec.Hibernate || s.Deleting() {
		s.ReportAside("monitoring: ", r.remove(ctx, s))
		return nil
	}
	if s.Keys.Leaving || s.Keys.Root == nil {
		return nil
	}
	for _, step := range []func() error{
		func() error { return r.Logins.Certificate(ctx, s, podlogin.Metrics) },
		func() error { return r.Logins.Account(ctx, s, podlogin.Metrics, "") },
		func() error { return r.deploy(ctx, s, want) },
		func() error { return r.Optional.Ensure(ctx, s, want) },
	} {
		s.ReportAside("monitoring: ", step())
	}
	return nil
}

// unavailableFor is how long the exporter's Deployment may have no available pod: an image is pulled, a node drained.
const unavailableFor = 10 * time.Minute

// deploy keeps the Deployment, and reports one that has had no available pod for long: then there are no metrics that an alert could be
// made of.
func (r *Monitoring) deploy(ctx context.Context, s *pass.Pass, want *v1alpha1.MonitoringSpec) error {
	image, err := r.Images.Operator()
	if err != nil {
		return err
	}
	ac := resources.Metrics(s.Cluster, want, image)
	var deployment appsv1.Deployment
	inTheWay, err := r.Objects.Aside(s, "Deployment "+*ac.Name, ac, func() error { return r.Objects.Apply(ctx, s, ac, *ac.Name, &deployment) })
	if err != nil || inTheWay != nil {
		return err
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse && r.Clock.Since(c.LastTransitionTime.Time) > unavailableFor {
			return &engine.Problem{Reason: v1alpha1.ReasonExporterUnavailable, After: engine.AfterWaiting, Message: fmt.Sprintf(
				"Deployment %s has had no available pod since %s: the servers' metrics and logs are not exported, and no alert is made of them. kubectl describe pods -l %s=%s,%s=%s says why",
				*ac.Name, c.LastTransitionTime.UTC().Format(time.RFC3339), v1alpha1.LabelCluster, s.Cluster.Name, v1alpha1.LabelComponent, resources.ComponentMetrics)}
		}
	}
	return nil
}

// remove takes away what exports metrics. The Deployment goes last: while it is there, the rest may be.
func (r *Monitoring) remove(ctx context.Context, s *pass.Pass) error {
	var deployment appsv1.Deployment
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: resources.MetricsName(s.Cluster.Name)}, &deployment)
	if err != nil || !pass.OwnedBy(&deployment, s.Cluster) || !deployment.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	if err := r.Optional.Remove(ctx, s); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Cluster.Namespace, Name: *resources.MetricsTLSSecret(s.Cluster, nil, nil, nil).Name}}
	if err := r.delete(ctx, s, secret); err != nil {
		return err
	}
	delete(s.Cache.Logins, podlogin.Metrics.User)
	return r.delete(ctx, s, &deployment)
}

// delete deletes an object unless it is somebody else's.
func (r *Monitoring) delete(ctx context.Context, s *pass.Pass, obj client.Object) error {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if err != nil || !pass.OwnedBy(obj, s.Cluster) {
		return client.IgnoreNotFound(err)
	}
	uid := obj.GetUID()
	if err := r.Client.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", obj.GetName(), err)
	}
	return nil
}
