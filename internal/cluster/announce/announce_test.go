package announce

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// TestConditionsThatChangeAreReported once, with the reason by which alerts select.
func TestConditionsThatChangeAreReported(t *testing.T) {
	const degraded, recovered = v1alpha1.ConditionDegraded, v1alpha1.ConditionRecovered
	is := func(kind string, status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "orders-1 is full"}
	}
	full, gone, well := is(degraded, metav1.ConditionTrue, "DiskNearlyFull"), is(degraded, metav1.ConditionTrue, "MemberMissing"), is(degraded, metav1.ConditionFalse, "Healthy")
	for name, test := range map[string]struct {
		was, is *metav1.Condition
		want    []string
	}{
		"a new cluster is well":            {nil, well, nil},
		"the first that is known is bad":   {nil, full, []string{"Warning DiskNearlyFull orders-1 is full"}},
		"it becomes bad":                   {well, full, []string{"Warning DiskNearlyFull orders-1 is full"}},
		"it stays bad":                     {full, full, nil},
		"it is bad for another reason":     {full, gone, []string{"Warning MemberMissing orders-1 is full"}},
		"it is well again":                 {full, well, []string{"Normal Healthy Nothing needs attention any more"}},
		"it stays well":                    {well, well, nil},
		"it is not known any more":         {full, nil, nil},
		"a restore goes on":                {is(recovered, metav1.ConditionFalse, "Recovering"), is(recovered, metav1.ConditionFalse, "RecoveryFailed"), nil},
		"a restore is complete":            {is(recovered, metav1.ConditionFalse, "Recovering"), is(recovered, metav1.ConditionTrue, "Recovered"), []string{"Normal Recovered The cluster begins with what spec.bootstrap.recovery names"}},
		"a restore was complete long ago":  {is(recovered, metav1.ConditionTrue, "Recovered"), is(recovered, metav1.ConditionTrue, "Recovered"), nil},
		"a condition that is not reported": {is("Available", metav1.ConditionTrue, "WriteSucceeded"), is("Available", metav1.ConditionFalse, "WriteFailed"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			r := &Announcer{Ports: &pass.Ports{Events: recorder}}
			var was, is v1alpha1.MySQLCluster
			if test.was != nil {
				was.Status.Conditions = append(was.Status.Conditions, *test.was)
			}
			if test.is != nil {
				is.Status.Conditions = append(is.Status.Conditions, *test.is)
			}
			r.StatusChanges(&pass.Pass{Cluster: &is, Cache: pass.NewCache("")}, &was)
			close(recorder.Events)
			var got []string
			for event := range recorder.Events {
				got = append(got, event)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
