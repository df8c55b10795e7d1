package simulation

import (
	"context"
	"maps"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// observe reads what a pass decides on, in controllers' order: EC2, then every member, then the claims.
func (op *operator) observe(p *process, recordsLost bool) (topology.Observed, bool) {
	w, pic := op.w, op.picture
	op.watch(recordsLost)
	age := sweepEvery
	switch {
	case op.looks.Detector.SomeSilent():
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
		Now: w.time(), CloudReachable: err == nil, CloudTaken: w.at(pic.taken), Records: op.records(), WriterID: op.name, Members: map[string]*topology.Member{},
		Permitted: topology.Permitted{Launchable: true, Rehearsal: topology.Rehearsal{Completed: true}}, DatabaseReady: op.records().Database != "", InService: maps.Clone(w.kube.inService), Source: w.source(),
		WatchedSince: *op.watchedSince, UncoveredReported: maps.Clone(op.w.kube.uncovered), DoubtAt: op.requests.Doubted(),
	}
	op.shown.Observe(&o)
	if pic.group {
		o.SecurityGroup = "sg-1"
	}
	op.memberise(&o)
	if recordsLost {
		o.Records = topology.Rebuild(o)
	}
	return o, op.looks.Observe(p.context(), &o, op.lookPorts()) == nil
}

// watch notes since when what is made for the cluster is made by this process, and known to it.
func (op *operator) watch(recordsLost bool) {
	if op.watchedSince != nil {
		return
	}
	op.watchedSince = &time.Time{}
	if recordsLost || len(op.records().Members) > 0 {
		*op.watchedSince = op.w.time()
	}
}

// findHidden looks by id for the recorded volumes that the lists do not show, as controllers do.
func (op *operator) findHidden(p *process) error {
	w := op.w
	for n := range maxMembers {
		rec := op.records().Members[w.desired.MemberName(n)]
		if rec.VolumeID == "" || op.picture.volumes[rec.VolumeID] != nil || op.goneAt[rec.VolumeID] > 0 && w.now-op.goneAt[rec.VolumeID] < goneFor {
			continue
		}
		look := func() error {
			return p.call("look for "+rec.VolumeID, func() error {
				v := w.volume(rec.VolumeID)
				seen, there := asOf(v.past, w.now-w.between(0, w.shape.weather.lag))
				if there && seen.State != deleted {
					see(op.picture.volumes, v.ID, v.member, seen, w.now, false)
				} else {
					op.goneAt[v.ID] = w.now
				}
				return nil
			})
		}
		if err := op.requests.Look(engine.Errand{What: engine.FindErrand, Object: rec.VolumeID}, clock{w}, look); err != nil {
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
			o.Members[name] = &topology.Member{Name: name, Ordinal: ordinal, RecordedVolume: op.records().Members[name].VolumeID}
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
	for name, rec := range op.records().Members {
		if rec.VolumeID != "" || rec.PendingVolume != "" {
			member(name) // although EC2 may show nothing of it
		}
	}
	for _, m := range o.Members {
		op.looks.Detector.RecordVolumes(m, op.records().Members[m.Name].PendingVolume, o.CloudReachable, w.time())
		op.requests.Show(m, w.time())
	}
	if taken := op.picture.snapshotsTaken; taken >= 0 {
		o.Snapshots.Taken = w.at(taken)
	}
	if op.picture.snapshotsTaken < op.picture.taken {
		o.Snapshots.Unanswered = "EC2 does not answer"
	}
	for _, s := range w.cloud.snapshots {
		if r := op.picture.snapshots[s.ID]; r != nil {
			o.Snapshots.Known = append(o.Snapshots.Known, r.value)
		}
	}
}

// lookPorts are what the members are looked at through.
func (op *operator) lookPorts() engine.LookPorts {
	return engine.LookPorts{
		Threads: threads{op}, Clock: clock{op.w}, ParseGTIDs: func(text string) (gtid.Set, error) { return op.w.ledger.parse(text), nil },
		Server: func(_ context.Context, m *topology.Member) engine.LookedAt {
			return &member{op, op.w.instance(m.CurrentInstance().ID)}
		},
		Judge: op.judge,
		Heard: func(context.Context, *topology.Member) {},
		Wake:  op.wakeUp,
	}
}

// judge adds what follows from the records, and from what the instance was given.
func (op *operator) judge(m *topology.Member, o mysql.Observation) {
	if in := op.w.instance(m.CurrentInstance().ID); in != nil {
		m.SQL.CertificateIssuedAt = op.w.at(in.signedAt)
	}
	m.SQL.Drifted, m.SQL.Persisted = map[string]string{}, maps.Clone(o.Persisted)
	if due := op.records().Members[m.Name].RestartDue; due != 0 {
		m.SQL.RestartPending = o.StartedAt.Unix() < due
	}
}
