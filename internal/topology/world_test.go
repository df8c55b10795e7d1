package topology

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// world is a small model of what the operator acts on: EC2 with tokens, and a mysqld on each instance. It takes the
// planner's actions and shows what came of them, so that a test can run pass after pass until nothing changes.
type world struct {
	rehearsal Rehearsal
	passes    int
	t         *testing.T
	now       time.Time
	desired   Desired
	records   ClusterRecord
	machines  map[string]*machine
	volumes   map[string]*disk
	snapshots []Snapshot
	group     string
	database  bool
	reach     bool         // EC2's API answers
	unlisted  string       // why it does not answer the list of snapshots
	listed    SnapshotList // its last answer to that, while it does not answer it
	refused   map[string]time.Time
	refusedIn map[string]string
	retired   []string
	// changes counts how often the spec was changed in the middle of a rolling change.
	changes  int
	noRoom   map[string]bool      // zones without capacity
	broken   map[string]bool      // versions of mysqld that do not start
	lame     string               // the template of instances on which mysqld never comes up
	missing  map[string]time.Time // recorded volumes, since when EC2 does not know them
	down     map[string]time.Time // members that do not answer, since when
	serial   int
	launches int
	trace    []string
	// source is what the cluster is to begin with, inherited the data that is in it; copies are the volumes made from it.
	source    Source
	inherited *data
	copies    []string
	// dud says what becomes of volumes that EC2 takes the order for and cannot make: gone, or the state error. spent are the
	// client tokens of those.
	dud string
	// unmodifiable is a member whose volume EC2 does not modify, modificationRefused what it said when it was asked to.
	unmodifiable        string
	modificationRefused string
	spent               map[string]bool
	// before is what instances are made from that are not to have the present version; a forgetful world's records do not know it.
	before    Template
	forgetful bool
}

type machine struct {
	Instance
	member string
	booted time.Time
	signed bool
	server *server
	// version is that of the mysqld that it was set up with.
	version string
}

type disk struct {
	Volume
	member string
	data   *data
	// foreign is true for one that a person made, with a member's tags.
	foreign bool
	// shown is true once EC2 has shown one that it cannot make.
	shown bool
}

// data is what lies on a volume: it outlives the instance.
type data struct {
	uuid       string
	executed   gtid.Set
	membership *Membership
	source     string
	ioOn       bool
	// opened is the newest version that opened it: no older one does.
	opened string
}

type server struct {
	writable bool
	semi     SemiSync
	sql      bool
}

func newWorld(t *testing.T, replicas int) *world {
	return &world{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), reach: true, rehearsal: Rehearsal{Completed: true},
		desired: Desired{
			Cluster: "orders", Replicas: replicas, Durability: Durability{Lossless: true}, MaxLag: 30 * time.Second, ManagedSecurityGroup: true, Database: true,
			Subnets:        []Subnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "b"}, {ID: "subnet-c", Zone: "c"}},
			DeletionPolicy: v1alpha1.DeletionPolicySnapshot,
		},
		machines: map[string]*machine{}, volumes: map[string]*disk{}, refused: map[string]time.Time{}, refusedIn: map[string]string{}, noRoom: map[string]bool{}, broken: map[string]bool{}, missing: map[string]time.Time{}, down: map[string]time.Time{}, spent: map[string]bool{},
	}
}

// dataOf returns the data on the volume attached to an instance, nil when mysqld cannot run on it.
func (w *world) dataOf(m *machine) *data {
	for _, v := range w.volumes {
		if v.AttachedTo != m.ID || m.State != stateRunning {
			continue
		}
		if mysql.OlderVersion(v.data.opened, m.version) {
			v.data.opened = m.version
		}
		if w.broken[m.version] || mysql.OlderVersion(m.version, v.data.opened) {
			return nil
		}
		return v.data
	}
	return nil
}

