package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// TestNothingGoesByTimeAlone: a schedule that is suspended, or fails, keeps what it has. Age counts up to its newest good snapshot.
func TestNothingGoesByTimeAlone(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.hourly("h0")
	g.hourly("h1")
	g.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.Backup.Schedules[1].Retention = v1alpha1.RetentionSpec{MaxAge: &metav1.Duration{Duration: time.Hour}}
	})
	first := g.backup("h0").Status.SnapshotID
	taken := func(firstAgo, secondAgo time.Duration) func(*pass.Pass) {
		return func(s *pass.Pass) {
			for i := range s.Seen.Inventory.Snapshots {
				ago := secondAgo
				if s.Seen.Inventory.Snapshots[i].ID == first {
					ago = firstAgo
				}
				s.Seen.Inventory.Snapshots[i].StartTime = g.now().Now().Add(-ago)
			}
		}
	}
	g.look(taken(3*time.Hour, 150*time.Minute))
	if g.backup("h0") == nil || len(g.ids()) != 2 {
		t.Fatalf("it went by time alone: left are %v", g.ids())
	}
	g.look(taken(4*time.Hour, 150*time.Minute))
	g.look(nil)
	if g.backup("h0") != nil || len(g.ids()) != 1 {
		t.Errorf("it stays: left are %v", g.ids())
	}
}
