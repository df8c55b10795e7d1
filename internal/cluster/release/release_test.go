package release

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// TestADeletionThatStandsStillCanBeGivenUp although EC2 refuses nothing. One that gets on is not, nor one that waits for a snapshot.
func TestADeletionThatStandsStillCanBeGivenUp(t *testing.T) {
	const away = "the operator was away in between"
	for name, row := range map[string]struct {
		change  func(s *pass.Pass, passes int)
		givesUp bool
	}{
		"an instance stays in shutting-down": {func(*pass.Pass, int) {}, true},
		away:                                 {func(*pass.Pass, int) {}, false},
		"nobody asked for it":                {func(s *pass.Pass, _ int) { s.Cluster.Annotations = nil }, false},
		"it is not to go":                    {func(s *pass.Pass, _ int) { s.Cluster.DeletionTimestamp = nil }, false},
		"it is about to end":                 {func(s *pass.Pass, _ int) { s.Plan.Gone = true }, false},
		"it gets on": {func(s *pass.Pass, passes int) {
			s.Plan.Members[0].Step.Message = strings.Repeat("|", passes)
		}, false},
		"a snapshot is being taken": {func(s *pass.Pass, _ int) {
			s.Observed.Snapshots.Known = []topology.Snapshot{{ID: "snap-1", State: "pending"}}
		}, false},
	} {
		cache, now := pass.NewCache("uid"), time.Now()
		begun := now
		for passes := range 20 {
			s := &pass.Pass{Cluster: &v1alpha1.MySQLCluster{}, Cache: cache, Planned: true}
			s.Cluster.Annotations = map[string]string{v1alpha1.AnnotationAbandonCloudResources: "true"}
			s.Cluster.Spec.DeletionProtection = ptr.To(false)
			s.Cluster.DeletionTimestamp = &metav1.Time{Time: begun}
			s.Plan.Members = []topology.View{{Name: "orders-0", Step: topology.Step{Code: topology.Waiting, Message: "terminating instance i-1, which is shutting-down"}}}
			s.Plan.Waiting = topology.Finding{Reason: v1alpha1.ReasonDeleting, Message: "orders-0: " + s.Plan.Members[0].Step.Message}
			row.change(s, passes)
			why := giveUpFor(s, now)
			if late := now.Sub(begun) >= AbandonPatience; (why != nil) != (row.givesUp && late) {
				t.Errorf("%s: after %s: %v", name, now.Sub(begun), why)
			}
			if now = now.Add(30 * time.Second); name == away {
				now = now.Add(AbandonPatience)
			}
		}
	}
}
