// Package kstatus checks what kstatus, by which Flux and other tools tell whether an object is as its spec asks, concludes from each
// status of a MySQLCluster or a MySQLBackup.
package kstatus

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Of returns what kstatus concludes from an object of this API.
func Of(o client.Object) (status.Status, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return status.UnknownStatus, fmt.Errorf("convert %s: %w", o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	switch o.(type) {
	case *v1alpha1.MySQLCluster:
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLCluster"))
	case *v1alpha1.MySQLBackup:
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLBackup"))
	}
	result, err := status.Compute(u)
	if err != nil {
		return status.UnknownStatus, fmt.Errorf("compute the status of %s: %w", o.GetName(), err)
	}
	return result.Status, nil
}

// Checker checks objects one after the other, as they are seen. It may be used by several goroutines.
type Checker struct {
	mu sync.Mutex
	// wasReady holds the clusters that were Ready since they were made or last hibernated.
	wasReady map[types.UID]bool
}

// wayUp are the phases of a cluster that is not up yet.
var wayUp = []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating}

// Check returns what is wrong with an object's status, empty for nothing. Objects of other kinds are right.
func (c *Checker) Check(o client.Object) string {
	is, err := Of(o)
	if err != nil {
		return err.Error()
	}
	wrong := ""
	switch o := o.(type) {
	case *v1alpha1.MySQLCluster:
		if wrong = cluster(o, is); wrong == "" {
			wrong = c.phase(o)
		}
	case *v1alpha1.MySQLBackup:
		wrong = backup(o, is)
	}
	if wrong == "" {
		return ""
	}
	return fmt.Sprintf("%s is %s: %s", o.GetName(), is, wrong)
}

// generic says what of an object holds for either kind: the status to expect, and whether that is settled.
func generic(o client.Object, observed int64, conditions []metav1.Condition) (want status.Status, known bool) {
	switch {
	case !o.GetDeletionTimestamp().IsZero():
		return status.TerminatingStatus, true
	case observed != o.GetGeneration():
		return status.InProgressStatus, true
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		return status.FailedStatus, true
	}
	return status.InProgressStatus, false
}

// cluster says what is wrong with a cluster's conditions. That it is Current is concluded from what they do not say: its phase, and
// whether it takes writes.
func cluster(o *v1alpha1.MySQLCluster, is status.Status) string {
	st := &o.Status
	truly := func(kind string) bool { return meta.IsStatusConditionTrue(st.Conditions, kind) }
	want, known := generic(o, st.ObservedGeneration, st.Conditions)
	asleep := o.Spec.Hibernate && st.Phase == v1alpha1.PhaseHibernated
	serves := st.Phase == v1alpha1.PhaseReady && truly(v1alpha1.ConditionAvailable) && truly(v1alpha1.ConditionReady)
	if !known && !truly(v1alpha1.ConditionProgressing) && (asleep || serves) {
		want = status.CurrentStatus
	}
	switch {
	case is != want:
		return fmt.Sprintf("it should be %s: %s", want, describe(o.Generation, st.ObservedGeneration, string(st.Phase), st.Conditions))
	case truly(v1alpha1.ConditionStalled) && truly(v1alpha1.ConditionReconciling):
		return "it is Stalled and Reconciling at once"
	}
	return ""
}

// phase says what is wrong with the phase of a cluster after those that were seen before.
func (c *Checker) phase(o *v1alpha1.MySQLCluster) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wasReady == nil {
		c.wasReady = map[types.UID]bool{}
	}
	switch phase := o.Status.Phase; {
	case phase == v1alpha1.PhaseReady:
		c.wasReady[o.UID] = true
	case phase == v1alpha1.PhaseHibernated:
		delete(c.wasReady, o.UID)
	case c.wasReady[o.UID] && slices.Contains(wayUp, phase):
		return fmt.Sprintf("its phase is %s, and it was Ready before", phase)
	}
	return ""
}

// backup says what is wrong with a backup's conditions. Pods write the phase and the verification, and the operator the conditions after
// them: the reason of Ready says what it saw.
func backup(o *v1alpha1.MySQLBackup, is status.Status) string {
	want, known := generic(o, o.Status.ObservedGeneration, nil)
	if ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady); !known && ready != nil && o.Done() {
		switch ready.Reason {
		case string(v1alpha1.BackupCompleted):
			want = status.CurrentStatus
		case string(v1alpha1.BackupFailed), v1alpha1.ReasonBackupVanished, v1alpha1.ReasonVerificationFailed:
			want = status.FailedStatus
		}
	}
	if is != want {
		return fmt.Sprintf("it should be %s: %s", want, describe(o.Generation, o.Status.ObservedGeneration, string(o.Status.Phase), o.Status.Conditions))
	}
	return ""
}

func describe(generation, observed int64, phase string, conditions []metav1.Condition) string {
	text := fmt.Sprintf("generation %d, observed %d, phase %q", generation, observed, phase)
	for _, c := range conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}
