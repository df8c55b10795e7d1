package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// objects reads and writes what a cluster owns in Kubernetes, and never touches what is somebody else's.
type objects struct {
	*Ports
}

// refusalPause is how long an object is not written again that the API server refused, or in whose place is somebody else's;
// each further time doubles that, up to refusalPauseMost. Other content is written at once.
const (
	refusalPause     = 5 * time.Second
	refusalPauseMost = time.Minute
)

// show writes what clients see of the cluster. No object waits for another: endpoints follow a failover whatever becomes of
// the rest. What is shown was observed before this pass acted; the next pass follows at once when it acted.
func (r *objects) show(ctx context.Context, s *pass) error {
	var failed []error
	foreign := map[string]bool{}
	for _, service := range resources.Services(s.cluster) {
		p, err := r.aside(s, "Service "+*service.Name, service, func() error { return r.applyService(ctx, s, service) })
		failed = append(failed, err)
		foreign[*service.Name] = p != nil && p.Reason == v1alpha1.ReasonForeignResource
	}
	failed = append(failed, r.dropOthersSlices(ctx, s, foreign))
	s.result.published = true
	endpoints := engine.Endpoints(s.plan)
	members := make([]resources.Member, 0, len(endpoints))
	for _, e := range endpoints {
		members = append(members, resources.Member(e))
	}
	for _, slice := range resources.EndpointSlices(s.cluster, members) {
		p, err := r.aside(s, "EndpointSlice "+*slice.Name, slice, func() error { return r.applySlice(ctx, s, slice, foreign[*slice.Name]) })
		failed = append(failed, err)
		s.result.published = s.result.published && p == nil && err == nil
	}
	if s.result.published && s.plan.Primary != "" { // otherwise what was shown before stays
		s.cache.published.clients.Shown(endpoints, r.Clock.Now())
	}
	if s.cluster.Spec.Database != nil && !s.keys.leaving && s.keys.password != "" {
		secret := resources.AppSecret(s.cluster, r.appCredentials(s))
		_, err := r.aside(s, "Secret "+*secret.Name, secret, func() error { return r.apply(ctx, s, secret, *secret.Name, &corev1.Secret{}) })
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// applyService writes a Service, and takes away what somebody else has added to it that sends clients elsewhere: what another manager
// of fields adds an apply leaves alone.
func (r *objects) applyService(ctx context.Context, s *pass, service *corev1ac.ServiceApplyConfiguration) error {
	var current corev1.Service
	if err := r.apply(ctx, s, service, *service.Name, &current); err != nil {
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
	s.log.Info("took away what somebody had added to a Service", "service", current.Name)
	r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.EventRestoreService, actionAct, "Took away what somebody had added to Service %s: it would send clients elsewhere", current.Name)
	return r.dropEndpoints(ctx, s, current.Name)
}

// Who Kubernetes' own controllers sign their EndpointSlices with: what they find for a selector, and what they copy from Endpoints.
const (
	foundSlices    = "endpointslice-controller.k8s.io"
	mirroredSlices = "endpointslicemirroring-controller.k8s.io"
)

// dropOthersSlices deletes the endpoints that Kubernetes found for a Service of the cluster while somebody had given that a selector: it
// leaves them when the selector goes, and clients would be sent there too. They carry the Service's labels.
func (r *objects) dropOthersSlices(ctx context.Context, s *pass, foreign map[string]bool) error {
	var slices discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &slices, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{v1alpha1.LabelCluster: s.cluster.Name}); err != nil {
		return fmt.Errorf("list EndpointSlices: %w", err)
	}
	var failed []error
	for i := range slices.Items {
		slice := &slices.Items[i]
		by, service := slice.Labels[discoveryv1.LabelManagedBy], slice.Labels[discoveryv1.LabelServiceName]
		if others, is := foreign[service]; others || !is || by != foundSlices && by != mirroredSlices {
			continue
		}
		p, err := r.aside(s, "EndpointSlice "+slice.Name, "none", func() error {
			var err error
			if by == mirroredSlices {
				err = r.dropEndpoints(ctx, s, service)
			}
			return errors.Join(err, client.IgnoreNotFound(r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID})))
		})
		if failed = append(failed, err); p == nil && err == nil {
			s.log.Info("deleted the endpoints of a selector that somebody had given a Service", "endpointSlice", slice.Name, "service", service)
		}
	}
	return errors.Join(failed...)
}

// dropEndpoints deletes the older kind of the same, which Kubernetes would go on to copy.
func (r *objects) dropEndpoints(ctx context.Context, s *pass, name string) error {
	endpoints := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, ObjectMeta: metav1.ObjectMeta{Namespace: s.cluster.Namespace, Name: name}}
	if err := r.Client.Delete(ctx, endpoints); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Endpoints %s: %w", name, err)
	}
	return nil
}

