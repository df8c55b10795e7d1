package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestSettling: what Reconciling, Stalled and observedGeneration say of generation 2 after a pass that found something.
func TestSettling(t *testing.T) {
	found := func(reason string) []topology.Finding { return []topology.Finding{{Reason: reason, Message: "why"}} }
	for name, row := range map[string]struct {
		planned      bool
		progressing  metav1.ConditionStatus
		before       string // the condition that was there, empty for none
		problems     []topology.Finding
		change       func(*pass.Pass)
		want         string // the condition that is there, empty for none
		wantObserved int64
	}{
		"all is done":               {planned: true, progressing: metav1.ConditionFalse, before: "Reconciling"},
		"a rollout waits":           {planned: true, progressing: metav1.ConditionTrue, want: "Reconciling"},
		"a rollout stopped":         {planned: true, progressing: metav1.ConditionTrue, before: "Reconciling", problems: found(v1alpha1.ReasonRollingStopped), want: "Stalled", wantObserved: 2},
		"a spec that is wrong":      {problems: found(v1alpha1.ReasonInvalidSpec), want: "Stalled", wantObserved: 2},
		"a spec that was corrected": {planned: true, progressing: metav1.ConditionTrue, before: "Stalled", want: "Reconciling"},
		"EC2 is silent meanwhile":   {before: "Stalled", problems: found(v1alpha1.ReasonCloudSilent), want: "Stalled"},
		"a changed spec that nothing installs": {planned: true, progressing: metav1.ConditionTrue, problems: found(v1alpha1.ReasonDownloadMissing), want: "Stalled", wantObserved: 2,
			change: func(s *pass.Pass) { s.Desired.Untried = "the tarball is not there" }},
		"what runs was withdrawn": {planned: true, progressing: metav1.ConditionFalse, problems: found(v1alpha1.ReasonDownloadMissing)},
		"a Secret is missing":     {problems: found(v1alpha1.ReasonCredentialsMissing)},
		"the policy refuses it": {problems: found(v1alpha1.ReasonNotPermitted), want: "Stalled", wantObserved: 2,
			change: func(s *pass.Pass) { s.Access.Violations = found(v1alpha1.ReasonNotPermitted) }},
		"the policy cannot be read": {problems: found(v1alpha1.ReasonNotPermitted),
			change: func(s *pass.Pass) { s.Access.Violations, s.Access.Unread = found(v1alpha1.ReasonNotPermitted), true }},
		"AWS permits it not yet":   {problems: found(v1alpha1.ReasonNotPermitted)},
		"a restore is tried again": {problems: found(v1alpha1.ReasonRecoveryFailed)},
		"a restore cannot succeed": {problems: found(v1alpha1.ReasonRecoveryFailed), want: "Stalled", wantObserved: 2,
			change: func(s *pass.Pass) { s.Observed.Source.Final = true }},
	} {
		s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Planned: row.planned}
		s.Cluster.Generation = 2
		c := pass.Conditions{Cluster: s.Cluster}
		if row.before != "" {
			c.Set(row.before, metav1.ConditionTrue, "Before", "before")
		}
		if row.progressing != "" {
			c.Set(v1alpha1.ConditionProgressing, row.progressing, v1alpha1.ReasonRolling, "member 1 of 3")
		}
		if row.change != nil {
			row.change(s)
		}
		settle(c, s, row.problems)
		for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
			if is := meta.IsStatusConditionTrue(s.Cluster.Status.Conditions, kind); is != (kind == row.want) {
				t.Errorf("%s: %s is %v", name, kind, is)
			}
		}
		if s.Cluster.Status.ObservedGeneration != row.wantObserved {
			t.Errorf("%s: observed generation %d", name, s.Cluster.Status.ObservedGeneration)
		}
	}
}