func (w *world) observe() Observed {
	o := Observed{
		Now: w.now, CloudReachable: w.reach, CloudTaken: w.now, Records: w.records.Clone(), SecurityGroup: w.group,
		Snapshots: SnapshotList{Known: slices.Clone(w.snapshots), Taken: w.now}, Members: map[string]*Member{}, Permitted: Permitted{Launchable: true, Rehearsal: w.rehearsal}, DatabaseReady: w.database, InService: map[string]bool{}, Source: w.source,
	}
	if w.unlisted != "" {
		o.Snapshots = SnapshotList{Known: slices.Clone(w.listed.Known), Taken: w.listed.Taken, Unanswered: w.unlisted}
	}
	for i := range w.snapshots {
		if s := &w.snapshots[i]; s.State == "pending" && w.now.Sub(s.StartedAt) > 30*time.Second {
			s.State = snapshotCompleted
			if w.unlisted == "" {
				o.Snapshots.Known[i].State = snapshotCompleted
			}
		}
	}
	member := func(name string) *Member {
		if o.Members[name] == nil {
			ordinal, ok := w.desired.Ordinal(name)
			if !ok {
				w.t.Fatalf("%q is no member", name)
			}
			o.Members[name] = &Member{Name: name, Ordinal: ordinal, RecordedVolume: w.records.Members[name].VolumeID, Refusals: Refusals{CapacityRefusedAt: w.refused[name], CapacityRefused: w.refusedIn[name]}}
			if name == w.unmodifiable {
				o.Members[name].ModificationRefused = w.modificationRefused
			}
		}
		return o.Members[name]
	}
	for id, v := range w.volumes {
		if v.State == volumeCreating && v.shown {
			delete(w.volumes, id)
			continue
		}
		v.shown = true
		m := member(v.member)
		m.Volumes = append(m.Volumes, v.Volume)
	}
	for _, in := range w.machines {
		m := member(in.member)
		m.Instances = append(m.Instances, in.Instance)
	}
	for name, m := range o.Members {
		if id := m.RecordedVolume; id != "" && w.volumes[id] == nil {
			if w.missing[id].IsZero() {
				w.missing[id] = w.now
			}
			m.VolumeMissingSince = w.missing[id]
		}
		if id := w.records.Members[name].PendingVolume; id != "" && w.volumes[id] == nil {
			if w.missing[id].IsZero() {
				w.missing[id] = w.now
			}
			m.PendingVolumeMissingSince = w.missing[id]
		}
		if in := m.CurrentInstance(); in != nil {
			m.SQL = w.sqlOf(w.machines[in.ID])
			if m.SQL.Access != AccessVerified && m.SQL.Access != AccessUnverified {
				m.SilentSince = w.now
				if down, known := w.down[name]; known {
					m.SilentSince = down
				}
			}
		}
		switch down, known := w.down[name]; {
		case m.verified():
			delete(w.down, name)
		case known:
			m.DownSince = down
		default:
			w.down[name] = w.now
		}
	}
	return o
}

func (w *world) sqlOf(m *machine) SQL {
	d := w.dataOf(m)
	switch {
	case m.State != stateRunning:
		return SQL{}
	case d == nil || w.now.Sub(m.booted) < 2*time.Second || w.lame != "" && m.TemplateHash == w.lame:
		return SQL{Access: AccessRefused}
	case !m.signed:
		return SQL{Access: AccessUnverified}
	}
	s := SQL{
		Access: AccessVerified, Version: m.version, Start: Start{StartedAt: m.booted, Run: m.booted.Unix()}, ServerUUID: d.uuid, Writable: m.server.writable, Executed: d.executed,
		SemiSync: m.server.semiSync(), Membership: d.membership, MembershipKnown: true, Variables: Variables{RelaySync: relaySynced},
	}
	if d.source != "" {
		s.Replication = &Replication{SourceHost: d.source, IOState: ioOff, SourceSilence: time.Hour, SQLRunning: m.server.sql, Backlog: Backlog{LagKnown: true}, UpToDate: true}
		if source := w.at(d.source); d.ioOn && source != nil && w.dataOf(source) != nil {
			s.Replication.IOState = ioOn
			d.executed = d.executed.Union(w.dataOf(source).executed)
			d.membership = w.dataOf(source).membership
			s.Executed, s.Membership = d.executed, d.membership
		}
	}
	return s
}

func (w *world) at(address string) *machine {
	for _, m := range w.machines {
		if m.Address == address && m.State == stateRunning {
			return m
		}
	}
	return nil
}

// machineOf returns the instance that a member's mysqld runs on.
func (w *world) machineOf(member string) *machine {
	for _, m := range w.machines {
		if m.member == member && w.dataOf(m) != nil {
			return m
		}
	}
	w.t.Fatalf("no mysqld of %s runs", member)
	return nil
}

func (w *world) id(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s-%04d", prefix, w.serial)
}

