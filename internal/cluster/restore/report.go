package restore

import (
	"context"

	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// LookAtRecovery reads what the restoring pod said, also when it is done: what it left out is told for as long as the cluster
// says that it was restored.
func (r *Restorer) LookAtRecovery(ctx context.Context, s *pass.Pass) {
	if s.Backup.Recovery == nil && s.Cluster.Recovery() != nil {
		s.Backup.Recovery = r.recoveryReport(ctx, s)
	}
}
