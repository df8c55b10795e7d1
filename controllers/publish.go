package controllers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
)

// publisher leads clients to the members.
type publisher struct {
	*Ports
	announcer  *announcer
	objects    *objects
	identities *identities
}

// abandonPatience is how long a deletion that a person gave up goes on against trouble that may end by itself.
const abandonPatience = 5 * time.Minute

// showLimit bounds how long what a pass has to do waits for Kubernetes to take a new primary's address.
const showLimit = 2 * time.Second

// publish makes Kubernetes show the cluster: Services, their endpoints, the application's Secret, the probe's target.
func (r *publisher) publish(ctx context.Context, s *pass) error {
	if s.deleting() {
		r.Prober.Forget(s.uid())
		return nil
	}
	err := r.objects.show(ctx, s)
	if s.result.published && s.plan.Primary != "" {
		s.cache.published.clients.PrimaryShown(s.plan, s.observed)
	}
	r.aimProbe(s)
	return err
}

// showPrimary lets clients find a primary that they were not shown before without waiting for what this pass does: MySQL takes up
// to a second to point the former primary at it. Trouble is publish's to report, after that.
func (r *publisher) showPrimary(ctx context.Context, s *pass) error {
	if s.deleting() || !s.cache.published.clients.PrimaryFirst(s.plan, s.observed) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, showLimit)
	defer cancel()
	told := s.result.inTheWay
	if err := r.objects.show(ctx, s); err != nil {
		s.log.V(1).Info("the primary is shown later", "primary", s.plan.Primary, "problem", err.Error())
	}
	s.result.inTheWay = told // publish tells of what is in the way
	s.cache.told.timeline.show(s, r.Clock.Now())
	return nil
}

// aimProbe tells the prober where to write.
func (r *publisher) aimProbe(s *pass) {
	if s.cluster.Spec.Hibernate {
		r.Prober.Forget(s.uid())
		return
	}
	if s.plan.Primary == "" {
		return
	}
	host := resources.PrimaryHost(s.cluster)
	target := mysql.Target{ServerName: host, Identity: s.keys.identity}
	if r.Config.ProbeThroughService && !s.keys.leaving {
		target.Address = net.JoinHostPort(host+"."+r.Config.ClusterDomain, strconv.Itoa(v1alpha1.MySQLPort))
	} else if m := s.observed.Members[s.plan.Primary]; m != nil && m.CurrentInstance() != nil {
		target.Address = net.JoinHostPort(m.CurrentInstance().Address, strconv.Itoa(v1alpha1.MySQLPort))
	}
	r.Prober.Set(s.uid(), target)
}

// release lets a deleted cluster's objects go once EC2 shows nothing of it any more, or a person gave up on that.
func (r *publisher) release(ctx context.Context, s *pass) error {
	trouble := giveUpFor(s, r.Clock.Now())
	if (!s.plan.Gone || s.backup.unsettled || s.backup.archiveEnds) && trouble == nil {
		return nil
	}
	if trouble != nil {
		r.announcer.announceAbandoned(s, trouble)
	}
	names := resources.NamesOf(s.cluster.Name)
	ca, operatorTLS := names.CA, names.OperatorTLS
	for _, name := range []string{ca, keptName(ca), operatorTLS} {
		secret, err := r.identities.ownedSecret(ctx, s, name)
		if p := asProblem(err); p != nil && p.Reason == v1alpha1.ReasonForeignResource {
			continue // somebody else's, with nothing of ours on it
		}
		if err != nil {
			return err
		}
		if secret != nil {
			if err := r.objects.dropFinalizer(ctx, secret); err != nil {
				return err
			}
		}
	}
	if credentialsSecret(s.cluster) != "" {
		if err := r.noteReleased(ctx, s); err != nil {
			return err
		}
	}
	return r.letAllGo(ctx, s)
}

// noteReleased notes on the cluster that only Secrets, records and the finalizer are left to be let go. The Secret with the
// credentials may vanish with our finalizer on it, and without them nobody can ask EC2 a second time.
func (r *publisher) noteReleased(ctx context.Context, s *pass) error {
	if _, noted := s.cluster.Annotations[v1alpha1.AnnotationReleased]; noted {
		return nil
	}
	before := s.cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.cluster.ObjectMeta, v1alpha1.AnnotationReleased, "true")
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("note that nothing is left in EC2: %w", err)
	}
	return nil
}

// released says whether a cluster that is to go had nothing left in EC2 when its credentials were let go.
func released(s *pass) bool {
	_, noted := s.cluster.Annotations[v1alpha1.AnnotationReleased]
	return noted && s.deleting()
}

// letAllGo lets go of the users' Secrets, the records and the cluster. One cluster does that at a time: of two that hold one Secret
// the second finds that nobody else needs it.
func (r *publisher) letAllGo(ctx context.Context, s *pass) error {
	r.caches.releasing.Lock()
	defer r.caches.releasing.Unlock()
	// In this order: the records say which Secrets are held.
	if err := r.identities.releaseCredentials(ctx, s); err != nil {
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
// stands in its way, or it may be over soon. What only a person can put right is not waited for; other trouble must have stood in
// the way for abandonPatience, without a pass in which there was none.
func giveUpFor(s *pass, now time.Time) *engine.Problem {
	trouble, n := trouble(s), s.cache
	switch {
	case trouble == nil || !s.deleting():
		n.told.hinderedSince = time.Time{}
		return nil
	case n.told.hinderedSince.IsZero():
		n.told.hinderedSince = now
	}
	if !s.abandons() || trouble.After < engine.AfterPerson && now.Sub(n.told.hinderedSince) < abandonPatience {
		return nil
	}
	return trouble
}

// trouble is what stands in the way of a deletion: of several what only a person can put right.
func trouble(s *pass) (found *engine.Problem) {
	for _, p := range append([]*engine.Problem{s.access.problem}, s.result.problems...) {
		if p != nil && !p.Aside && (found == nil || found.After < engine.AfterPerson && p.After >= engine.AfterPerson) {
			found = p
		}
	}
	return found
}

// releaseRecords lets the members ConfigMap go.
func (r *publisher) releaseRecords(ctx context.Context, s *pass) error {
	name := resources.NamesOf(s.cluster.Name).Members
	var cm corev1.ConfigMap
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}, &cm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !ownedBy(&cm, s.cluster) {
		return nil
	}
	return r.objects.dropFinalizer(ctx, &cm)
}
