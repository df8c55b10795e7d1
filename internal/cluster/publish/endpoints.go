package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// show writes what clients see of the cluster. No object waits for another: endpoints follow a failover whatever becomes of
// the rest. What is shown was observed before this pass acted; the next pass follows at once when it acted.
func (r *Publisher) show(ctx context.Context, s *pass.Pass) error {
	var failed []error
	foreign, refused := map[string]bool{}, refusal{primary: resources.NamesOf(s.Cluster.Name).Primary}
	for _, service := range resources.Services(s.Cluster) {
		p, err := r.Objects.Aside(s, "Service "+*service.Name, service, func() error { return r.applyService(ctx, s, service) })
		failed = append(failed, err)
		foreign[*service.Name] = p != nil && p.Reason == v1alpha1.ReasonForeignResource
		refused = refused.of(*service.Name, p, err)
	}
	failed = append(failed, r.dropOthersSlices(ctx, s, foreign))
	s.Result.Published = true
	endpoints := engine.Endpoints(s.Plan)
	members := make([]resources.Member, 0, len(endpoints))
	for _, e := range endpoints {
		members = append(members, resources.Member(e))
	}
	for _, slice := range resources.EndpointSlices(s.Cluster, members) {
		p, err := r.Objects.Aside(s, "EndpointSlice "+*slice.Name, slice, func() error { return r.applySlice(ctx, s, slice, foreign[*slice.Name]) })
		failed = append(failed, err)
		s.Result.Published = s.Result.Published && p == nil && err == nil
		refused = refused.of(*slice.Name, p, err)
	}
	s.Cache.Published.Write.Refused = refused.why
	if s.Result.Published && s.Plan.Primary != "" { // otherwise what was shown before stays
		s.Cache.Published.Clients.Shown(endpoints, r.Clock.Now())
	}
	if s.Cluster.Spec.Database != nil && !s.Keys.Leaving && s.Keys.Password != "" {
		secret := resources.AppSecret(s.Cluster, r.Objects.AppCredentials(s))
		_, err := r.Objects.Aside(s, "Secret "+*secret.Name, secret, func() error { return r.Objects.Apply(ctx, s, secret, *secret.Name, &corev1.Secret{}) })
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// refusal is why the Service of the primary, or the EndpointSlice of the same name, could not be written.
type refusal struct {
	primary string
	why     *engine.Problem
}

// of adds the outcome of writing an object.
func (f refusal) of(object string, p *engine.Problem, err error) refusal {
	if p == nil {
		p = pass.AsProblem(err)
	}
	if object == f.primary && f.why == nil {
		f.why = p
	}
	return f
}

// withdraw takes the endpoints of a cluster that is being deleted away, from the pass on that asks EC2 to stop or terminate its instances:
// EC2 may give a terminated instance's address to somebody else. The archive's pod reads from the primary through its Service, and ends
// before that. What Kubernetes has removed already is not made again.
func (r *Publisher) withdraw(ctx context.Context, s *pass.Pass) error {
	if s.Backup.ArchiveEnds || !s.Observed.CloudReachable {
		return nil
	}
	var failed []error
	for _, slice := range resources.EndpointSlices(s.Cluster, nil) {
		_, err := r.Objects.Aside(s, "EndpointSlice "+*slice.Name, slice, func() error { return r.emptySlice(ctx, s, *slice.Name) })
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// emptySlice removes the endpoints of an EndpointSlice that is there and the cluster's.
func (r *Publisher) emptySlice(ctx context.Context, s *pass.Pass, name string) error {
	var slice discoveryv1.EndpointSlice
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &slice); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !pass.OwnedBy(&slice, s.Cluster) || len(slice.Endpoints) == 0 {
		return nil
	}
	before := slice.DeepCopy()
	slice.Endpoints = []discoveryv1.Endpoint{}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, &slice, patch, client.FieldOwner(v1alpha1.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("empty EndpointSlice %s: %w", name, err)
	}
	return nil
}

// applyService writes a Service, and takes away what somebody else has added to it that sends clients elsewhere: what another manager
// of fields adds an apply leaves alone.
func (r *Publisher) applyService(ctx context.Context, s *pass.Pass, service *corev1ac.ServiceApplyConfiguration) error {
	var current corev1.Service
	if err := r.Objects.Apply(ctx, s, service, *service.Name, &current); err != nil {
		return err
	}
	if len(current.Spec.Selector) == 0 && len(current.Spec.ExternalIPs) == 0 && len(current.Spec.Ports) <= len(service.Spec.Ports) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": nil, "externalIPs": nil, "ports": service.Spec.Ports}})
	if err != nil {
		return fmt.Errorf("write Service %s: %w", current.Name, err)
	}
	if err := r.Client.Patch(ctx, &current, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("put Service %s back: %w", current.Name, err)
	}
	s.Log.Info("took away what somebody had added to a Service", "service", current.Name)
	r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRestoreService, announce.Act, "Took away what somebody had added to Service %s: it would send clients elsewhere", current.Name)
	return r.dropEndpoints(ctx, s, current.Name)
}

// Who Kubernetes' own controllers sign their EndpointSlices with: what they find for a selector, and what they copy from Endpoints.
const (
	foundSlices    = "endpointslice-controller.k8s.io"
	mirroredSlices = "endpointslicemirroring-controller.k8s.io"
)

// dropOthersSlices deletes the endpoints that Kubernetes found for a Service of the cluster while somebody had given that a selector: it
// leaves them when the selector goes, and clients would be sent there too. They carry the Service's labels.
func (r *Publisher) dropOthersSlices(ctx context.Context, s *pass.Pass, foreign map[string]bool) error {
	var slices discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &slices, client.InNamespace(s.Cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.Cluster.Name}); err != nil {
		return fmt.Errorf("list EndpointSlices: %w", err)
	}
	var failed []error
	for i := range slices.Items {
		slice := &slices.Items[i]
		by, service := slice.Labels[discoveryv1.LabelManagedBy], slice.Labels[discoveryv1.LabelServiceName]
		if others, is := foreign[service]; others || !is || by != foundSlices && by != mirroredSlices {
			continue
		}
		p, err := r.Objects.Aside(s, "EndpointSlice "+slice.Name, "none", func() error {
			var err error
			if by == mirroredSlices {
				err = r.dropEndpoints(ctx, s, service)
			}
			return errors.Join(err, client.IgnoreNotFound(r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID})))
		})
		if failed = append(failed, err); p == nil && err == nil {
			s.Log.Info("deleted the endpoints of a selector that somebody had given a Service", "endpointSlice", slice.Name, "service", service)
		}
	}
	return errors.Join(failed...)
}

