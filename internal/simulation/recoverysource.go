package simulation

import (
	"context"
	"math/rand/v2"
	"slices"

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
	// archiveShare is how many of a hundred of those are to begin with a later point, to which an archive leads, drawn from numbers of their
	// own as well; archivedHistory is how many commits that adds.
	archiveShare    = 50
	archiveStream   = 0x61726368
	archivedHistory = 4
	// oldEpoch is that of the old cluster's row: higher than any that the new one comes to in its first steps. oldHistory is how
	// many commits there are.
	oldEpoch, oldHistory = 40, 5
)

// heritage is what a cluster begins with: a copy of a volume, and what was archived after it up to the point that is asked for.
type heritage struct {
	copied   *store
	archived []int
	job      *replay // nil while nobody asked for it
}

// replay is a Job that brings a copy to the point.
type replay struct {
	copy string
	done bool
}

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
	commit := func(n int) int {
		id := w.ledger.record(transaction{uuid: st.uuid, number: n + 1, client: -1})
		w.acked.add(id)
		return id
	}
	for n := range oldHistory {
		st.append(commit(n))
	}
	st.committed, st.row = len(st.binlog), row
	st.clone = &mysql.CloneProgress{State: mysql.CloneCompleted} // the member that it is of was seeded once
	w.heritage, w.desired.Recover = &heritage{copied: st}, true
	if rand.New(rand.NewPCG(seed^archiveStream, schedule)).IntN(100) < archiveShare {
		w.desired.ToPoint = true
		for n := range archivedHistory {
			w.heritage.archived = append(w.heritage.archived, commit(oldHistory+n))
		}
	}
}

// append adds a transaction to what the store holds.
func (st *store) append(id int) {
	st.binlog = append(st.binlog, id)
	st.executed.add(id)
	st.content.add(id)
}

// inherit fills a new volume with the copy, of which mysqld makes a server with a UUID of its own.
func (w *world) inherit(v *volume) {
	if w.kube.records.Recovered || w.kube.records.Bootstrapped != "" || v.member != w.desired.MemberName(0) {
		w.fail(duplicated, "%s gets the volume %s from %s once more", v.member, v.ID, recoverySourceID)
	}
	st := *w.heritage.copied
	st.uuid, st.persisted = w.ledger.newServer(), map[string]string{}
	st.binlog, st.executed, st.content = nil, gtidSet{}, nil
	for _, id := range w.heritage.copied.binlog {
		st.append(id)
	}
	v.st, v.Foreign = &st, true
}

// source is what the operator finds out about it.
func (w *world) source() topology.Source {
	if w.heritage == nil {
		return topology.Source{}
	}
	return topology.Source{Copied: true, SnapshotID: recoverySourceID}
}

// recover does what controllers do: it keeps a Job going for the copy, and then writes into the records that it is done.
func (h *heritage) recover(ctx context.Context, op *operator, a topology.Recover) error {
	switch {
	case h.job == nil || h.job.copy != a.Copy:
		h.job = &replay{copy: a.Copy}
		h.step(op.w, h.job)
		return nil
	case !h.job.done:
		return nil
	}
	return op.stored.Save(ctx, func(r *topology.ClusterRecord) { r.Replayed = a.Copy })
}

// step replays the next archived transaction into a copy whose server runs, and comes again until all are there. What was replayed is
// read from the server, which may have crashed.
func (h *heritage) step(w *world, job *replay) {
	v := w.volume(job.copy)
	if h.job != job || v == nil || v.State == deleted {
		return
	}
	for _, in := range w.cloud.instances {
		s := in.server
		if s == nil || s.st != v.st || in.frozen || s.writable {
			continue
		}
		at := slices.IndexFunc(h.archived, func(id int) bool { return !s.st.executed.has(id) })
		if at < 0 {
			job.done = true
			return
		}
		if s.st.row == nil {
			w.fail(wildRow, "%s has no row of the old cluster any more, while the archive is replayed that writes to it", in.member)
		}
		s.st.append(h.archived[at])
		s.st.committed = len(s.st.binlog)
	}
	w.after(2*second, func() { h.step(w, job) })
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
