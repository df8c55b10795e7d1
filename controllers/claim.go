package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// recordKeeper keeps the records of a cluster in its ConfigMap.
type recordKeeper struct {
	*Ports
	announcer *announcer
	objects   *objects
}

// claim makes sure that the cluster's records exist and that its finalizer is set, in this order and before anything
// exists outside of Kubernetes. So an object with the finalizer but without records has lost them.
func (r *recordKeeper) claim(ctx context.Context, s *pass) error {
	claimed := controllerutil.ContainsFinalizer(s.cluster, v1alpha1.Finalizer)
	if !s.cluster.DeletionTimestamp.IsZero() && !claimed {
		s.done = true // nothing was ever made for it, or all of it is gone
		return nil
	}
	found, err := r.readRecords(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case found && claimed && s.records().Empty():
		s.stored.lost = true // somebody emptied them: those of a new cluster name noHand
	case !found && claimed && s.cache.records.unstored != nil:
		s.setRecords(s.cache.records.unstored.Clone())
	case !found && claimed:
		if err := r.miss(ctx, s); err != nil {
			return err
		}
	case !found:
		if err := r.createRecords(ctx, s, topology.Records{Hand: noHand}); err != nil {
			return err
		}
		if s.cache.records.unstored != nil {
			s.done = true // its namespace goes, and it goes with that: nothing was ever made for it
		}
	}
	if claimed || s.done {
		return nil
	}
	before := s.cluster.DeepCopy()
	controllerutil.AddFinalizer(s.cluster, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// noHand stands in the records of a new cluster for the hand that wrote them, so that they are told from records that somebody emptied.
const noHand = "-"

// hand names this operator in the records.
func (r *recordKeeper) hand() string { return cmp.Or(r.Config.Hand, noHand) }

// recordsMemo remembers the newest records that this process wrote, until the cache shows them.
type recordsMemo struct {
	mu sync.Mutex
	// superseded are the versions that were replaced by writes of this process.
	superseded map[string]bool
	version    string
	// text is what they were written as, and unheard what was written since without hearing what came of it.
	text    string
	unheard []string
	records topology.Records
}

// ownWrites recognises what this process wrote into the members ConfigMap when the watch tells of it.
type ownWrites struct {
	mu sync.Mutex
	// text is what is being written or was written last: the watch may be faster than the API server's answer.
	text string
	// versions are the newest that came of it.
	versions []string
}

// ownVersions is how many versions are kept: as many as may be written before the watch tells of the first.
const ownVersions = 16

func (w *ownWrites) begin(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = text
}

func (w *ownWrites) end(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions = append(w.versions, version)
	w.versions = w.versions[max(0, len(w.versions)-ownVersions):]
}

func (w *ownWrites) made(cm *corev1.ConfigMap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cm.Data[resources.KeyMembers] == w.text || slices.Contains(w.versions, cm.ResourceVersion)
}

// othersWrites lets updates of ConfigMaps through but for those that this process made: a pass that changes the records is
// not its own reason for another. What a person or a pod writes is looked at at once.
type othersWrites struct {
	predicate.Funcs
	caches *caches
}

// Create implements predicate.Predicate.
func (othersWrites) Create(event.CreateEvent) bool { return false }

// Update implements predicate.Predicate.
func (o othersWrites) Update(e event.UpdateEvent) bool {
	cm, ok := e.ObjectNew.(*corev1.ConfigMap)
	owner := metav1.GetControllerOf(e.ObjectNew)
	if !ok || owner == nil || len(cm.Data[resources.KeyMembers]) == 0 || !cm.DeletionTimestamp.IsZero() {
		return true
	}
	n := o.caches.known(types.NamespacedName{Namespace: cm.Namespace, Name: owner.Name})
	return n == nil || n.uid != string(owner.UID) || !n.records.written.made(cm)
}

// readRecords reads the members ConfigMap and says whether there is one. The cache is not believed about its absence.
func (r *recordKeeper) readRecords(ctx context.Context, s *pass) (bool, error) {
	name := resources.NamesOf(s.cluster.Name).Members
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: name}
	var cm corev1.ConfigMap
	err := r.Client.Get(ctx, key, &cm)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, key, &cm)
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the records: %w", err)
	case !ownedBy(&cm, s.cluster):
		return false, r.objects.foreign(ctx, s, "ConfigMap", &cm)
	}
	s.stored.orphaned = metav1.GetControllerOf(&cm) == nil
	memo := &s.cache.records.memo
	memo.mu.Lock()
	defer memo.mu.Unlock()
	if memo.superseded[cm.ResourceVersion] {
		s.setRecords(memo.records.Clone())
		s.stored.version = memo.version
		return true, nil
	}
	var records topology.Records
	text := cm.Data[resources.KeyMembers]
	unreadable := json.Unmarshal([]byte(text), &records)
	if memo.version != "" && text != memo.text && !slices.Contains(memo.unheard, text) && (unreadable != nil || !records.Equal(memo.records)) {
		edited, err := r.edited(ctx, records)
		if err != nil {
			return false, err
		}
		if edited {
			s.setRecords(memo.records.Clone())
			s.stored.version, s.stored.edited = cm.ResourceVersion, true
			return true, nil
		}
	}
	if unreadable != nil {
		// Unreadable records are lost records: they are rebuilt from tags.
		s.stored.version, s.stored.lost = cm.ResourceVersion, true
		return true, nil
	}
	if p := plausible(s, name, len(text), &records); p != nil {
		return false, p
	}
	s.setRecords(records.Clone())
	s.stored.version = cm.ResourceVersion
	memo.superseded, s.cache.records.unstored = nil, nil
	return true, nil
}

