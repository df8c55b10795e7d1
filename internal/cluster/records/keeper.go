// Package records keeps the records of a cluster in its members ConfigMap.
package records

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Keeper keeps the records of a cluster in its ConfigMap.
type Keeper struct {
	*pass.Ports
	Announcer *announce.Announcer
	Objects   *objects.Objects
}

// Claim makes sure that the cluster's records exist and that its finalizer is set, in this order and before anything
// exists outside of Kubernetes. So an object with the finalizer but without records has lost them.
func (r *Keeper) Claim(ctx context.Context, s *pass.Pass) error {
	claimed := controllerutil.ContainsFinalizer(s.Cluster, v1alpha1.Finalizer)
	if !s.Cluster.DeletionTimestamp.IsZero() && !claimed {
		s.Done = true // nothing was ever made for it, or all of it is gone
		return nil
	}
	stored, err := s.Stored.Open(ctx, claimed)
	switch {
	case err != nil || claimed:
		return err
	case !stored:
		s.Done = true // its namespace goes, and it goes with that: nothing was ever made for it
		return nil
	}
	before := s.Cluster.DeepCopy()
	controllerutil.AddFinalizer(s.Cluster, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, s.Cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// OthersWrites lets updates of ConfigMaps through but for those that this process made: a pass that changes the records is
// not its own reason for another. What a person or a pod writes is looked at at once.
type OthersWrites struct {
	predicate.Funcs
	Caches *pass.Caches
}

// Create implements predicate.Predicate.
func (OthersWrites) Create(event.CreateEvent) bool { return false }

// Update implements predicate.Predicate.
func (o OthersWrites) Update(e event.UpdateEvent) bool {
	cm, ok := e.ObjectNew.(*corev1.ConfigMap)
	owner := metav1.GetControllerOf(e.ObjectNew)
	if !ok || owner == nil || len(cm.Data[resources.KeyMembers]) == 0 || !cm.DeletionTimestamp.IsZero() {
		return true
	}
	n := o.Caches.Known(types.NamespacedName{Namespace: cm.Namespace, Name: owner.Name})
	return n == nil || n.UID != string(owner.UID) || !n.Records.Written.Made(cm)
}

// Remember saves the records that the plan needs before any action is taken. Lost records are rebuilt only from what EC2
// shows: while it is silent there is nothing to save, and nothing is done either, because what an action saves would
// pass for all there ever was.
func (r *Keeper) Remember(ctx context.Context, s *pass.Pass) error {
	if s.Stored.Lost && !s.Observed.CloudReachable {
		s.Plan.Actions = nil
		return nil
	}
	next := s.Plan.Records.Clone()
	pass.WillHold(s, &next)
	if next.Account == "" && s.Observed.Launchable && (s.Shown() || len(s.Records().Members) == 0) {
		next.Account = s.Access.Account // what is there, and what is about to be made, is in it
	}
	s.Result.Moved = s.Stored.Moves(next)
	led, err := s.Stored.Remember(ctx, next)
	if !led {
		s.Done = true // what was seen and planned by one that leads no more is not shown either
		return err
	}
	if p := pass.AsProblem(err); p != nil && p.InTheWay() && !s.Deleting() {
		// Nothing is done that could not be remembered. What is there is published all the same.
		s.Plan.Actions, s.Result.Moved = nil, false
		s.Result.InTheWay = append(s.Result.InTheWay, p)
		return nil
	}
	return err
}

// RecordsForNow returns the records to decide on: rebuilt from what EC2 shows when the saved ones are lost.
func RecordsForNow(s *pass.Pass, o topology.Observed, now time.Time) topology.ClusterRecord {
	if !s.Stored.Lost {
		return s.Records()
	}
	o.Now = now
	return topology.Rebuild(o)
}
