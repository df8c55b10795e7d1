package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// purgeEvery is the least time between two attempts to make room on a primary's disk.
	purgeEvery = time.Minute
	// lastResort is how much of the disk is left, in percent, when a log goes that is not archived: a full disk ends all writes.
	lastResort = 5
)

// PurgeBinaryLogs removes what every replica has executed, and the archive holds, from a primary whose disk fills up. While a replica is
// not reached nothing is removed: nobody knows what it lacks. When almost nothing is left of the disk, the oldest log goes although the
// archive does not hold it.
func (m sqlMember) PurgeBinaryLogs(ctx context.Context) error {
	s := m.s
	if m.r.Clock.Since(s.Cache.Looks.PurgedAt) < purgeEvery {
		return nil
	}
	var p purge
	for _, v := range s.Plan.Members {
		if v.Name == s.Plan.Primary {
			continue
		}
		other := s.Observed.Members[v.Name]
		if other == nil || other.SQL.Access != topology.AccessVerified {
			return fmt.Errorf("%s does not answer: what it lacks is kept", v.Name)
		}
		p.replicas = append(p.replicas, other.SQL.Executed.String())
	}
	var err error
	if p.archived, p.archives, err = m.r.Archive.Archived(ctx, s.Cluster); err != nil {
		return err
	}
	if primary := s.Observed.Members[s.Plan.Primary]; primary != nil {
		p.disk = primary.SQL.Disk
	}
	s.Cache.Looks.PurgedAt = m.r.Clock.Now()
	removed, unarchived, err := p.run(func(executed []string, atMost int) (int, error) {
		return m.Member.PurgeBinaryLogs(ctx, executed, atMost)
	})
	if removed > 0 {
		s.Log.Info("removed binary logs that nobody needs", "member", s.Plan.Primary, "logs", removed)
	}
	if unarchived > 0 {
		m.r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventUnarchivedLogRemoved, announce.Act,
			"Removed the oldest binary log of %s, which is not archived yet, because less than %d%% of its disk is left. Raise spec.storage.size, and see why the archive is behind", s.Plan.Primary, lastResort)
	}
	return err
}

// purge is who still needs the binary logs of a primary.
type purge struct {
	// replicas are the GTID sets that the replicas have executed, archived is what the archive of a cluster that archives holds.
	replicas []string
	archived string
	archives bool
	// disk is that of the primary, nil while it is not known.
	disk *topology.Disk
}

// run removes logs, and returns how many, and how many of those were not archived. remove removes those that all sets cover, at most so
// many; 0 is no limit.
func (p purge) run(remove func(executed []string, atMost int) (int, error)) (removed, unarchived int, err error) {
	if !p.archives {
		removed, err = remove(p.replicas, 0)
		return removed, 0, err
	}
	removed, err = remove(append(slices.Clone(p.replicas), p.archived), 0)
	if err != nil || removed > 0 || p.disk == nil || p.disk.FreeBytes >= p.disk.SizeBytes/100*lastResort {
		return removed, 0, err
	}
	unarchived, err = remove(p.replicas, 1)
	return unarchived, unarchived, err
}