// dropEndpoints deletes the older kind of the same, which Kubernetes would go on to copy.
func (r *Publisher) dropEndpoints(ctx context.Context, s *pass.Pass, name string) error {
	endpoints := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.Cluster.Namespace, Name: name}}
	if err := r.Client.Delete(ctx, endpoints); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Endpoints %s: %w", name, err)
	}
	return nil
}

// applySlice publishes endpoints. While no primary is known, those that were published last stay: an operator that
// cannot see must not cut off a database that may well serve, and a primary that was replaced acknowledges nothing. A
// cluster that is still being restored serves nobody, and the restoring pod finds its member by what is published here.
// A foreign Service is given no endpoints of ours; those that it has, because it took the place of ours, go on to be right.
func (r *Publisher) applySlice(ctx context.Context, s *pass.Pass, slice *discoveryv1ac.EndpointSliceApplyConfiguration, foreign bool) error {
	unknown := s.Plan.Primary == "" && !s.Plan.Hibernating && !s.Recovering()
	if unknown || foreign {
		var current discoveryv1.EndpointSlice
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: *slice.Name}, &current)
		switch there := err == nil; {
		case client.IgnoreNotFound(err) != nil, there && unknown, !there && foreign:
			return client.IgnoreNotFound(err)
		}
	}
	return r.Objects.Apply(ctx, s, slice, *slice.Name, &discoveryv1.EndpointSlice{})
}
