package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
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
	stored, err := s.stored.Open(ctx, claimed)
	switch {
	case err != nil || claimed:
		return err
	case !stored:
		s.done = true // its namespace goes, and it goes with that: nothing was ever made for it
		return nil
	}
	before := s.cluster.DeepCopy()
	controllerutil.AddFinalizer(s.cluster, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
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

// records returns the records as this pass knows them, and saved them last. They are shared: whoever changes them changes a clone.
func (s *pass) records() topology.Records { return s.stored.Now() }

func (s *pass) setRecords(records topology.Records) { s.stored.Set(records) }

// record returns what is remembered of a member at the moment.
func (s *pass) record(member string) topology.Record { return s.records().Members[member] }

// remember saves the records that the plan needs before any action is taken. Lost records are rebuilt only from what EC2
// shows: while it is silent there is nothing to save, and nothing is done either, because what an action saves would
// pass for all there ever was.
func (r *recordKeeper) remember(ctx context.Context, s *pass) error {
	if s.stored.Lost && !s.observed.CloudReachable {
		s.plan.Actions = nil
		return nil
	}
	next := s.plan.Records.Clone()
	willHold(s, &next)
	if next.Account == "" && s.observed.Launchable && (s.shown() || len(s.records().Members) == 0) {
		next.Account = s.access.account // what is there, and what is about to be made, is in it
	}
	s.result.moved = s.stored.Moves(next)
	led, err := s.stored.Remember(ctx, next)
	if !led {
		s.done = true // what was seen and planned by one that leads no more is not shown either
		return err
	}
	if p := asProblem(err); p != nil && p.InTheWay() && !s.deleting() {
		// Nothing is done that could not be remembered. What is there is published all the same.
		s.plan.Actions, s.result.moved = nil, false
		s.result.inTheWay = append(s.result.inTheWay, p)
		return nil
	}
	return err
}

// recordsForNow returns the records to decide on: rebuilt from what EC2 shows when the saved ones are lost.
func recordsForNow(s *pass, o topology.Observed, now time.Time) topology.Records {
	if !s.stored.Lost {
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
