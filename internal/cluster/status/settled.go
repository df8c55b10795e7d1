package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// settle sets Reconciling and Stalled, from which kstatus concludes whether the spec is carried out. At most one of them is there.
// A pass that came to no plan and finds nothing that stalls leaves them as they are.
func settle(c pass.Conditions, s *pass.Pass, problems []topology.Finding) {
	st := &c.Cluster.Status
	if why := stalledBy(s, problems); why != nil {
		st.ObservedGeneration = c.Cluster.Generation // it was judged, and nothing more comes of it
		c.Set(v1alpha1.ConditionStalled, metav1.ConditionTrue, why.Reason, why.Message)
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionReconciling)
		return
	}
	if !s.Planned {
		return
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionStalled)
	if p := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionProgressing); p != nil && p.Status == metav1.ConditionTrue {
		c.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, p.Reason, p.Message)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionReconciling)
	}
}

// stalledBy returns the first problem that stays until a person changes what was asked for, nil for none. What others may bring about,
// such as permissions, quotas and Secrets, is waited for.
func stalledBy(s *pass.Pass, problems []topology.Finding) *topology.Finding {
	unrestorable := s.Observed.Source.Final || s.Backup.Unadoptable != ""
	for _, f := range problems {
		switch {
		case f.Reason == v1alpha1.ReasonInvalidSpec, f.Reason == v1alpha1.ReasonRollingStopped:
		case f.Reason == v1alpha1.ReasonDownloadMissing && s.Desired.Untried != "": // otherwise what is asked for runs already
		case f.Reason == v1alpha1.ReasonRecoveryFailed && unrestorable:
		case len(s.Access.Violations) > 0 && !s.Access.Unread && f == s.Access.Violations[0]:
		default:
			continue
		}
		return &f
	}
	return nil
}
