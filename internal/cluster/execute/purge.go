package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// purgeEvery is the least time between two attempts to make room on a primary's disk.
	purgeEvery = time.Minute
	// lastResort is how much of the disk is left, in percent, when logs go that are not archived: a full disk ends all writes. So many
	// go that enough is left again, in percent: the archive has a gap after the first, and what is written until the next attempt
	// needs room.
	lastResort = 5
	enough     = 10
)

// PurgeBinaryLogs removes what every replica has executed, and the archive holds, from a primary whose disk fills up. While a replica is
// not reached nothing is removed: nobody knows what it lacks. When almost nothing is left of the disk, the oldest logs go although the
// archive does not hold them, or nobody can read what it holds.
func (m sqlMember) PurgeBinaryLogs(ctx context.Context) error {
	return m.purge(ctx, m.Member.PurgeBinaryLogs)
}

// remover removes the oldest logs that all sets cover, where enough is not 0 as many as are needed for so many bytes.
type remover func(ctx context.Context, executed []string, enough uint64) (admin.Purged, error)

func (m sqlMember) purge(ctx context.Context, remove remover) error {
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
	var unread error
	p.archived, p.archives, unread = m.r.Archive.Archived(ctx, s.Cluster)
	if primary := s.Observed.Members[s.Plan.Primary]; primary != nil {
		p.disk = primary.SQL.Disk
	}
	s.Cache.Looks.PurgedAt = m.r.Clock.Now()
	removed, unarchived, err := p.run(ctx, remove)
	if removed+unarchived > 0 {
		s.Log.Info("removed binary logs that nobody needs", "member", s.Plan.Primary, "logs", removed+unarchived)
	}
	if unarchived > 0 {
		m.r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.EventUnarchivedLogRemoved, announce.Act,
			"Removed the %d oldest binary logs of %s, which are not archived yet, because less than %d%% of its disk is left. Raise spec.storage.size, and see why the archive is behind", unarchived, s.Plan.Primary, lastResort)
	}
	return errors.Join(unread, err)
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

// run removes logs, and returns how many, and how many more that were not archived.
func (p purge) run(ctx context.Context, remove remover) (removed, unarchived int, err error) {
	needed := p.replicas
	if p.archives {
		needed = append(slices.Clone(p.replicas), p.archived)
	}
	purged, err := remove(ctx, needed, 0)
	if err != nil || !p.archives || p.disk == nil {
		return purged.Logs, 0, err
	}
	free, percent := p.disk.FreeBytes+purged.Bytes, p.disk.SizeBytes/100
	if free >= percent*lastResort {
		return purged.Logs, 0, nil
	}
	rest, err := remove(ctx, p.replicas, percent*enough-free)
	return purged.Logs, rest.Logs, err
}
