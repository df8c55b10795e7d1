package status

import (
	"fmt"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
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

// ReportUnfinished reports what the plan leaves unfinished. A pass that did not come to a plan reports nothing, but for a cluster
// that is gone.
func (r *Reporter) ReportUnfinished(req ctrl.Request, s *pass.Pass) {
	switch {
	case r.Upgradeable == nil:
	case s == nil || s.Done:
		r.Upgradeable.Set(req.NamespacedName, nil)
	case s.Planned:
		work := unfinished(s)
		if work != nil {
			work.Progress = progress(s)
		}
		r.Upgradeable.Set(req.NamespacedName, work)
	}
}

// progress changes when a promotion was written, when a rolling change comes to another member, and when a restore reports something else.
func progress(s *pass.Pass) string {
	var epoch uint64
	if row := s.Plan.Membership; row != nil {
		epoch = row.Epoch
	}
	rollout := s.Plan.Rollout
	return fmt.Sprint(epoch, rollout.Kind, len(rollout.Done), rollout.Current, s.Backup.Recovery)
}

// unfinished names the failover, switchover, rolling change or restore that is under way. One that was given up until a person
// does something is not: perhaps another release of the operator is what helps. What does not advance is left out by internal/olm.
func unfinished(s *pass.Pass) *olm.Unfinished {
	switch {
	case s.Deleting():
		return nil
	case switchoverAsked(s):
		return &olm.Unfinished{Reason: unfinishedSwitchover, Message: "the primary is to hand over to " + s.Cluster.Annotations[v1alpha1.AnnotationSwitchover]}
	case s.Plan.Failing:
		return &olm.Unfinished{Reason: unfinishedFailover, Message: "the cluster has lost its primary and has no new one yet"}
	}
	if u := unfinishedAction(s.Plan.Actions); u != nil {
		return u
	}
	switch {
	case s.Plan.Rollout.Kind != v1alpha1.RolloutVolumes && s.Plan.Rollout.Current != "":
		return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being replaced one after the other"}
	case s.Recovering() && s.Backup.Recovery[task.ReportState] != pass.RestoreFailed && s.Backup.Unadoptable == "" && !s.Observed.Source.Final:
		return &olm.Unfinished{Reason: unfinishedRestore, Message: "the data of the cluster are being restored"}
	case restartDue(s):
		return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being restarted one after the other"}
	}
	return nil
}

// switchoverAsked says whether a person wants a member as the primary that can be. A wish that waits for what may never come is not under
// way: whoever makes it must not keep the operator from being upgraded.
func switchoverAsked(s *pass.Pass) bool {
	wanted := s.Cluster.Annotations[v1alpha1.AnnotationSwitchover]
	return wanted != "" && wanted != s.Plan.Primary && slices.ContainsFunc(s.Plan.Members, func(v topology.View) bool { return v.Name == wanted && v.Phase == v1alpha1.PhaseReady })
}

// unfinishedAction names what the first of some actions is a part of, nil for none.
func unfinishedAction(actions []topology.Action) *olm.Unfinished {
	for _, action := range actions {
		switch action.(type) {
		case topology.ApplyReceived, topology.Promote, topology.RecordPrimary, topology.Fence, topology.RemoveAllVoters:
			return &olm.Unfinished{Reason: unfinishedFailover, Message: "a member is being made the primary"}
		case topology.Switchover:
			return &olm.Unfinished{Reason: unfinishedSwitchover, Message: "the primary hands over to another member"}
		case topology.Restart:
			return &olm.Unfinished{Reason: unfinishedRollout, Message: "members are being restarted one after the other"}
		}
	}
	return nil
}

// restartDue says whether the mysqld of a member waits for a restart that nothing holds back.
func restartDue(s *pass.Pass) bool {
	for _, m := range s.Observed.Members {
		if m != nil && s.Desired.Hold == "" && s.Desired.RestartDue(m, s.Observed.Now) {
			return true
		}
	}
	return false
}
