// Package release holds the Secrets of users that a cluster needs to its end, and lets go of the cluster when nothing of it is left.
package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Releaser holds the Secrets of users that a cluster needs to its end, and lets go of it when it ends.
type Releaser struct {
	*pass.Ports
	Announcer *announce.Announcer
	Objects   *objects.Objects
}

// Hold puts our finalizer on the Secret with the cluster's credentials: without it the EC2 resources of a deleted
// namespace could never be removed. A Secret that the spec named before is let go once its successor works.
func (r *Releaser) Hold(ctx context.Context, s *pass.Pass) error {
	if s.Access.Cloud == nil || s.Stored.Lost || s.NeverBegun() {
		return nil
	}
	if s.Access.Unheld != nil {
		if err := r.addSecretFinalizer(ctx, s); err != nil {
			return err
		}
	}
	return r.releaseEarlier(ctx, s)
}

// releaseEarlier takes the finalizer off the Secrets that the spec named before, once EC2 answers with the present one. Nothing waits for
// it: a Secret that the API server refuses to change stays held, and in the records, until it can be.
func (r *Releaser) releaseEarlier(ctx context.Context, s *pass.Pass) error {
	if !s.Observed.CloudReachable {
		return nil
	}
	current := pass.CredentialsSecret(s.Cluster)
	var released []string
	for _, name := range s.Records().Held {
		if name == current {
			continue
		}
		refused, err := r.Objects.Aside(s, "Secret "+name, "released", func() error { return r.removeSecretFinalizer(ctx, s, name) })
		if err != nil {
			return err
		}
		if refused == nil {
			released = append(released, name)
		}
	}
	if len(released) == 0 {
		return nil
	}
	return s.Stored.Save(ctx, func(records *topology.ClusterRecord) {
		records.Held = slices.DeleteFunc(records.Held, func(name string) bool { return slices.Contains(released, name) })
	})
}

// addSecretFinalizer puts the finalizer on. Once there are instances to look after, nothing waits for it.
func (r *Releaser) addSecretFinalizer(ctx context.Context, s *pass.Pass) error {
	name := s.Access.Unheld.Name
	write := func() error {
		before := s.Access.Unheld.DeepCopy()
		controllerutil.AddFinalizer(s.Access.Unheld, v1alpha1.Finalizer)
		if err := r.Client.Patch(ctx, s.Access.Unheld, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("hold Secret %s: %w", name, err)
		}
		return nil
	}
	if !s.Shown() {
		return write()
	}
	_, err := r.Objects.Aside(s, "Secret "+name, "held", write)
	return err
}

// removeSecretFinalizer takes our finalizer off a user's Secret, unless another cluster of the namespace needs it. One without our finalizer needs
// nothing any more, and the cache may show one that is gone.
func (r *Releaser) removeSecretFinalizer(ctx context.Context, s *pass.Pass, name string) error {
	var list v1alpha1.MySQLClusterList
	if err := r.Reader.List(ctx, &list, client.InNamespace(s.Cluster.Namespace)); err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		needs := other.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(other, v1alpha1.Finalizer)
		if other.UID != s.Cluster.UID && needs && pass.CredentialsSecret(other) == name {
			return nil
		}
	}
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if by := metav1.GetControllerOf(&secret); by != nil && by.Kind == "MySQLCluster" || secret.Annotations[v1alpha1.AnnotationClusterUID] != "" {
		return nil // a cluster's own, and no user's: somebody else has written it into the records
	}
	return r.Objects.DropFinalizer(ctx, &secret)
}

