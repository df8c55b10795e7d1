package backups

import (
	"context"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/jobs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// DestinationFor is how long a destination is believed to have what the backup pods need. The kubelet, too, sees a change of a Secret
// only a minute later.
const DestinationFor = time.Minute

// LookAtDestination reads whether what the backups' destination names is there.
func (r *Backups) LookAtDestination(ctx context.Context, s *pass.Pass) error {
	n := &s.Cache.Backups
	if n.Missing != nil || r.Clock.Since(n.MissingAt) >= DestinationFor {
		missing, err := jobs.Missing(ctx, r.Reader, s.Cluster.Namespace, s.Cluster.Spec.Backup.Destination)
		if err != nil {
			return err
		}
		n.Missing, n.MissingAt = missing, r.Clock.Now()
	}
	s.Backup.Blocked = n.Missing
	return nil
}

// block records that backup pods cannot begin because their account or a Secret of theirs is somebody else's, and says whether that is why.
func block(s *pass.Pass, err error) bool {
	p := pass.AsProblem(err)
	if p == nil || p.Reason != v1alpha1.ReasonForeignResource {
		return false
	}
	s.Backup.Blocked = p
	return true
}
