// Package objects writes what a cluster owns in Kubernetes, and never touches what is somebody else's.
package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// Objects reads and writes what a cluster owns in Kubernetes, and never touches what is somebody else's.
type Objects struct {
	*pass.Ports
}

// RefusalPause is how long an object is not written again that the API server refused, or in whose place is somebody else's;
// each further time doubles that, up to RefusalPauseMost. Other content is written at once.
const (
	RefusalPause     = 5 * time.Second
	RefusalPauseMost = time.Minute
)

// Aside does a write that nothing else waits for. An object that is in the way is told of and returned, other errors are
// returned as they are. content is what is to be written.
func (r *Objects) Aside(s *pass.Pass, object string, content any, write func() error) (*engine.Problem, error) {
	key := engine.Errand{What: engine.WriteErrand, Object: object + " " + HashOf(content)}
	p := s.Cache.Requests.Refusal(key, r.Clock.Now())
	if p == nil {
		err := s.UnlessLeaving(write())
		if p = pass.AsProblem(err); p == nil {
			s.Cache.Requests.Succeed(key)
			return nil, nil
		}
		if !p.InTheWay() {
			return nil, err
		}
		p.PauseFrom, p.Pause = RefusalPause, RefusalPauseMost
		if s.Cache.Requests.Fail(key, p, r.Clock.Now()) {
			s.Log.Info("an object is in the way and is tried again", "object", object, "reason", p.Reason, "problem", p.Message)
		}
	}
	s.Result.InTheWay = append(s.Result.InTheWay, p)
	return p, nil
}

// Apply writes a child object by server-side apply, unless it is as this process left it: the same configuration was
// applied before, and the object's version has not changed since.
func (r *Objects) Apply(ctx context.Context, s *pass.Pass, ac runtime.ApplyConfiguration, name string, current client.Object) error {
	kind, exists, err := r.Find(ctx, s, name, current)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	if exists && !pass.OwnedBy(current, s.Cluster) {
		return r.Foreign(ctx, s, kind, current)
	}
	key, hash := kind+"/"+name, HashOf(ac)
	if before := s.Cache.Published.Objects[key]; exists && before.Hash == hash && before.ResourceVersion == current.GetResourceVersion() {
		return nil
	}
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, name, err)
	}
	s.Cache.Published.Objects[key] = pass.Applied{Hash: hash, ResourceVersion: resourceVersionOf(ac)}
	return nil
}

// Find reads a child object into current, and says of which kind it is and whether it exists. The cache holds only what
// carries the operator's label. What it does not show may be somebody else's, which an apply would make ours: of that the
// metadata are read past it.
func (r *Objects) Find(ctx context.Context, s *pass.Pass, name string, current client.Object) (kind string, exists bool, err error) {
	return find(ctx, r.Client, r.Reader, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, current)
}

