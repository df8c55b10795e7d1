package observe

import (
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/internal/window"
)

// HoldsBack says why no member may be replaced or restarted at the moment because the spec was changed, empty when one may
// be. A window that cannot be read never opens, and says so.
func HoldsBack(c *v1alpha1.MySQLCluster, now time.Time) string {
	if c.Spec.Upgrade != nil && c.Spec.Upgrade.Paused {
		return "spec.upgrade.paused holds it back"
	}
	if c.Spec.MaintenanceWindow == nil {
		return ""
	}
	w, err := window.Read(c.Spec.MaintenanceWindow)
	if err != nil {
		return err.Error()
	}
	switch open, next := w.Open(now); {
	case open:
		return ""
	case next.IsZero():
		return "the next maintenance window opens in more than five years"
	default:
		return "the next maintenance window opens at " + next.Format(time.RFC3339)
	}
}

// readWindow tells of a maintenance window that never opens, or cannot be read, at once: when something is to wait for it, it may
// be an upgrade that is urgent.
func readWindow(s *pass.Pass) {
	w := s.Cluster.Spec.MaintenanceWindow
	if w == nil || s.Deleting() {
		return
	}
	if _, err := window.Read(w); err != nil {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()})
	}
}