// edited says whether somebody else than an operator wrote the records that differ from what this process wrote last: it leads still,
// so that nobody else decides. What was restored from a copy tells of another time, and what was made up of none: who is known to have
// acknowledged commits alone, and how many incarnations are used up, is nowhere else.
//
// An operator without a name cannot tell its own writes from another's.
func (r *recordKeeper) edited(ctx context.Context, records topology.Records) (bool, error) {
	if r.Config.Hand == "" {
		return false, nil
	}
	if r.Config.Lease == nil {
		return slices.Contains([]string{"", noHand, r.Config.Hand}, records.Hand), nil
	}
	if err := r.Config.Lease(ctx); err != nil {
		return false, fmt.Errorf("the records are not as this process wrote them: %w", err)
	}
	return true, nil
}

// miss takes the records that this process wrote last in place of those that are gone, or else holds them for lost.
func (r *recordKeeper) miss(ctx context.Context, s *pass) error {
	memo := &s.cache.records.memo
	memo.mu.Lock()
	defer memo.mu.Unlock()
	if memo.version != "" {
		switch known, err := r.edited(ctx, topology.Records{}); {
		case err != nil:
			return err
		case known:
			s.setRecords(memo.records.Clone())
			s.stored.edited = true
			return nil
		}
	}
	s.stored.lost = true
	return nil
}

// createRecords makes the members ConfigMap. It never replaces one.
func (r *recordKeeper) createRecords(ctx context.Context, s *pass, records topology.Records) error {
	text, err := json.Marshal(records)
	if err != nil {
		return fmt.Errorf("encode the records: %w", err)
	}
	var cm corev1.ConfigMap
	if err := convert(resources.MembersConfigMap(s.cluster, text), &cm); err != nil {
		return err
	}
	if err := r.Client.Create(ctx, &cm, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// Nothing new can be stored in a namespace that goes. This process remembers it, so that no pass begins anew.
			kept := records.Clone()
			s.setRecords(records.Clone())
			s.cache.records.unstored = &kept
			return nil
		}
		return fmt.Errorf("create the records: %w", err)
	}
	s.setRecords(records.Clone())
	s.stored.version = cm.ResourceVersion
	return nil
}

// saveRecords writes changed records by compare-and-swap: a conflict means that somebody else decided meanwhile, and
// ends the pass. Actions of several members may save at the same time.
func (r *recordKeeper) saveRecords(ctx context.Context, s *pass, change func(*topology.Records)) error {
	memo := &s.cache.records.memo
	memo.mu.Lock()
	defer memo.mu.Unlock()
	next := s.records().Clone()
	change(&next)
	if next.Equal(s.records()) && !s.stored.lost && !s.stored.orphaned && !s.stored.edited {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the records: %w", err)
	}
	if s.stored.version == "" {
		if err := r.createRecords(ctx, s, next); err != nil {
			memo.unheard = append(memo.unheard, string(text))
			return err
		}
		r.saved(s, text)
		return nil
	}
	ac := resources.MembersConfigMap(s.cluster, text).WithResourceVersion(s.stored.version)
	s.cache.records.written.begin(string(text))
	if err := r.Client.Apply(ctx, ac, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		if !apierrors.IsConflict(err) {
			memo.unheard = append(memo.unheard[max(0, len(memo.unheard)-ownVersions):], string(text))
		}
		return fmt.Errorf("save the records: %w", err)
	}
	if memo.superseded == nil {
		memo.superseded = map[string]bool{}
	}
	memo.superseded[s.stored.version] = true
	s.setRecords(next)
	if ac.ResourceVersion != nil {
		s.stored.version = *ac.ResourceVersion
		s.cache.records.written.end(s.stored.version)
	}
	r.saved(s, text)
	return nil
}

