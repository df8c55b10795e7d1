package simulation

import (
	"context"
	"math/rand/v2"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// A cluster that begins with nothing may begin with a copy of another cluster's volume instead: of one that had members of the
// same names, and that was told of every commit in it.
const (
	// recoverySourceShare is how many of a hundred of the schedules that begin with nothing are of such a cluster. Which ones is drawn from numbers
	// of their own, so that the others stay as they were.
	recoverySourceShare  = 60
	recoverySourceStream = 0x68656972
	recoverySourceID     = "snap-recoverysource"
	// oldEpoch is that of the old cluster's row: higher than any that the new one comes to in its first steps. oldHistory is how
	// many commits there are.
	oldEpoch, oldHistory = 40, 5
)

// drawRecoverySource decides whether the cluster begins with a copy, and makes what is copied. Its commits were acknowledged: from the
// first moment none may be missing from a primary.
func (w *world) drawRecoverySource(seed, schedule uint64) {
	rng := rand.New(rand.NewPCG(seed^recoverySourceStream, schedule))
	if !w.shape.fresh || w.scenario != nil || rng.IntN(100) >= recoverySourceShare {
		return
	}
	st := &store{uuid: w.ledger.newServer()}
	row := &mysql.Membership{Epoch: oldEpoch, W: w.shape.size / 2}
	for n := range w.shape.size {
		row.Voters = append(row.Voters, w.desired.MemberName(n))
	}
	row.Primary = row.Voters[rng.IntN(len(row.Voters))]
	for n := range oldHistory {
		id := w.ledger.record(transaction{uuid: st.uuid, number: n + 1, client: -1})
		st.binlog = append(st.binlog, id)
		st.executed.add(id)
		st.content.add(id)
		w.acked.add(id)
	}
	st.committed, st.row = len(st.binlog), row
	st.clone = &mysql.CloneProgress{State: mysql.CloneCompleted} // the member that it is of was seeded once
	w.recoverySource, w.desired.Recover = st, true
}

// inherit fills a new volume with a copy of recoverySource, of which mysqld makes a server with a UUID of its own.
func (w *world) inherit(v *volume) {
	if w.kube.records.Recovered || w.kube.records.Bootstrapped != "" || v.member != w.desired.MemberName(0) {
		w.fail(duplicated, "%s gets the volume %s from %s once more", v.member, v.ID, recoverySourceID)
	}
	st := *w.recoverySource
	st.uuid, st.persisted = w.ledger.newServer(), map[string]string{}
	st.binlog = append([]int(nil), w.recoverySource.binlog...)
	st.executed, st.content = gtidSet{}, nil
	for _, id := range st.binlog {
		st.executed.add(id)
		st.content.add(id)
	}
	v.st, v.Foreign = &st, true
}

// source is what the operator finds out about recoverySource.
func (w *world) source() topology.Source {
	if w.recoverySource == nil {
		return topology.Source{}
	}
	return topology.Source{Copied: true, SnapshotID: recoverySourceID}
}

// Adopt does what controllers do: over SQL, then by a tag, then in the records.
func (m *member) Adopt(ctx context.Context, a topology.Adopt) error {
	p := processOf(ctx)
	w := p.w
	if err := m.takeOver(ctx); err != nil {
		return err
	}
	if err := p.call(a.String(), func() error {
		v := w.volume(a.VolumeID)
		if v == nil || v.State == deleted {
			return errNotFound
		}
		v.Foreign = false
		w.recordVolume(v)
		see(p.op.picture.volumes, v.ID, v.member, v.Volume, w.now, false)
		return nil
	}); err != nil {
		return err
	}
	return p.op.stored.Save(ctx, func(r *topology.ClusterRecord) { r.Recovered = true })
}

// takeOver is what *admin.Member does when it adopts.
func (m *member) takeOver(ctx context.Context) error {
	return m.control(ctx, func(c writer) error {
		if err := c.do(func(s *mysqld) error {
			switch {
			case s.writable:
				return mysql.ErrWritable
			case s.st.source != "":
				return mysql.ErrReplicates
			case len(s.st.executed.without(nil)) == 0:
				return mysql.ErrNothingThere
			}
			s.superReadOnly = false
			return nil
		}); err != nil {
			return err
		}
		if err := c.do(func(s *mysqld) error {
			if s.w.kube.records.Bootstrapped != "" {
				s.w.fail(wildRow, "%s is adopted after the cluster has begun; %s", s.on.member, rowText(s.st.row))
			}
			s.w.say("%s: %s forgets %s", m.op.name, s.on.member, rowText(s.st.row))
			s.st.row = nil
			return nil
		}); err != nil {
			return err
		}
		return c.do(func(s *mysqld) error { s.superReadOnly = true; return nil })
	})
}
