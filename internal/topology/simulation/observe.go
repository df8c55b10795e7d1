package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// observe reads what a pass decides on, in controllers' order: EC2, then every member, then the claims.
func (op *operator) observe(p *process, recordsLost bool) (topology.Observed, bool) {
	w, pic := op.w, op.picture
	age := sweepEvery
	if len(op.silentSince) > 0 {
		age = troubledAge
	}
	var err error
	switch {
	case w.now-pic.failed < 5*second:
		err = errSilent
	case pic.taken < 0 || w.now-pic.taken > age:
		err = p.sweep(false)
	case op.inTransition():
		err = p.sweep(true)
	}
	if err == nil {
		err = op.findHidden(p)
	}
	if err != nil && pic.taken < 0 {
		return topology.Observed{}, false
	}
	o := topology.Observed{
		Now: w.time(), CloudReachable: err == nil, CloudTaken: w.at(pic.taken), Records: op.records, Members: map[string]*topology.Member{},
		Launchable: true, DatabaseReady: op.records.Database != "", InService: maps.Clone(w.kube.inService),
	}
	if pic.group {
		o.SecurityGroup = "sg-1"
	}
	op.memberise(&o)
	if recordsLost {
		o.Records = topology.Rebuild(o)
	}
	if !op.observeSQL(p, &o) {
		return o, false
	}
	return o, true
}

