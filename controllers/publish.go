package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// abandonPatience is how long a deletion that a person gave up goes on against trouble that may end by itself.
const abandonPatience = 5 * time.Minute

// publish makes Kubernetes show the cluster: Services, their endpoints, the application's Secret, the probe's target.
func (r *MySQLClusterReconciler) publish(ctx context.Context, s *scope) error {
	if s.deleting() {
		r.Prober.Forget(s.uid())
		return nil
	}
	for _, service := range resources.Services(s.cluster) {
		if err := s.unlessLeaving(r.apply(ctx, s, service, *service.Name, &corev1.Service{})); err != nil {
			return err
		}
	}
	// What is published is what was observed before this pass acted; the next pass follows at once when it acted.
	for _, slice := range resources.EndpointSlices(s.cluster, endpointMembers(s)) {
		if err := s.unlessLeaving(r.applySlice(ctx, s, slice)); err != nil {
			return err
		}
	}
	if s.cluster.Spec.Database != nil && !s.leaving {
		secret := resources.AppSecret(s.cluster, r.appCredentials(s))
		if err := s.unlessLeaving(r.apply(ctx, s, secret, *secret.Name, &corev1.Secret{})); err != nil {
			return err
		}
	}
	s.published = true
	r.aimProbe(s)
	return nil
}

// applySlice publishes endpoints. While no primary is known, those that were published last stay: an operator that
// cannot see must not cut off a database that may well serve, and a primary that was replaced acknowledges nothing. A
// cluster that is still being restored serves nobody, and the restoring pod finds its member by what is published here.
func (r *MySQLClusterReconciler) applySlice(ctx context.Context, s *scope, slice *discoveryv1ac.EndpointSliceApplyConfiguration) error {
	if s.plan.Primary == "" && !s.cluster.Spec.Hibernate && !s.recovering() {
		var current discoveryv1.EndpointSlice
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: *slice.Name}, &current)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return r.apply(ctx, s, slice, *slice.Name, &discoveryv1.EndpointSlice{})
}

// endpointMembers are the members as clients may be sent to them.
func endpointMembers(s *scope) []resources.Member {
	var members []resources.Member
	for _, v := range s.plan.Members {
		if v.Address != "" {
			members = append(members, resources.Member{
				Name: v.Name, Address: v.Address, Ready: v.InService, Primary: v.Role == v1alpha1.RolePrimary,
			})
		}
	}
	return members
}

// aimProbe tells the prober where to write.
func (r *MySQLClusterReconciler) aimProbe(s *scope) {
	if s.cluster.Spec.Hibernate {
		r.Prober.Forget(s.uid())
		return
	}
	if s.plan.Primary == "" {
		return
	}
	host := resources.PrimaryHost(s.cluster)
	target := mysql.Target{ServerName: host, Identity: s.identity}
	if r.Config.ProbeThroughService && !s.leaving {
		target.Address = net.JoinHostPort(host+"."+r.Config.ClusterDomain, strconv.Itoa(v1alpha1.MySQLPort))
	} else if m := s.observed.Members[s.plan.Primary]; m != nil && m.CurrentInstance() != nil {
		target.Address = net.JoinHostPort(m.CurrentInstance().Address, strconv.Itoa(v1alpha1.MySQLPort))
	}
	r.Prober.Set(s.uid(), target)
}

// apply writes a child object by server-side apply, unless it is as this process left it: the same configuration was
// applied before, and the object's version has not changed since.
func (r *MySQLClusterReconciler) apply(ctx context.Context, s *scope, ac runtime.ApplyConfiguration, name string, current client.Object) error {
	text, err := json.Marshal(ac)
	if err != nil {
		return fmt.Errorf("encode %T %s: %w", current, name, err)
	}
	sum := sha256.Sum256(text)
	key, hash := fmt.Sprintf("%T/%s", current, name), hex.EncodeToString(sum[:])
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %T %s: %w", current, name, err)
	}
	if err == nil && !ownedBy(current, s.cluster) {
		return &problem{reason: v1alpha1.ReasonForeignResource, after: afterPerson,
			message: fmt.Sprintf("%T %s exists and does not belong to this cluster; rename or delete it", current, name)}
	}
	if before := s.notes.applied[key]; err == nil && before.hash == hash && before.resourceVersion == current.GetResourceVersion() {
		return nil
	}
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %T %s: %w", current, name, err)
	}
	s.notes.applied[key] = applied{hash: hash, resourceVersion: resourceVersionOf(ac)}
	return nil
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

// release lets a deleted cluster's objects go once EC2 shows nothing of it any more, or a person gave up on that.
func (r *MySQLClusterReconciler) release(ctx context.Context, s *scope) error {
	trouble := s.giveUpFor(r.Clock.Now())
	if (!s.plan.Gone || s.unsettled || s.archiveEnds) && trouble == nil {
		return nil
	}
	if trouble != nil {
		r.announceAbandoned(s, trouble)
	}
	_, _, _, ca, operatorTLS, _, _ := resources.Names(s.cluster.Name)
	for _, name := range []string{ca, keptName(ca), operatorTLS} {
		secret, err := r.ownedSecret(ctx, s, name)
		if err != nil {
			return err
		}
		if secret != nil {
			if err := r.dropFinalizer(ctx, secret); err != nil {
				return err
			}
		}
	}
	// In this order: the records say which Secrets are held.
	if err := r.releaseCredentials(ctx, s); err != nil {
		return err
	}
	if err := r.releaseRecords(ctx, s); err != nil {
		return err
	}
	before := s.cluster.DeepCopy()
	controllerutil.RemoveFinalizer(s.cluster, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	s.done = true
	return nil
}

// giveUpFor returns the trouble for which a deletion is given up, nil when it is not: nobody asked for that, or nothing
// stands in its way, or it may be over soon.
func (s *scope) giveUpFor(now time.Time) *problem {
	if !s.abandons() {
		return nil
	}
	began := s.cluster.DeletionTimestamp.Time
	if chosen := time.Unix(s.plan.Records.FinalAt, 0); chosen.After(began) {
		began = chosen // it had been protected until then
	}
	long := now.Sub(began) >= abandonPatience
	for _, p := range append([]*problem{s.cloudProblem}, s.outcome...) {
		if p != nil && !p.aside && (long || p.after >= afterPerson) {
			return p
		}
	}
	return nil
}

// releaseRecords lets the members ConfigMap go.
func (r *MySQLClusterReconciler) releaseRecords(ctx context.Context, s *scope) error {
	_, _, _, _, _, _, name := resources.Names(s.cluster.Name)
	var cm corev1.ConfigMap
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &cm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ownedBy(&cm, s.cluster) {
		return nil
	}
	return r.dropFinalizer(ctx, &cm)
}