func find(ctx context.Context, cached client.Client, past client.Reader, key client.ObjectKey, current client.Object) (kind string, exists bool, err error) {
	gvk, err := apiutil.GVKForObject(current, cached.Scheme())
	if err != nil {
		return "", false, err
	}
	err = cached.Get(ctx, key, current)
	if !apierrors.IsNotFound(err) {
		return gvk.Kind, err == nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = past.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil || len(list.Items) == 0 {
		return gvk.Kind, false, err
	}
	found := &list.Items[0]
	current.SetName(found.Name)
	current.SetUID(found.UID)
	current.SetNamespace(found.Namespace)
	current.SetOwnerReferences(found.OwnerReferences)
	current.SetAnnotations(found.Annotations)
	current.SetFinalizers(found.Finalizers)
	current.SetResourceVersion(found.ResourceVersion)
	current.SetCreationTimestamp(found.CreationTimestamp)
	current.SetDeletionTimestamp(found.DeletionTimestamp)
	return gvk.Kind, true, nil
}

// HashOf identifies what is to be written.
func HashOf(content any) string {
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

// PodImages are what the cluster's backup pods run.
func (r *Objects) PodImages(c *v1alpha1.MySQLCluster, image string) (resources.Images, error) {
	own, err := r.Images.Operator()
	if err != nil {
		return resources.Images{}, err
	}
	return resources.Images{Operator: own, MySQL: r.Images.MySQL(c, image), Proxy: r.Images.Proxy}, nil
}

// AppCredentials are what the application's Secret holds.
func (r *Objects) AppCredentials(s *pass.Pass) resources.AppCredentials {
	return resources.AppCredentials{
		Username: s.Cluster.Spec.Database.OwnerName(), Password: s.Keys.Password,
		Database: s.Cluster.Spec.Database.Name, CAPEM: s.Keys.Root.CertificatePEM(), Type: s.Keys.PasswordSecret,
	}
}

// OwnsForPod returns a problem when the account that a backup pod of a cluster runs as, or a Secret that it is given as a whole, is somebody
// else's. Its image is in the spec, so that whoever may edit a cluster would get the rights of the one and the content of the other.
func OwnsForPod(ctx context.Context, cached client.Client, past client.Reader, c *v1alpha1.MySQLCluster, pod *corev1ac.PodTemplateSpecApplyConfiguration) error {
	if err := ownsForPod(ctx, cached, past, c, *pod.Spec.ServiceAccountName, &corev1.ServiceAccount{}); err != nil {
		return err
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		if err := ownsForPod(ctx, cached, past, c, *volume.Secret.SecretName, &corev1.Secret{}); err != nil {
			return err
		}
	}
	return nil
}

func ownsForPod(ctx context.Context, cached client.Client, past client.Reader, c *v1alpha1.MySQLCluster, name string, obj client.Object) error {
	kind, exists, err := find(ctx, cached, past, client.ObjectKey{Namespace: c.Namespace, Name: name}, obj)
	switch {
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	case exists && !pass.OwnedBy(obj, c):
		return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson, Message: fmt.Sprintf(
			"%s %s exists and does not belong to this cluster, so that no pod of its backups may have it; rename or delete it", kind, name)}
	}
	return nil
}

// DropFinalizer lets an object go.
func (r *Objects) DropFinalizer(ctx context.Context, obj client.Object) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !controllerutil.RemoveFinalizer(obj, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release %s: %w", obj.GetName(), err)
	}
	return nil
}

// Foreign is the problem of an object in the way that does not belong to the cluster. What an older cluster of this name
// held is let go: that one is gone, for no two have the same name.
func (r *Objects) Foreign(ctx context.Context, s *pass.Pass, kind string, obj client.Object) error {
	if uid := HeldForUID(obj, s.Cluster.Name); uid != "" && uid != s.Cluster.UID {
		if err := r.DropFinalizer(ctx, obj); err != nil {
			return err
		}
		return &engine.Problem{Message: fmt.Sprintf("%s %s of an older cluster goes", kind, obj.GetName()), After: engine.AfterRepair}
	}
	message := fmt.Sprintf("%s %s exists and does not belong to this cluster; rename or delete it", kind, obj.GetName())
	if secret, ok := obj.(*corev1.Secret); ok && mayBeHandedOver(secret, s.Cluster) {
		message += fmt.Sprintf(", or hand it over, and its password becomes the application's: kubectl annotate secret %s --namespace %s %s=%s",
			secret.Name, secret.Namespace, v1alpha1.AnnotationHandOverTo, s.Cluster.Name)
	}
	return &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson, Message: message}
}

// handedOver says whether a person gave the cluster a Secret that was there before it, for the password of the application.
func handedOver(secret *corev1.Secret, c *v1alpha1.MySQLCluster) bool {
	return mayBeHandedOver(secret, c) && secret.Annotations[v1alpha1.AnnotationHandOverTo] == c.Name
}

// mayBeHandedOver says whether a Secret has the name of the application's, a password, and nobody else who writes it.
func mayBeHandedOver(secret *corev1.Secret, c *v1alpha1.MySQLCluster) bool {
	return secret.Name == resources.NamesOf(c.Name).App && len(secret.Data[resources.KeyPassword]) > 0 && pass.OwnerOf(secret) == "" && secret.DeletionTimestamp.IsZero()
}

// HeldForUID returns the UID of the cluster of a name for which our finalizer alone keeps a deleted object, empty when that is
// not so.
func HeldForUID(obj client.Object, cluster string) types.UID {
	finalizers := obj.GetFinalizers()
	if obj.GetDeletionTimestamp().IsZero() || len(finalizers) != 1 || finalizers[0] != v1alpha1.Finalizer {
		return ""
	}
	by := metav1.GetControllerOf(obj)
	if by != nil && (by.APIVersion != v1alpha1.GroupVersion.String() || by.Kind != "MySQLCluster" || by.Name != cluster) {
		return ""
	}
	return pass.OwnerOf(obj)
}
