package argocd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
)

// Check returns what is wrong with the health that the scripts give an object, empty for nothing. Argo CD and Flux agree on what is
// settled and what has failed; beyond that Argo CD shows hibernation, and an outage of a cluster that was Ready.
func (c *Customizations) Check(o client.Object) string {
	is, err := kstatus.Of(o)
	if err != nil {
		return err.Error()
	}
	health, message, err := c.Health(o)
	if err != nil {
		return err.Error()
	}
	want := map[status.Status]string{status.CurrentStatus: Healthy, status.FailedStatus: Degraded}[is]
	if want == "" {
		want = Progressing
	}
	if cluster, ok := o.(*v1alpha1.MySQLCluster); ok {
		switch st := cluster.Status; {
		case want == Healthy && st.Phase == v1alpha1.PhaseHibernated:
			want = Suspended
		case want == Progressing && is != status.TerminatingStatus && outage(cluster):
			want = Degraded
		}
	}
	if health != want {
		return fmt.Sprintf("%s is %s in Argo CD (%s), and should be %s: kstatus says %s", o.GetName(), health, message, want, is)
	}
	return ""
}

// outage says whether a cluster that was Ready takes no writes, and a person should know.
func outage(c *v1alpha1.MySQLCluster) bool {
	st := c.Status
	up := st.Phase == v1alpha1.PhaseReady || st.Phase == v1alpha1.PhaseRepairing || st.Phase == v1alpha1.PhaseUpdating
	return up && st.ObservedGeneration == c.Generation &&
		meta.IsStatusConditionFalse(st.Conditions, v1alpha1.ConditionAvailable) && meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionDegraded)
}