// take gives an action its effect. A token is honoured as EC2 honours it: the same incarnation, the same resource.
func (w *world) take(action Action) {
	w.trace = append(w.trace, action.String())
	switch a := action.(type) {
	case EnsureSecurityGroup:
		w.group = "sg-1"
	case DeleteSecurityGroup:
		w.group = ""
	case CreateVolume:
		token := fmt.Sprint(a.Member, a.Incarnation)
		for _, v := range w.volumes {
			if v.member == a.Member && v.Incarnation == a.Incarnation {
				return
			}
		}
		if w.spent[token] {
			return
		}
		id := w.id("vol")
		w.volumes[id] = &disk{Volume: Volume{ID: id, Incarnation: a.Incarnation, State: volumeAvailable, Zone: a.Zone, SizeGiB: w.desired.SizeGiB}, member: a.Member}
		if a.SnapshotID != "" {
			w.copyInto(w.volumes[id])
		}
		if w.dud != "" {
			w.spent[token] = true
			w.volumes[id].State = map[string]string{"gone": volumeCreating, "error": volumeError}[w.dud]
		}
	case DeleteVolume:
		if w.volumes[a.VolumeID].AttachedTo != "" {
			w.t.Errorf("deletes the attached volume %s", a.VolumeID)
		}
		delete(w.volumes, a.VolumeID)
	case LaunchInstance:
		w.launch(a)
	case StartInstance:
		m := w.machines[a.InstanceID]
		m.State, m.booted, m.server = stateRunning, w.now, &server{sql: false}
	case StopInstance:
		m := w.machines[a.InstanceID]
		if a.Gracefully && m.server.writable {
			w.t.Errorf("shuts down %s, which is writable", a.Member)
		}
		m.State, m.server = stateStopped, &server{}
		for _, v := range w.volumes {
			if v.AttachedTo == a.InstanceID && v.data != nil {
				v.data.ioOn = false
			}
		}
	case DetachVolume:
		v := w.volumes[a.VolumeID]
		if v.AttachedTo != a.InstanceID || w.machines[a.InstanceID].State != stateStopped {
			w.t.Errorf("detaches %s, which is attached to %q, from instance %s, which is %s", a.VolumeID, v.AttachedTo, a.InstanceID, w.machines[a.InstanceID].State)
		}
		v.AttachedTo, v.AttachState, v.State = "", "", volumeAvailable
	case ModifyVolume:
		v := w.volumes[a.VolumeID]
		if v.member == w.unmodifiable {
			w.modificationRefused = "one is under way"
			return
		}
		rec := w.records.Members[a.Member]
		if first := rec.Modified.At[0]; rec.Modified.Volume == a.VolumeID && first != 0 && w.now.Sub(time.Unix(first, 0)) < 24*time.Hour {
			w.t.Errorf("modifies %s a fifth time within 24 hours", a.VolumeID)
		}
		rec.RecordModified(a.VolumeID, w.now)
		w.records.Members[a.Member] = rec
		v.SizeGiB, v.Type, v.IOPS, v.Throughput = w.desired.SizeGiB, w.desired.VolumeType, w.desired.IOPS, w.desired.Throughput
	case RetireVolume:
		w.retired = append(w.retired, a.VolumeID)
		delete(w.volumes, a.VolumeID)
	case TerminateInstance:
		w.machines[a.InstanceID].State = stateTerminated
		for _, v := range w.volumes {
			if v.AttachedTo == a.InstanceID {
				v.AttachedTo, v.AttachState, v.State = "", "", volumeAvailable
			}
		}
	case AttachVolume:
		v := w.volumes[a.VolumeID]
		v.AttachedTo, v.AttachState, v.State = a.InstanceID, attachAttached, volumeInUse
		if v.data == nil {
			v.data = &data{uuid: fmt.Sprintf("00000000-0000-0000-0000-%012d", w.serial)}
			w.serial++
		}
		v.data.ioOn = false
		w.machines[a.InstanceID].booted = w.now
	case CopyVolume:
		for _, s := range w.snapshots {
			if s.VolumeID == a.VolumeID && s.Purpose == a.Purpose && s.State != snapshotError {
				return
			}
		}
		w.snapshots = append(w.snapshots, Snapshot{ID: w.id("snap"), Member: a.Member, VolumeID: a.VolumeID, State: "pending", Progress: "40%", Purpose: a.Purpose, StartedAt: w.now})
	case DeleteSnapshot:
		w.snapshots = slices.DeleteFunc(w.snapshots, func(s Snapshot) bool { return s.ID == a.SnapshotID })
	case TakeSnapshot:
		w.snapshots = append(w.snapshots, Snapshot{ID: w.id("snap"), VolumeID: a.VolumeID, State: snapshotCompleted, Purpose: a.Purpose, StartedAt: w.now})
	default:
		w.takeSQL(action)
	}
}

func (w *world) launch(a LaunchInstance) {
	zone := ""
	for _, s := range w.desired.Subnets {
		if s.ID == a.SubnetID {
			zone = s.Zone
		}
	}
	if w.noRoom[zone] {
		if w.refusedIn[a.Member] != zone {
			w.refused[a.Member], w.refusedIn[a.Member] = w.now, zone
		}
		return
	}
	delete(w.refused, a.Member)
	delete(w.refusedIn, a.Member)
	for _, m := range w.machines {
		if m.member == a.Member && m.Incarnation == a.Incarnation {
			return
		}
	}
	if zone != w.volumes[a.VolumeID].Zone {
		w.t.Errorf("launches %s in zone %s, its volume is in %s", a.Member, zone, w.volumes[a.VolumeID].Zone)
	}
	w.launches++
	id := w.id("i")
	w.machines[id] = &machine{
		Instance: Instance{ID: id, Incarnation: a.Incarnation, State: stateRunning, Zone: zone, Address: fmt.Sprintf("10.0.0.%d", w.serial), LaunchTime: w.now, TemplateHash: w.desired.TemplateHash},
		member:   a.Member, booted: w.now, server: &server{}, version: cmp.Or(w.desired.Version, "9.7.4"),
	}
	if a.Previous {
		m := w.machines[id]
		m.TemplateHash, m.version = w.before.Hash, w.before.Version
	}
}

func (w *world) commit(d *data) {
	w.serial++
	d.executed = d.executed.Union(gtid.MustParse(fmt.Sprintf("%s:%d", d.uuid, d.executed.Count()+1)))
}