// releaseCredentials lets every Secret go that was held for a cluster.
func (r *Releaser) releaseCredentials(ctx context.Context, s *pass.Pass) error {
	names := slices.Clone(s.Records().Held)
	if name := pass.CredentialsSecret(s.Cluster); name != "" && !slices.Contains(names, name) {
		names = append(names, name)
	}
	for _, name := range names {
		if err := r.removeSecretFinalizer(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}

// Release lets a deleted cluster's objects go once EC2 shows nothing of it any more, or a person gave up on that.
func (r *Releaser) Release(ctx context.Context, s *pass.Pass) error {
	trouble := giveUpFor(s, r.Clock.Now())
	if (!s.Plan.Gone || s.Backup.Unsettled || s.Backup.ArchiveEnds) && trouble == nil {
		return nil
	}
	if trouble != nil {
		r.Announcer.Abandoned(s, trouble)
	}
	names := resources.NamesOf(s.Cluster.Name)
	ca, operatorTLS := names.CA, names.OperatorTLS
	for _, name := range []string{ca, objects.KeptName(ca), operatorTLS} {
		secret, err := r.Objects.OwnedSecret(ctx, s, name)
		if p := pass.AsProblem(err); p != nil && p.Reason == v1alpha1.ReasonForeignResource {
			continue // somebody else's, with nothing of ours on it
		}
		if err != nil {
			return err
		}
		if secret != nil {
			if err := r.Objects.DropFinalizer(ctx, secret); err != nil {
				return err
			}
		}
	}
	if pass.CredentialsSecret(s.Cluster) != "" {
		if err := r.recordReleased(ctx, s); err != nil {
			return err
		}
	}
	return r.RemoveFinalizers(ctx, s)
}

// AbandonPatience is how long a deletion that a person gave up goes on against trouble that may end by itself.
const AbandonPatience = 5 * time.Minute

// recordReleased notes on the cluster that only Secrets, records and the finalizer are left to be let go. The Secret with the
// credentials may vanish with our finalizer on it, and without them nobody can ask EC2 a second time.
func (r *Releaser) recordReleased(ctx context.Context, s *pass.Pass) error {
	if Released(s) {
		return nil
	}
	before := s.Cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.Cluster.ObjectMeta, v1alpha1.AnnotationReleased, string(s.Cluster.UID))
	if err := r.Client.Patch(ctx, s.Cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("note that nothing is left in EC2: %w", err)
	}
	return nil
}

// Released says whether a cluster that is to go had nothing left in EC2 when its credentials were let go. The annotation may have come
// with a manifest that was read from another cluster, and says nothing of this one then.
func Released(s *pass.Pass) bool {
	return s.Cluster.Annotations[v1alpha1.AnnotationReleased] == string(s.Cluster.UID) && s.Deleting()
}

// RemoveFinalizers removes the operator's finalizers from the users' Secrets, the records and the cluster. One cluster does that at a time: of two that hold one Secret
// the second finds that nobody else needs it.
func (r *Releaser) RemoveFinalizers(ctx context.Context, s *pass.Pass) error {
	r.Caches.Releasing.Lock()
	defer r.Caches.Releasing.Unlock()
	// In this order: the records say which Secrets are held.
	if err := r.releaseCredentials(ctx, s); err != nil {
		return err
	}
	if err := r.releaseRecords(ctx, s); err != nil {
		return err
	}
	before := s.Cluster.DeepCopy()
	controllerutil.RemoveFinalizer(s.Cluster, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, s.Cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	s.Done = true
	return nil
}

// giveUpFor returns the trouble for which a deletion is given up, nil when it is not: nobody asked for that, or nothing
// stands in its way, or it may be over soon. What only a person can put right is not waited for; other trouble must have stood in
// the way for AbandonPatience, without a pass in which there was none.
func giveUpFor(s *pass.Pass, now time.Time) *engine.Problem {
	trouble, n := trouble(s, now), s.Cache
	switch {
	case trouble == nil || !s.Deleting():
		n.Told.HinderedSince = time.Time{}
		return nil
	case n.Told.HinderedSince.IsZero():
		n.Told.HinderedSince = now
	}
	if !s.Abandons() || trouble.After < engine.AfterPerson && now.Sub(n.Told.HinderedSince) < AbandonPatience {
		return nil
	}
	return trouble
}

// trouble is what stands in the way of a deletion: of several what only a person can put right.
func trouble(s *pass.Pass, now time.Time) (found *engine.Problem) {
	problems := append([]*engine.Problem{s.Access.Problem, standstill(s, now)}, s.Result.Problems...)
	if wait := s.Plan.Waiting; wait.Reason == v1alpha1.ReasonSnapshotsUnknown {
		problems = append(problems, &engine.Problem{Reason: wait.Reason, Message: wait.Message, After: engine.AfterWaiting})
	}
	for _, p := range problems {
		if p != nil && !p.Aside && (found == nil || found.After < engine.AfterPerson && p.After >= engine.AfterPerson) {
			found = p
		}
	}
	return found
}

// standstill is the trouble of a deletion that gets no further although EC2 refuses nothing, such as an instance that stays in
// shutting-down, or a volume that somebody attached to an instance of their own; nil while it has got further within AbandonPatience. A
// snapshot takes as long as its volume is large: while one is pending nothing stands still. What happened between two passes that lie far
// apart nobody saw.
func standstill(s *pass.Pass, now time.Time) *engine.Problem {
	var waits []string
	if s.Deleting() && s.Planned && !s.Plan.Gone && !slices.ContainsFunc(s.Observed.Snapshots.Known, func(snapshot topology.Snapshot) bool { return snapshot.State == inventory.SnapshotPending }) {
		waits = append(waits, s.Plan.Waiting.Message)
		for _, m := range s.Plan.Members {
			waits = append(waits, m.Step.Message)
		}
	}
	left, still := strings.Join(waits, "; "), &s.Cache.Told.Standstill
	if left != still.Left || now.Sub(still.Seen) > AbandonPatience/2 {
		*still = pass.Standstill{Left: left, Since: now}
	}
	still.Seen = now
	if left == "" || now.Sub(still.Since) < AbandonPatience {
		return nil
	}
	return &engine.Problem{Reason: v1alpha1.ReasonDeleting, Message: "the deletion got no further since " + still.Since.UTC().Format(time.RFC3339) + ": " + s.Plan.Waiting.Message, After: engine.AfterPerson}
}

// releaseRecords lets the members ConfigMap go.
func (r *Releaser) releaseRecords(ctx context.Context, s *pass.Pass) error {
	name := resources.NamesOf(s.Cluster.Name).Members
	var cm corev1.ConfigMap
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: name}, &cm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !pass.OwnedBy(&cm, s.Cluster) {
		return nil
	}
	return r.Objects.DropFinalizer(ctx, &cm)
}