// saved notes what was just written. The caller holds the memo.
func (r *recordKeeper) saved(s *pass, text []byte) {
	if s.stored.version != "" {
		memo := &s.cache.records.memo
		memo.records, memo.version, memo.text, memo.unheard = s.records().Clone(), s.stored.version, string(text), nil
		if s.stored.edited {
			r.announcer.announceRecords(s)
		}
	}
	s.stored.lost, s.stored.orphaned, s.stored.edited = false, false, false
}

// records returns the records as this pass knows them, and saved them last. They are shared: whoever changes them changes a clone.
func (s *pass) records() topology.Records {
	if known := s.stored.now.Load(); known != nil {
		return *known
	}
	return topology.Records{}
}

func (s *pass) setRecords(records topology.Records) { s.stored.now.Store(&records) }

// record returns what is remembered of a member at the moment.
func (s *pass) record(member string) topology.Record { return s.records().Members[member] }

// remember saves the records that the plan needs before any action is taken. Lost records are rebuilt only from what EC2
// shows: while it is silent there is nothing to save, and nothing is done either, because what an action saves would
// pass for all there ever was.
func (r *recordKeeper) remember(ctx context.Context, s *pass) error {
	if s.stored.lost && !s.observed.CloudReachable {
		s.plan.Actions = nil
		return nil
	}
	next := s.plan.Records.Clone()
	willHold(s, &next)
	if next.Account == "" && s.observed.Launchable && (s.shown() || len(s.records().Members) == 0) {
		next.Account = s.access.account // what is there, and what is about to be made, is in it
	}
	if !next.Empty() {
		next.Hand = r.hand() // what was added here makes records of none
	}
	s.result.moved = !sameButForEpoch(next, s.records())
	if err := r.takeOver(ctx, s, next); err != nil {
		s.done = true // what was seen and planned by one that leads no more is not shown either
		return err
	}
	err := r.saveRecords(ctx, s, func(records *topology.Records) { *records = next })
	if p := engine.AsProblem(err); p != nil && p.InTheWay() && !s.deleting() {
		// Nothing is done that could not be remembered. What is there is published all the same.
		s.plan.Actions, s.result.moved = nil, false
		s.result.inTheWay = append(s.result.inTheWay, p)
		return nil
	}
	return err
}

// takeOver asks for the lease before records become this process's own: one that was replaced, and does not know yet, must not take
// them back. They were read before, so that whoever becomes leader after the look has them changed, or finds ours changed.
func (r *recordKeeper) takeOver(ctx context.Context, s *pass, next topology.Records) error {
	if next.Hand == s.records().Hand || r.Config.Lease == nil {
		return nil
	}
	if err := r.Config.Lease(ctx); err != nil {
		return fmt.Errorf("take the records over: %w", err)
	}
	return nil
}

// sameButForEpoch compares records. An epoch is taken whenever a row is to be written, also in vain: it says nothing of what
// came of it. Nor does the one with which a term is to begin, nor who it was that decided.
func sameButForEpoch(a, b topology.Records) bool {
	a.Epoch, a.LeaderEpoch, a.Hand = b.Epoch, b.LeaderEpoch, b.Hand
	return a.Equal(b)
}

// recordsForNow returns the records to decide on: rebuilt from what EC2 shows when the saved ones are lost.
func recordsForNow(s *pass, o topology.Observed, now time.Time) topology.Records {
	if !s.stored.lost {
		return s.records()
	}
	o.Now = now
	return topology.Rebuild(o)
}

// ownedBy says whether an object is the cluster's, by UID: the cluster controls it, or nobody does and it is marked as the cluster's.
func ownedBy(obj client.Object, c *v1alpha1.MySQLCluster) bool { return ownerOf(obj) == c.UID }

// ownerOf returns the UID of what controls an object. A deletion of the cluster with --cascade=orphan takes the owner off each of its
// objects at once, however long the cluster goes on; the mark stays.
func ownerOf(obj client.Object) types.UID {
	if by := metav1.GetControllerOf(obj); by != nil {
		return by.UID
	}
	return types.UID(obj.GetAnnotations()[v1alpha1.AnnotationClusterUID])
}

// convert turns an apply configuration into an object, for the one case in which it must be created and not applied.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