func (w *world) takeSQL(action Action) {
	if a, ok := action.(RemoveVoter); ok {
		w.removeVoter(a)
		return
	}
	m := w.machineOf(action.Target())
	d := w.dataOf(m)
	switch a := action.(type) {
	case SignCertificate:
		m.signed = true
	case Bootstrap:
		if !d.executed.IsEmpty() && !w.records.Recovered {
			w.t.Errorf("bootstraps on %s, which holds %s", a.Member, d.executed)
		}
		m.server.writable = true
		d.membership = &Membership{Epoch: 1, Primary: a.Member, Voters: []string{a.Member}}
		w.commit(d)
	case Adopt:
		w.adopt(a, d)
	case Recover:
		w.replay(a, d)
	case Fence:
		d.ioOn = false
	case Promote:
		if !d.executed.Contains(gtid.MustParse(a.MustHold)) {
			w.t.Errorf("promotes %s without %s", a.Member, a.MustHold)
		}
		d.source, d.ioOn = "", false
		m.server.writable, m.server.semi.SourceEnabled, m.server.semi.WaitCount = true, a.SemiSync, a.Membership.W
		d.membership = &a.Next
		w.commit(d)
	case RecordPrimary:
		d.membership = &a.Next
		w.commit(d)
	case SettleVoters:
		d.membership = &a.Next
		w.commit(d)
	case RemoveAllVoters:
		d.membership = &a.Next
		m.server.semi.SourceEnabled = false
		w.commit(d)
	case Demote:
		m.server.writable = false
	case Restart:
		m.booted, m.server, d.ioOn = w.now, &server{}, false
	case Switchover:
		to := w.machineOf(a.To)
		toData := w.dataOf(to)
		m.server.writable, m.server.semi.SourceEnabled = false, false
		toData.executed, toData.source, toData.ioOn, toData.membership = toData.executed.Union(d.executed), "", false, &a.Next
		to.server.writable, to.server.semi.SourceEnabled, to.server.semi.WaitCount = true, a.SemiSync, a.Next.W
		w.commit(toData)
		d.source, d.ioOn, m.server.sql = to.Address, true, true
	case CloneFrom:
		donor := w.dataOf(w.machineOf(a.Donor))
		if from := w.machineOf(a.Donor).version; !mysql.SameSeries(from, m.version) {
			w.t.Errorf("%s of %s is cloned from %s of %s", a.Member, m.version, a.Donor, from)
		}
		d.executed, d.membership, d.source = donor.executed, donor.membership, ""
	case ReplicateFrom:
		d.source, d.ioOn, m.server.sql = a.SourceAddress, true, true
	case AdmitVoter:
		primary := w.machineOf(a.Primary)
		next := a.Settled
		if !d.executed.Contains(w.dataOf(primary).executed) {
			return
		}
		primary.server.semi.SourceEnabled, primary.server.semi.WaitCount = a.SemiSync, next.W
		w.dataOf(primary).membership = &next
		w.commit(w.dataOf(primary))
		m.server.semi.ReplicaEnabled, m.server.semi.ReplicaActive = a.SemiSync, a.SemiSync
	case SetAcknowledging:
		m.server.semi.ReplicaEnabled, m.server.semi.ReplicaActive = a.On, a.On
	case SetSourceWait:
		m.server.semi.SourceEnabled, m.server.semi.WaitCount = a.Enabled, a.W
	case LowerSourceWait:
		m.server.semi.WaitCount = a.W
	case EnsureDatabase:
		w.database = true
		w.commit(d)
	default:
		w.t.Fatalf("the model does not know %T", action)
	}
}

// semiSync is what the server shows: commits wait as soon as it is switched on.
func (s *server) semiSync() SemiSync {
	shown := s.semi
	shown.SourceActive = shown.SourceEnabled
	return shown
}

// removeVoter works without the member that leaves.
func (w *world) removeVoter(a RemoveVoter) {
	primary := w.machineOf(a.Primary)
	next := a.Settled
	w.dataOf(primary).membership = &next
	w.commit(w.dataOf(primary))
	primary.server.semi.SourceEnabled, primary.server.semi.WaitCount = a.SemiSync && next.W > 0, next.W
}

// check holds the invariants after every step.
func (w *world) check() {
	perMember, live := map[string]int{}, map[string]int{}
	for _, v := range w.volumes {
		if !v.foreign {
			perMember[v.member]++
		}
	}
	for _, m := range w.machines {
		if !m.gone() && (m.State != stateStopped || w.desired.TemplateHash == "") {
			live[m.member]++ // one that was replaced is stopped, and ended when its member is well
		}
	}
	for name, n := range perMember {
		if n > 1 {
			w.t.Fatalf("%s has %d volumes\n%s", name, n, strings.Join(w.trace, "\n"))
		}
	}
	for name, n := range live {
		if n > 1 && (w.records.Rolling != name && w.changes == 0 || n > 2+w.changes) {
			w.t.Fatalf("%s has %d live instances\n%s", name, n, strings.Join(w.trace, "\n"))
		}
	}
	writable := 0
	for _, m := range w.machines {
		if w.dataOf(m) != nil && m.server.writable {
			writable++
		}
	}
	if writable > 1 {
		w.t.Fatalf("%d members are writable\n%s", writable, strings.Join(w.trace, "\n"))
	}
}