// findHidden looks by id for the recorded volumes that the lists do not show, as controllers do.
func (op *operator) findHidden(p *process) error {
	w := op.w
	for n := range maxMembers {
		rec := op.records.Members[w.desired.MemberName(n)]
		if rec.VolumeID == "" || op.picture.volumes[rec.VolumeID] != nil || op.goneAt[rec.VolumeID] > 0 && w.now-op.goneAt[rec.VolumeID] < goneFor {
			continue
		}
		if err := p.call("look for "+rec.VolumeID, func() error {
			v := w.volume(rec.VolumeID)
			seen, there := asOf(v.past, w.now-w.between(0, w.shape.weather.lag))
			if there && seen.State != deleted {
				see(op.picture.volumes, v.ID, v.member, seen, w.now, false)
			} else {
				op.goneAt[v.ID] = w.now
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (op *operator) inTransition() bool {
	for _, r := range op.picture.instances {
		if instanceMoves(r.value) {
			return true
		}
	}
	for _, r := range op.picture.volumes {
		if volumeMoves(r.value) || r.value.AttachedTo != "" && op.picture.instances[r.value.AttachedTo] != nil && op.picture.instances[r.value.AttachedTo].value.State == terminated {
			return true
		}
	}
	for _, r := range op.picture.snapshots {
		if r.value.State == pending {
			return true
		}
	}
	return false
}

// memberise sorts what is known of EC2 by member.
func (op *operator) memberise(o *topology.Observed) {
	w := op.w
	member := func(name string) *topology.Member {
		if o.Members[name] == nil {
			ordinal, _ := w.desired.Ordinal(name)
			o.Members[name] = &topology.Member{
				Name: name, Ordinal: ordinal, RecordedVolume: op.records.Members[name].VolumeID,
				CapacityRefused: op.refused[name].zone, CapacityRefusedAt: w.at(op.refused[name].since),
			}
		}
		return o.Members[name]
	}
	for _, in := range w.cloud.instances {
		if r := op.picture.instances[in.ID]; r != nil {
			m := member(r.member)
			m.Instances = append(m.Instances, r.value)
		}
	}
	for _, v := range w.cloud.volumes {
		if r := op.picture.volumes[v.ID]; r != nil && !r.retired {
			m := member(r.member)
			m.Volumes = append(m.Volumes, r.value)
		}
	}
	for _, s := range w.cloud.snapshots {
		if r := op.picture.snapshots[s.ID]; r != nil {
			o.Snapshots = append(o.Snapshots, r.value)
		}
	}
}

// observeSQL asks every member whose machine is up. They answer at slightly different times, and those that are silent
// hold up the pass, so that the others' answers are old when it goes on.
func (op *operator) observeSQL(p *process, o *topology.Observed) bool {
	w := op.w
	names := slices.Sorted(maps.Keys(o.Members))
	w.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		m := o.Members[name]
		seen := m.CurrentInstance()
		if seen == nil || seen.State != running {
			continue
		}
		in := w.instance(seen.ID)
		w.spawn(op, p, func(child *process) {
			handle := &member{op, in}
			m.SQL = op.sqlOf(m, handle.Observe(child.context()), in)
		})
	}
	p.join()
	for _, name := range names {
		m := o.Members[name]
		seen := m.CurrentInstance()
		if seen == nil || seen.State != running {
			op.track(m)
			continue
		}
		if m.SQL.Access == topology.AccessVerified && !op.claimed[seen.ID] {
			switch err := (&member{op, w.instance(seen.ID)}).Claim(p.context()); {
			case err == nil:
				op.claimed[seen.ID] = true
			case !w.holdsLease(op):
				return false
			default:
				m.SQL = topology.SQL{Access: topology.AccessSilent, Reason: err.Error()}
			}
		}
		op.track(m)
	}
	return true
}

// track notes since when a member is not reached, or its replication is broken.
func (op *operator) track(m *topology.Member) {
	since := func(notes map[string]int64, is bool) time.Time {
		if !is {
			delete(notes, m.Name)
			return time.Time{}
		}
		if _, ok := notes[m.Name]; !ok {
			notes[m.Name] = op.w.now
		}
		return op.w.at(notes[m.Name])
	}
	m.SilentSince = since(op.silentSince, m.SQL.Access == topology.AccessSilent || m.SQL.Access == topology.AccessRefused)
	r := m.SQL.Replication
	m.BrokenSince = since(op.brokenSince, r != nil && r.Error != "" && (r.IOState == ioOff || !r.SQLRunning))
	m.DownSince = since(op.downSince, m.SQL.Access != topology.AccessVerified && op.records.Members[m.Name].SignedInstance != "")
}

// sqlOf translates what the SQL plane saw into the brain's words, as controllers do.
func (op *operator) sqlOf(m *topology.Member, o mysql.Observation, in *instance) topology.SQL {
	s := topology.SQL{Access: topology.Access(o.Access), Reason: o.Reason}
	if o.Access != mysql.AccessVerified {
		return s
	}
	l := op.w.ledger
	s.Version, s.ServerUUID, s.Writable = o.Version, o.ServerUUID, !o.ReadOnly
	s.Executed, s.Purged = l.parse(o.Executed), l.parse(o.Purged)
	s.SemiSync = topology.SemiSync(o.SemiSync)
	s.MembershipKnown, s.PendingCommits = o.MembershipKnown, o.PendingCommits
	if row := o.Membership; row != nil {
		s.Membership = &topology.Membership{Epoch: row.Epoch, Primary: row.Primary, Voters: row.Voters, W: row.W}
	}
	if r := o.Replication; r != nil {
		s.Replication = &topology.Replication{
			SourceHost: r.SourceHost, IOState: r.IOState, SQLRunning: r.SQLRunning, Retrieved: l.parse(r.Retrieved), Error: r.LastSQLError,
			SourceSilence: -1,
		}
		if s.Replication.Error == "" {
			s.Replication.Error = r.LastIOError
		}
		if r.LagSeconds != nil {
			s.Replication.LagKnown, s.Replication.Lag = true, time.Duration(*r.LagSeconds*float64(time.Second))
		}
		if in.server != nil && in.server.heard > 0 {
			s.Replication.SourceSilence = time.Duration(op.w.now-in.server.heard) * time.Millisecond
		}
	}
	if c := o.Clone; c != nil {
		s.Clone = &topology.Clone{State: c.State, Message: c.Error, Source: c.Source}
	}
	s.Drifted, s.Persisted = map[string]string{}, maps.Clone(o.Persisted)
	if due := op.records.Members[m.Name].RestartDue; due != 0 {
		s.RestartPending = o.StartedAt.Unix() < due
	}
	return s
}