// applySlice publishes endpoints. While no primary is known, those that were published last stay: an operator that
// cannot see must not cut off a database that may well serve, and a primary that was replaced acknowledges nothing. A
// cluster that is still being restored serves nobody, and the restoring pod finds its member by what is published here.
// A foreign Service is given no endpoints of ours; those that it has, because it took the place of ours, go on to be right.
func (r *objects) applySlice(ctx context.Context, s *pass, slice *discoveryv1ac.EndpointSliceApplyConfiguration, foreign bool) error {
	unknown := s.plan.Primary == "" && !s.cluster.Spec.Hibernate && !s.recovering()
	if unknown || foreign {
		var current discoveryv1.EndpointSlice
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: *slice.Name}, &current)
		switch there := err == nil; {
		case client.IgnoreNotFound(err) != nil, there && unknown, !there && foreign:
			return client.IgnoreNotFound(err)
		}
	}
	return r.apply(ctx, s, slice, *slice.Name, &discoveryv1.EndpointSlice{})
}

// aside does a write that nothing else waits for. An object that is in the way is told of and returned, other errors are
// returned as they are. content is what is to be written.
func (r *objects) aside(s *pass, object string, content any, write func() error) (*engine.Problem, error) {
	key := engine.Errand{What: engine.WriteErrand, Object: object + " " + hashOf(content)}
	p := s.cache.requests.Refusal(key, r.Clock.Now())
	if p == nil {
		err := s.unlessLeaving(write())
		if p = asProblem(err); p == nil {
			s.cache.requests.Succeed(key)
			return nil, nil
		}
		if !p.InTheWay() {
			return nil, err
		}
		p.PauseFrom, p.Pause = refusalPause, refusalPauseMost
		if s.cache.requests.Fail(key, p, r.Clock.Now()) {
			s.log.Info("an object is in the way and is tried again", "object", object, "reason", p.Reason, "problem", p.Message)
		}
	}
	s.result.inTheWay = append(s.result.inTheWay, p)
	return p, nil
}

// apply writes a child object by server-side apply, unless it is as this process left it: the same configuration was
// applied before, and the object's version has not changed since.
func (r *objects) apply(ctx context.Context, s *pass, ac runtime.ApplyConfiguration, name string, current client.Object) error {
	kind, exists, err := r.find(ctx, s, name, current)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	if exists && !ownedBy(current, s.cluster) {
		return r.foreign(ctx, s, kind, current)
	}
	key, hash := kind+"/"+name, hashOf(ac)
	if before := s.cache.published.objects[key]; exists && before.hash == hash && before.resourceVersion == current.GetResourceVersion() {
		return nil
	}
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, name, err)
	}
	s.cache.published.objects[key] = applied{hash: hash, resourceVersion: resourceVersionOf(ac)}
	return nil
}

// find reads a child object into current, and says of which kind it is and whether it exists. The cache holds only what
// carries the operator's label. What it does not show may be somebody else's, which an apply would make ours: of that the
// metadata are read past it.
func (r *objects) find(ctx context.Context, s *pass, name string, current client.Object) (kind string, exists bool, err error) {
	gvk, err := apiutil.GVKForObject(current, r.Client.Scheme())
	if err != nil {
		return "", false, err
	}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, current)
	if !apierrors.IsNotFound(err) {
		return gvk.Kind, err == nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = r.Reader.List(ctx, list, client.InNamespace(s.cluster.Namespace), client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil || len(list.Items) == 0 {
		return gvk.Kind, false, err
	}
	found := &list.Items[0]
	current.SetName(found.Name)
	current.SetNamespace(found.Namespace)
	current.SetOwnerReferences(found.OwnerReferences)
	current.SetAnnotations(found.Annotations)
	current.SetFinalizers(found.Finalizers)
	current.SetResourceVersion(found.ResourceVersion)
	current.SetCreationTimestamp(found.CreationTimestamp)
	current.SetDeletionTimestamp(found.DeletionTimestamp)
	return gvk.Kind, true, nil
}

// hashOf identifies what is to be written.
func hashOf(content any) string {
	text, err := json.Marshal(content)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", content)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// resourceVersionOf reads the version that the API server answered with into the apply configuration.
func resourceVersionOf(ac runtime.ApplyConfiguration) string {
	var meta struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	text, err := json.Marshal(ac)
	if err != nil || json.Unmarshal(text, &meta) != nil {
		return ""
	}
	return meta.Metadata.ResourceVersion
}

// images are what the cluster's backup pods run.
func (r *objects) images(ctx context.Context, c *v1alpha1.MySQLCluster, image string) (resources.Images, error) {
	own, err := r.Images.Operator(ctx)
	if err != nil {
		return resources.Images{}, err
	}
	return resources.Images{Operator: own, MySQL: r.Images.MySQL(c, image), Proxy: r.Images.Proxy}, nil
}

func (r *objects) appCredentials(s *pass) resources.AppCredentials {
	return resources.AppCredentials{
		Username: s.cluster.Spec.Database.OwnerName(), Password: s.keys.password,
		Database: s.cluster.Spec.Database.Name, CAPEM: s.keys.authority.CertificatePEM(),
	}
}

// dropFinalizer lets an object go.
func (r *objects) dropFinalizer(ctx context.Context, obj client.Object) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.RemoveFinalizer(obj, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release %s: %w", obj.GetName(), err)
	}
	return nil
}