// pass does one reconcile. cut is how many actions are taken before the operator dies; -1 for all.
func (w *world) pass(cut int) Plan {
	d := w.wish()
	w.before = d.PreviousTemplate
	decide := Next
	if w.passes++; w.passes%8 == 0 {
		decide = pureNext // which takes several times as long
	}
	plan := decide(d, w.observe())
	w.records = plan.Records
	for i, a := range plan.Actions {
		if cut >= 0 && i >= cut {
			break
		}
		w.take(a)
		w.check()
	}
	w.now = w.now.Add(max(plan.RequeueAfter, 100*time.Millisecond))
	return plan
}

// wish is what is desired, as the operator reads it together with its records.
func (w *world) wish() Desired {
	d := w.desired
	if d.Version != "" && !w.forgetful {
		d.Template = d.TemplateHash + " " + d.Version
	}
	if hash, version, known := strings.Cut(w.records.Template, " "); known && version != d.Version {
		d.PreviousTemplate = Template{hash, version}
	}
	return d
}

// settle runs passes until nothing is left to do.
func (w *world) settle(passes int) Plan {
	w.t.Helper()
	var plan Plan
	for range passes {
		plan = w.pass(-1)
		if plan.Gone || plan.Phase == v1alpha1.PhaseReady && len(significant(plan.Actions)) == 0 {
			return plan
		}
	}
	w.t.Fatalf("does not settle within %d passes; phase %s, waiting for %q, degraded %v\n%s", passes, plan.Phase, plan.Waiting.Message, plan.Degraded, strings.Join(w.trace, "\n"))
	return plan
}

// significant leaves out the upkeep that every pass plans.
func significant(actions []Action) []Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { _, ok := a.(EnsureSecurityGroup); return ok })
}

func TestFromNothingToReadyForEverySize(t *testing.T) {
	for replicas := 1; replicas <= 9; replicas++ {
		w := newWorld(t, replicas)
		plan := w.settle(300)
		if len(plan.Membership.Voters) != replicas || plan.Membership.W != replicas/2 {
			t.Errorf("%d members: voters %v, W %d", replicas, plan.Membership.Voters, plan.Membership.W)
		}
		if w.launches != replicas || len(w.volumes) != replicas {
			t.Errorf("%d members: %d launches, %d volumes", replicas, w.launches, len(w.volumes))
		}
		if plan.RequeueAfter != waitReady {
			t.Errorf("%d members: a Ready cluster is looked at every %s", replicas, plan.RequeueAfter)
		}
	}
}

func TestAnOperatorThatDiesAnywhereNeverDuplicates(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 1+random.IntN(5))
		for range 40 {
			w.pass(random.IntN(4))
		}
		w.settle(300)
		if w.launches != w.desired.Replicas {
			t.Fatalf("seed %d: %d launches for %d members", seed, w.launches, w.desired.Replicas)
		}
	}
}

func TestMembersThatStopAreStartedAndGivenTheirRoleAgain(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, 3)
		w.settle(300)
		for _, m := range w.machines {
			if random.IntN(2) == 0 {
				m.State = stateStopped
				w.dataOf(m)
			}
		}
		for _, v := range w.volumes {
			if w.machines[v.AttachedTo].State == stateStopped {
				v.data.ioOn = false
			}
		}
		plan := w.settle(300)
		if len(plan.Membership.Voters) != 3 {
			t.Fatalf("seed %d: voters %v", seed, plan.Membership.Voters)
		}
	}
}

func TestZoneWithoutCapacityIsLeftBeforeThereIsData(t *testing.T) {
	w := newWorld(t, 3)
	w.noRoom["b"] = true
	w.settle(400)
	for _, v := range w.volumes {
		if v.Zone == "b" {
			t.Errorf("%s stays in the zone without capacity", v.member)
		}
	}
}

// TestAVolumeThatWasGivenUpGetsNoMachine: EC2 shows it for a while after it was deleted, or the deletion was refused. The instance
// would be in the zone that was left.
func TestAVolumeThatWasGivenUpGetsNoMachine(t *testing.T) {
	d, o := fresh()
	d.Recover = false
	m := o.Members["orders-1"]
	m.Instances, m.SQL, m.RecordedVolume = nil, SQL{}, ""
	m.CapacityRefused, m.CapacityRefusedAt = "b", o.Now.Add(-capacityPatience)
	m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
	o.Records.Members["orders-1"] = MemberRecord{Instance: 1, Volume: 1, PendingVolume: "vol-orders-1"}
	for pass := range 3 {
		p := pureNext(d, o)
		if gone := planned[DeleteVolume](p); len(gone) != 1 || gone[0].VolumeID != "vol-orders-1" || len(planned[LaunchInstance](p)) > 0 {
			t.Fatalf("pass %d: planned %v", pass, p.Actions)
		}
		if rec := p.Records.Members["orders-1"]; rec.Volume != 2 || rec.Instance != 2 {
			t.Fatalf("pass %d: records %+v", pass, rec)
		}
		o.Records = p.Records
	}
	m.Volumes = nil
	p := pureNext(d, o)
	if made := planned[CreateVolume](p); len(made) != 1 || made[0].Zone == "b" || made[0].Incarnation != 2 {
		t.Errorf("planned %v", p.Actions)
	}
	if reports(p, v1alpha1.ReasonVolumeNotMade, "") {
		t.Errorf("told %v", p.Degraded)
	}
}

