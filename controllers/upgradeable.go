package controllers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/olm"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// Reasons of the OperatorCondition Upgradeable=False.
const (
	unfinishedFailover   = "FailoverInProgress"
	unfinishedSwitchover = "SwitchoverInProgress"
	unfinishedRollout    = "RollingChangeInProgress"
	unfinishedRestore    = "RestoreInProgress"
)

// Upgradeable is told, after each pass, what a hand-over to another operator had better not interrupt; nil for nothing. Any
// hand-over is survived; this keeps a planned one from making an interruption of writes longer.
type Upgradeable interface {
	Set(cluster types.NamespacedName, work *olm.Unfinished)
}

// tellUnfinished tells what the plan leaves unfinished. A pass that did not come to a plan changes nothing, but for a cluster
// that is gone.
func (r *reporter) tellUnfinished(req ctrl.Request, s *pass) {
	switch {
	case r.Upgradeable == nil:
	case s == nil || s.done:
		r.Upgradeable.Set(req.NamespacedName, nil)
	case s.planned:
		r.Upgradeable.Set(req.NamespacedName, unfinished(s))
	}
}

// unfinished names the failover, switchover, rolling change or restore that is under way. One that was given up until a person
// does something is not: perhaps another release of the operator is what helps.
func unfinished(s *pass) *olm.Unfinished {
	if s.deleting() {
		return nil
	}
	// A wish that waits for what may never come is not under way: whoever makes it must not keep the operator from being upgraded.
	wanted := s.cluster.Annotations[v1alpha1.AnnotationSwitchover]
	if wanted != "" && wanted != s.plan.Primary && slices.ContainsFunc(s.plan.Members, func(v topology.View) bool { return v.Name == wanted && v.Phase == v1alpha1.PhaseReady }) {
		return &olm.Unfinished{Reason: unfinishedSwitchover, Message: "the primary is to hand over to " + wanted}
	}
	if s.plan.Failing {
		return &olm.Unfinished{Reason: unfinishedFailover, Message: "the cluster has lost its primary and has no new one yet"}
	}
	for _, action := range s.plan.Actions {
		switch action.(type) {
		case topology.ApplyReceived, topology.Promote, topology.RecordPrimary, topology.Fence, topology.StandAlone:
			return &olm.Unfinished{Reason: unfinishedFailover, Message: "a member is being made the primary"}
		case topology.Switchover:
			return &olm.Unfinished{Reason: unfinishedSwitchover, Message: "the primary hands over to another member"}
		case topology.Restart:
			return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being restarted one after the other"}
		}
	}
	if s.plan.Rollout.Kind != v1alpha1.RolloutVolumes && s.plan.Rollout.Current != "" {
		return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being replaced one after the other"}
	}
	if s.recovering() && s.backup.recovery[task.ReportState] != restoreFailed && s.backup.unadoptable == "" && !s.observed.Source.Final {
		return &olm.Unfinished{Reason: unfinishedRestore, Message: "the data of the cluster are being restored"}
	}
	for _, m := range s.observed.Members {
		if m != nil && s.desired.Hold == "" && s.desired.RestartDue(m, s.observed.Now) {
			return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being restarted one after the other"}
		}
	}
	return nil
}
