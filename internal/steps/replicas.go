package steps

import (
	"context"
	"errors"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// ReplicateFrom points a member at its source. One that receives nothing at the moment, and votes, acknowledges from the
// start on.
func ReplicateFrom(ctx context.Context, m Server, a topology.ReplicateFrom) error {
	if a.Acknowledging {
		if err := m.SetAcknowledging(ctx, true); err != nil {
			return err
		}
	}
	return m.ReplicateFrom(ctx, a.SourceAddress, v1alpha1.MySQLPort)
}

// SetAcknowledging switches a replica's acknowledgements. Commits that it received before wait for something newer to be
// acknowledged, which an idle primary is given.
func SetAcknowledging(ctx context.Context, m, primary Server, a topology.SetAcknowledging) error {
	if err := m.SetAcknowledging(ctx, a.On); err != nil || !a.On || primary.Observe(ctx).PendingCommits == 0 {
		return err
	}
	return CommitEmptyTransaction(ctx, primary)
}

// CommitEmptyTransaction commits an empty transaction. That it waits as well is no failure: then nobody acknowledges.
func CommitEmptyTransaction(ctx context.Context, primary Server) error {
	if err := primary.CommitEmptyTransaction(ctx); !errors.Is(err, mysql.ErrCommitsPending) {
		return err
	}
	return nil
}