// TestAMachineInAnotherZoneThanItsVolumeIsEnded, for it can never have it; but not while it has another one.
func TestAMachineInAnotherZoneThanItsVolumeIsEnded(t *testing.T) {
	for _, state := range []string{statePending, stateRunning, stateStopped} {
		d, o := fresh()
		d.Recover = false
		m := o.Members["orders-1"]
		m.SQL, m.RecordedVolume = SQL{}, ""
		m.Instances[0].State = state
		m.Volumes = append(m.Volumes, Volume{ID: "vol-2", Incarnation: 2, State: volumeAvailable, Zone: "c"})
		o.Records.Members["orders-1"] = MemberRecord{Instance: 1, Volume: 2}
		if ended := planned[TerminateInstance](pureNext(d, o)); len(ended) > 0 {
			t.Errorf("%s: planned %v for an instance that has a volume", state, ended)
		}
		m.Volumes = m.Volumes[1:]
		p := pureNext(d, o)
		if ended := planned[TerminateInstance](p); len(ended) != 1 || ended[0].InstanceID != "i-orders-1" || len(planned[AttachVolume](p)) > 0 {
			t.Errorf("%s: planned %v", state, p.Actions)
		}
		m.Instances[0].State, m.Instances[0].LaunchTime = stateTerminated, o.Now.Add(-time.Second)
		if p = pureNext(d, o); len(planned[LaunchInstance](p)) != 1 || reports(p, v1alpha1.ReasonBootFailed, "") {
			t.Errorf("%s: after it was ended planned %v, told %v", state, p.Actions, p.Degraded)
		}
	}
}

// TestAMachineThatEndedKeepsNoEmptyVolumeInAFullZone: the records say that nothing was ever on it. Where they were lost it is kept.
func TestAMachineThatEndedKeepsNoEmptyVolumeInAFullZone(t *testing.T) {
	for name, test := range map[string]struct {
		rec     MemberRecord
		rebuilt time.Duration
		gone    bool
	}{
		"made":            {MemberRecord{Instance: 1, Volume: 1, PendingVolume: "vol-orders-1"}, 0, true},
		"records rebuilt": {MemberRecord{Instance: 1, Volume: 1, PendingVolume: "vol-orders-1"}, time.Hour, false},
	} {
		d, o := fresh()
		d.Recover = false
		m := o.Members["orders-1"]
		m.Instances[0].State, m.Instances[0].LaunchTime = stateTerminated, o.Now.Add(-10*time.Minute)
		m.SQL, m.RecordedVolume = SQL{}, ""
		m.CapacityRefused, m.CapacityRefusedAt = "b", o.Now.Add(-capacityPatience)
		m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
		o.Records.Members["orders-1"] = test.rec
		if test.rebuilt > 0 {
			o.Records.RebuiltAt = o.Now.Add(-test.rebuilt)
		}
		p := pureNext(d, o)
		if gone := len(planned[DeleteVolume](p)) == 1; gone != test.gone {
			t.Errorf("%s: planned %v", name, p.Actions)
		}
	}
}

// TestAZoneWithoutRoomForAVolumeIsLeft, and the order there is not repeated with another's token.
func TestAZoneWithoutRoomForAVolumeIsLeft(t *testing.T) {
	d, o := fresh()
	d.Recover = false
	m := o.Members["orders-1"]
	m.Instances, m.Volumes, m.SQL, m.RecordedVolume = nil, nil, SQL{}, ""
	o.Records.Members["orders-1"] = MemberRecord{Instance: 1, Volume: 1}
	m.CapacityRefused, m.CapacityRefusedAt = "b", o.Now.Add(time.Second-capacityPatience)
	if made := planned[CreateVolume](pureNext(d, o)); len(made) != 1 || made[0].Zone != "b" || made[0].Incarnation != 1 {
		t.Fatalf("before it is certain: planned %v", made)
	}
	m.CapacityRefusedAt = o.Now.Add(-capacityPatience)
	p := pureNext(d, o)
	if made := planned[CreateVolume](p); len(made) != 1 || made[0].Zone != "c" || made[0].Incarnation != 2 {
		t.Fatalf("planned %v", p.Actions)
	}
	o.Records = p.Records
	if made := planned[CreateVolume](pureNext(d, o)); len(made) != 1 || made[0].Zone != "c" || made[0].Incarnation != 2 {
		t.Errorf("once more: planned %v", made)
	}
	d.Subnets = d.Subnets[1:2]
	if made := planned[CreateVolume](pureNext(d, o)); len(made) != 1 || made[0].Zone != "b" || made[0].Incarnation != 2 {
		t.Errorf("with one zone: planned %v", made)
	}
}

