package simulation

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// observe reads what a pass decides on, in controllers' order: EC2, then every member, then the claims.
func (op *operator) observe(p *process, recordsLost bool) (topology.Observed, bool) {
	w, pic := op.w, op.picture
	op.watch(recordsLost)
	age := sweepEvery
	switch {
	case op.detector.SomeSilent():
		age = troubledAge
	case w.desired.Deleting:
		age = endingAge
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
		Now: w.time(), CloudReachable: err == nil, CloudTaken: w.at(pic.taken), Records: op.records, Hand: op.name, Members: map[string]*topology.Member{},
		Launchable: true, DatabaseReady: op.records.Database != "", InService: maps.Clone(w.kube.inService), Source: w.source(),
		WatchedSince: *op.watchedSince, UncoveredReported: maps.Clone(op.w.kube.uncovered), DoubtAt: op.requests.Doubted(),
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

// watch notes since when what is made for the cluster is made by this process, and known to it.
func (op *operator) watch(recordsLost bool) {
	if op.watchedSince != nil {
		return
	}
	op.watchedSince = &time.Time{}
	if recordsLost || len(op.records.Members) > 0 {
		*op.watchedSince = op.w.time()
	}
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
			o.Members[name] = &topology.Member{Name: name, Ordinal: ordinal, RecordedVolume: op.records.Members[name].VolumeID}
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
	for name, rec := range op.records.Members {
		if rec.VolumeID != "" || rec.Made != "" {
			member(name) // although EC2 may show nothing of it
		}
	}
	for _, m := range o.Members {
		op.detector.NoteVolumes(m, op.records.Members[m.Name].Made, o.CloudReachable, w.time())
		op.requests.Show(m, w.time())
	}
	for _, s := range w.cloud.snapshots {
		if r := op.picture.snapshots[s.ID]; r != nil {
			o.Snapshots = append(o.Snapshots, r.value)
		}
	}
}

// look is one look at a member's mysqld, see controllers/sighting.go. It goes on when the pass that began it does not wait
// any longer, and the next pass takes what came of it.
type look struct {
	observation mysql.Observation
	over        bool
	ended       int64
	until       int64 // how long the present pass waits for it
	claimed     bool
	claim       error
	heard       func()
}

const (
	lookPatience   = 1500
	silentPatience = 300
	lookFresh      = second
)

// lookAt begins to look at a member, or returns the look that is under way or has just ended.
func (op *operator) lookAt(in *instance) *look {
	w := op.w
	if lk := op.looks[in]; lk != nil && (!lk.over || w.now-lk.ended < lookFresh) {
		return lk
	}
	lk := &look{}
	op.looks[in] = lk
	wantsClaim := !op.claimed[in.ID]
	w.spawn(op, nil, func(own *process) {
		handle := &member{op, in}
		lk.observation = handle.Observe(own.context())
		if wantsClaim && lk.observation.Access == mysql.AccessVerified {
			lk.claimed, lk.claim = true, handle.Claim(own.context())
		}
		lk.over, lk.ended = true, w.now
		if lk.heard != nil {
			lk.heard()
		}
	})
	return lk
}

// await waits until every look is over, or the patience with it.
func (p *process) await(looks []*look) {
	w := p.w
	for {
		waits := int64(-1)
		for _, lk := range looks {
			if !lk.over && lk.until > w.now && (waits < 0 || lk.until-w.now < waits) {
				waits = lk.until - w.now
			}
		}
		if waits < 0 {
			return
		}
		awake := false
		wake := func() {
			if !awake {
				awake = true
				p.resume()
			}
		}
		for _, lk := range looks {
			lk.heard = func() { w.after(0, wake) }
		}
		w.after(waits, wake)
		p.pause()
	}
}

// observeSQL asks every member whose machine is up, side by side. They answer at slightly different times. It fails when
// the lease turns out to be lost.
func (op *operator) observeSQL(p *process, o *topology.Observed) bool {
	w := op.w
	names := slices.Sorted(maps.Keys(o.Members))
	w.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	looks, awaited := map[string]*look{}, []*look{}
	for _, name := range names {
		seen := o.Members[name].CurrentInstance()
		if seen == nil || seen.State != running {
			continue
		}
		lk, patience := op.lookAt(w.instance(seen.ID)), int64(lookPatience)
		if !op.detector.SilentSince(name).IsZero() {
			patience = silentPatience
		}
		lk.until = w.now + patience
		looks[name] = lk
		awaited = append(awaited, lk)
	}
	p.await(awaited)
	for _, name := range names {
		m := o.Members[name]
		if lk := looks[name]; lk != nil && !op.takeLook(m, lk) {
			return false
		}
		op.detector.NoteAnswer(m, w.time(), w.time())
	}
	op.detector.Note(o)
	return true
}

// takeLook takes over what came of a look. It fails when the lease turned out to be lost.
func (op *operator) takeLook(m *topology.Member, lk *look) bool {
	if !lk.over {
		m.SQL = topology.SQL{Access: topology.AccessSilent, Reason: "no answer yet"}
		return true
	}
	in := op.w.instance(m.CurrentInstance().ID)
	delete(op.looks, in)
	m.SQL = op.sqlOf(m, lk.observation)
	switch {
	case !lk.claimed:
	case lk.claim == nil:
		op.claimed[in.ID] = true
	case errors.Is(lk.claim, mysql.ErrLeaseRefused):
		return false
	default:
		m.SQL = topology.SQL{Access: topology.AccessSilent, Reason: lk.claim.Error()}
	}
	return true
}

// sqlOf translates what the SQL plane saw into the brain's words, as controllers do.
func (op *operator) sqlOf(m *topology.Member, o mysql.Observation) topology.SQL {
	s := topology.SQL{Access: topology.Access(o.Access), Reason: o.Reason}
	if o.Access != mysql.AccessVerified {
		return s
	}
	l := op.w.ledger
	s.Version, s.ServerUUID, s.Writable, s.StartedAt = o.Version, o.ServerUUID, !o.ReadOnly, o.StartedAt
	if in := op.w.instance(m.CurrentInstance().ID); in != nil {
		s.CertificateIssuedAt = op.w.at(in.signedAt)
	}
	s.Executed, s.Purged, s.Waiting = l.parse(o.Executed), l.parse(o.Purged), l.parse(o.Waiting)
	s.SemiSync = topology.SemiSync{
		SourceEnabled: o.SemiSync.SourceEnabled, ReplicaEnabled: o.SemiSync.ReplicaEnabled, ReplicaActive: o.SemiSync.ReplicaActive,
		WaitCount: o.SemiSync.WaitCount, Clients: o.SemiSync.Clients, OffTimes: o.SemiSync.OffTimes,
	}
	for _, stranger := range o.SemiSync.Strangers {
		s.SemiSync.Strangers = append(s.SemiSync.Strangers, topology.Stranger(stranger))
	}
	s.MembershipKnown, s.PendingCommits, s.Answered = o.MembershipKnown, o.PendingCommits, o.AnsweredCommits
	if row := o.Membership; row != nil {
		s.Membership = &topology.Membership{Epoch: row.Epoch, Primary: row.Primary, Voters: row.Voters, Previous: row.Previous, W: row.W}
	}
	if r := o.Replication; r != nil {
		s.Replication = &topology.Replication{
			SourceHost: r.SourceHost, IOState: r.IOState, SQLRunning: r.SQLRunning, Retrieved: l.parse(r.Retrieved),
			SourceSilence: r.SourceSilence,
		}
		s.Replication.ReceiverError, s.Replication.ApplierError = topology.StopErrors(r.IOState, r.SQLRunning, r.ReceiverRetries, r.LastIOError, r.LastSQLError)
		if r.LagSeconds != nil {
			s.Replication.LagKnown, s.Replication.Lag = true, time.Duration(*r.LagSeconds*float64(time.Second))
		}
	}
	if c := o.Clone; c != nil {
		s.Clone = &topology.Clone{State: c.State, Message: c.Error, Source: c.Source, Began: c.Began}
	}
	s.Drifted, s.Persisted, s.PersistedIgnored = map[string]string{}, maps.Clone(o.Persisted), o.PersistedIgnored
	if due := op.records.Members[m.Name].RestartDue; due != 0 {
		s.RestartPending = o.StartedAt.Unix() < due
	}
	return s
}