// TestLostRecordsFindTheOriginalAgain, and not a copy with its tags that somebody made.
func TestLostRecordsFindTheOriginalAgain(t *testing.T) {
	_, o := fresh()
	m := o.Members["orders-1"]
	m.RecordedVolume = ""
	for _, copied := range []Volume{
		{ID: "vol-copy", Incarnation: 1, State: volumeAvailable, Zone: "b"},
		{ID: "vol-copy", Incarnation: 1, State: "in-use", AttachedTo: "i-somebodys", AttachState: attachAttached, Zone: "b"},
	} {
		m.Volumes = []Volume{copied, o.Members["orders-1"].Volumes[len(m.Volumes)-1]}
		if rec := Rebuild(o).Members["orders-1"]; rec.VolumeID != "vol-orders-1" {
			t.Errorf("with a copy attached to %q: %+v", copied.AttachedTo, rec)
		}
	}
}

// TestWhatCouldNotBeRetiredIsKeptAtAScaleIn: its zone was given up, and the operator died before it said so to EC2.
func TestWhatCouldNotBeRetiredIsKeptAtAScaleIn(t *testing.T) {
	w := withTemplate(t, 3)
	rec := w.records.Members["orders-2"]
	volume := rec.VolumeID
	rec.VolumeID, rec.Volume, rec.Instance = "", rec.Volume+1, rec.Instance+1
	w.records.Members["orders-2"] = rec
	for _, m := range w.machines {
		if m.member == "orders-2" {
			w.take(TerminateInstance{"orders-2", m.ID})
		}
	}
	w.noRoom["a"], w.noRoom["b"], w.noRoom["c"] = true, true, true
	w.desired.Replicas, w.desired.DeletionPolicy = 2, v1alpha1.DeletionPolicySnapshot
	w.settle(300)
	if !slices.ContainsFunc(w.snapshots, func(s Snapshot) bool { return s.VolumeID == volume && strings.HasPrefix(s.Purpose, scaleInPrefix) }) {
		t.Errorf("%s with its data is gone: snapshots %v", volume, w.snapshots)
	}
}

// TestASnapshotThatFailsIsTakenAgainAfterAWhile, is told, and does not stay.
func TestASnapshotThatFailsIsTakenAgainAfterAWhile(t *testing.T) {
	w := withTemplate(t, 3)
	w.desired.Replicas, w.desired.DeletionPolicy = 2, v1alpha1.DeletionPolicySnapshot
	began, taken, told := w.now, map[string]bool{}, false
	for w.now.Sub(began) < 12*time.Minute {
		plan := w.pass(-1)
		told = told || reports(plan, v1alpha1.ReasonSnapshotFailed, "could not complete")
		for i := range w.snapshots {
			if s := &w.snapshots[i]; strings.HasPrefix(s.Purpose, scaleInPrefix) {
				s.State, taken[s.ID] = snapshotError, true
			}
		}
	}
	if len(taken) < 2 || len(taken) > 3 || !told {
		t.Errorf("%d were taken within 12 minutes, told: %t", len(taken), told)
	}
	w.settle(600)
	if slices.ContainsFunc(w.snapshots, func(s Snapshot) bool { return s.State == snapshotError }) {
		t.Errorf("what failed stays: %v", w.snapshots)
	}
}

// TestADeletionLeavesACopyThatSomebodyMade: it carries the member's tags, and may be in use.
func TestADeletionLeavesACopyThatSomebodyMade(t *testing.T) {
	w := withTemplate(t, 1)
	w.desired.DeletionPolicy, w.desired.Deleting = v1alpha1.DeletionPolicyDelete, true
	volume := w.records.Members["orders-0"].VolumeID
	copied := &disk{Volume: w.volumes[volume].Volume, member: "orders-0", foreign: true}
	copied.ID, copied.AttachedTo = "vol-copy", "i-somebodys"
	w.volumes[copied.ID] = copied
	if plan := w.settle(100); !plan.Gone {
		t.Fatalf("it is not gone: %v", plan.Actions)
	}
	if w.volumes[volume] != nil || !slices.Contains(w.retired, "vol-copy") {
		t.Errorf("volumes %v, retired %v", w.volumes, w.retired)
	}
}

func TestLostRecordsAreRebuiltAndNothingIsMadeTwice(t *testing.T) {
	w := newWorld(t, 3)
	w.settle(300)
	o := w.observe()
	w.records = Rebuild(o)
	for range 10 {
		w.pass(-1)
	}
	w.settle(300)
	if w.launches != 3 || len(w.volumes) != 3 {
		t.Errorf("%d launches, %d volumes after the records were lost", w.launches, len(w.volumes))
	}
}

func TestDeletionLeavesNothingButTheFinalSnapshot(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		for passes := range 40 {
			w := newWorld(t, 3)
			for range passes {
				w.pass(-1)
			}
			w.desired.Deleting, w.desired.DeletionPolicy = true, policy
			w.settle(100)
			for _, m := range w.machines {
				if m.State != stateTerminated {
					t.Errorf("%s after %d passes: instance %s is %s", policy, passes, m.ID, m.State)
				}
			}
			if policy != v1alpha1.DeletionPolicyRetain && len(w.volumes) > 0 {
				t.Errorf("%s after %d passes: %d volumes are left", policy, passes, len(w.volumes))
			}
			if w.group != "" {
				t.Errorf("%s after %d passes: the security group is left", policy, passes)
			}
			wantSnapshot := policy == v1alpha1.DeletionPolicySnapshot && w.records.Bootstrapped != ""
			if wantSnapshot != (len(w.snapshots) > 0) {
				t.Errorf("%s after %d passes: %d snapshots, bootstrapped on %q", policy, passes, len(w.snapshots), w.records.Bootstrapped)
			}
		}
	}
}

// TestDeletionWithoutTheListOfSnapshots: without a final snapshot everything else goes, with one the volumes stay until EC2 says that it
// is complete. The cluster is gone only after EC2 has listed its snapshots since the deletion began, also those of an earlier operator.
func TestDeletionWithoutTheListOfSnapshots(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		t.Run("never listed, "+string(policy), func(t *testing.T) { deleteUnlisted(t, policy, false) })
		t.Run("listed before, "+string(policy), func(t *testing.T) { deleteUnlisted(t, policy, true) })
	}
}

func deleteUnlisted(t *testing.T, policy v1alpha1.DeletionPolicy, listed bool) {
	w := newWorld(t, 3)
	w.settle(300)
	if listed {
		w.listed.Taken = w.now
		w.now = w.now.Add(time.Hour)
	}
	w.snapshots = append(w.snapshots, Snapshot{ID: "snap-earlier", Member: "orders-0", Purpose: quarantinePrefix + "1", State: snapshotCompleted, StartedAt: w.now})
	w.unlisted = "the list is refused"
	w.desired.Deleting, w.desired.DeletionPolicy = true, policy
	var plan Plan
	for range 100 {
		if plan = w.pass(-1); plan.Gone {
			t.Fatalf("%s: gone without the list of snapshots", policy)
		}
	}
	if plan.Waiting.Reason != v1alpha1.ReasonSnapshotsUnknown || !strings.HasSuffix(plan.Waiting.Message, w.unlisted) {
		t.Errorf("%s: it waits for %+v", policy, plan.Waiting)
	}
	kept, up := policy != v1alpha1.DeletionPolicyDelete, 0
	for _, m := range w.machines {
		if m.State != stateTerminated {
			up++
		}
	}
	if final := policy == v1alpha1.DeletionPolicySnapshot; (len(w.volumes) == 3) != kept || (up > 0) != final || (w.group != "") != final {
		t.Errorf("%s: %d volumes and %d instances, group %q", policy, len(w.volumes), up, w.group)
	}
	w.unlisted = ""
	w.settle(100)
	if left := slices.ContainsFunc(w.snapshots, func(s Snapshot) bool { return s.ID == "snap-earlier" }); left != (policy == v1alpha1.DeletionPolicyRetain) {
		t.Errorf("%s: the snapshots are %+v", policy, w.snapshots)
	}
	if (len(w.volumes) == 0) == (policy == v1alpha1.DeletionPolicyRetain) {
		t.Errorf("%s: %d volumes are left", policy, len(w.volumes))
	}
}

// TestDeletionTakesTheSnapshotThatIsWantedLate: somebody who sees a deletion under way and wants the data kept after all
// must not lose what is still there.
func TestDeletionTakesTheSnapshotThatIsWantedLate(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		for passes := range 30 {
			w := newWorld(t, 3)
			w.settle(300)
			w.desired.Deleting, w.desired.DeletionPolicy = true, policy
			for range passes {
				w.pass(-1)
			}
			w.desired.DeletionPolicy = v1alpha1.DeletionPolicySnapshot
			there := len(w.volumes)
			w.settle(100)
			if there > 0 && len(w.snapshots) == 0 {
				t.Errorf("%s, and Snapshot after %d passes: %d volumes with data are gone without a snapshot", policy, passes, there)
			}
			if len(w.volumes) > 0 {
				t.Errorf("%s, and Snapshot after %d passes: %d volumes are left", policy, passes, len(w.volumes))
			}
		}
	}
}

// TestDeletionFollowsAPolicyThatNeedsNoSnapshotAnyMore: who changes it while the final snapshot is taken does not wait for that, and
// Delete keeps none that was taken.
func TestDeletionFollowsAPolicyThatNeedsNoSnapshotAnyMore(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		for passes := range 30 {
			w := newWorld(t, 3)
			w.settle(300)
			w.desired.Deleting = true
			for range passes {
				w.pass(-1)
			}
			w.desired.DeletionPolicy = policy
			before, there := len(w.snapshots), len(w.volumes)
			w.settle(100)
			if policy == v1alpha1.DeletionPolicyRetain && (len(w.snapshots) != before || len(w.volumes) != there) {
				t.Errorf("%s after %d passes: %d snapshots, before %d; %d volumes, before %d", policy, passes, len(w.snapshots), before, len(w.volumes), there)
			}
			if policy == v1alpha1.DeletionPolicyDelete && len(w.snapshots)+len(w.volumes) > 0 {
				t.Errorf("%s after %d passes: %d snapshots and %d volumes are left", policy, passes, len(w.snapshots), len(w.volumes))
			}
		}
	}
}
