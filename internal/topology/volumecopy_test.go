package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

const (
	history = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"
	// archived is what was archived after it, up to the point that is asked for.
	archived = "3e11fa47-71ca-11e1-9e33-c80aa9429562:24-30"
	oldSnap  = "snap-old"
	oldVol   = "vol-old"
)

// newHeir is a world whose cluster begins with what another of the same name left behind: rows, and a membership.
func newHeir(t *testing.T, replicas int, source Source) *world {
	w := newWorld(t, replicas)
	w.desired.Recover, w.source = true, source
	w.inherited = &data{executed: gtid.MustParse(history), membership: &Membership{Epoch: 7, Primary: "orders-1", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}}
	return w
}

// copyInto fills a new volume with what was inherited, as a mysqld finds it: under a UUID of its own.
func (w *world) copyInto(v *disk) {
	w.serial++
	v.Foreign = true
	v.data = &data{uuid: fmt.Sprintf("00000000-0000-0000-0000-%012d", w.serial), executed: w.inherited.executed, membership: w.inherited.membership}
	w.copies = append(w.copies, v.ID)
}

// adopt is what the executor does: over SQL, by a tag, and then in the records.
func (w *world) adopt(a Adopt, d *data) {
	if w.records.Bootstrapped != "" || w.records.Recovered {
		w.t.Errorf("adopts %s on %s again", a.VolumeID, a.Member)
	}
	if !d.executed.Contains(w.heritage()) {
		w.t.Errorf("adopts %s on %s, which is not at the point that was asked for: it holds %s", a.VolumeID, a.Member, d.executed)
	}
	d.membership = nil
	w.volumes[a.VolumeID].Foreign = false
	w.records.Recovered = true
}

// replay is what the executor does: a Job adds what was archived, and then it is in the records.
func (w *world) replay(a Recover, d *data) {
	if v := w.volumes[a.Copy]; v == nil || !v.Foreign || v.data != d {
		w.t.Errorf("replays into %s of %s, which is not its copy", a.Copy, a.Member)
	}
	d.executed = d.executed.Union(gtid.MustParse(archived))
	w.records.Replayed = a.Copy
}

// heritage is all that the cluster is to begin with.
func (w *world) heritage() gtid.Set {
	set := gtid.MustParse(history)
	if w.desired.ToPoint {
		set = set.Union(gtid.MustParse(archived))
	}
	return set
}

// begun makes sure that the cluster lives on with what was inherited, and with nothing else of it.
func (w *world) begun(plan Plan) {
	w.t.Helper()
	if len(plan.Membership.Voters) != w.desired.Replicas {
		w.t.Errorf("the voters are %v", plan.Membership.Voters)
	}
	for _, v := range w.volumes {
		if !v.data.executed.Contains(w.heritage()) || v.Foreign {
			w.t.Errorf("%s holds %s, foreign is %t", v.member, v.data.executed, v.Foreign)
		}
	}
	if w.desired.Replicas != len(w.volumes) {
		w.t.Errorf("%d volumes", len(w.volumes))
	}
}

func TestAClusterBeginsWithACopyOfASnapshot(t *testing.T) {
	for replicas := 1; replicas <= 5; replicas++ {
		w := newHeir(t, replicas, Source{Copied: true, SnapshotID: oldSnap})
		w.desired.ToPoint = replicas%2 == 0
		w.begun(w.settle(300))
		if len(w.copies) != 1 || w.volumes[w.copies[0]].member != "orders-0" {
			t.Errorf("the copies are %v", w.copies)
		}
	}
}

// TestACopyIsMadeOnceWhereverTheOperatorDies: also when the first volume is lost, and EC2 has the operator wait for its word.
func TestACopyIsMadeOnceWhereverTheOperatorDies(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 5))
		source := Source{Copied: true, SnapshotID: oldSnap}
		if random.IntN(2) == 0 {
			source = Source{Copied: true, VolumeID: oldVol}
		}
		w := newHeir(t, 1+random.IntN(4), source)
		w.desired.ToPoint = seed%2 == 1
		lost := 0
		for range 60 {
			w.pass(random.IntN(4))
			if v := w.volumes[w.records.Members["orders-0"].VolumeID]; v != nil && random.IntN(12) == 0 && !w.records.Recovered {
				delete(w.volumes, v.ID)
				lost++
			}
			if w.records.Recovered && random.IntN(3) == 0 && w.records.Bootstrapped == "" {
				w.records.Recovered = false // it died before it wrote that down
				w.records.Recovering = ""
			}
			if w.records.Replayed != "" && random.IntN(3) == 0 && w.volumes[w.records.Replayed] != nil && w.volumes[w.records.Replayed].Foreign {
				w.records.Replayed = "" // nor that
			}
			if w.records.Source != "" && random.IntN(4) == 0 {
				w.source = Source{} // the MySQLBackup that named it is gone
			}
		}
		w.begun(w.settle(600))
		if len(w.copies) != 1+lost {
			t.Fatalf("seed %d: %d copies were made, %d were lost\n%s", seed, len(w.copies), lost, strings.Join(w.trace, "\n"))
		}
		if len(w.snapshots) > 0 {
			t.Fatalf("seed %d: snapshots are left: %v", seed, w.snapshots)
		}
	}
}

// TestNothingIsMadeBeforeTheSnapshotIsWhole, of a volume that was left behind; and the snapshot goes when it has served.
func TestNothingIsMadeBeforeTheSnapshotIsWhole(t *testing.T) {
	w := newHeir(t, 3, Source{Copied: true, VolumeID: oldVol})
	plan := w.pass(-1)
	if made := planned[CopyVolume](plan); len(made) != 1 || made[0].VolumeID != oldVol || len(plan.Actions) != 1 {
		t.Fatalf("planned %v", plan.Actions)
	}
	plan = w.pass(-1)
	if len(plan.Actions) > 0 || !strings.Contains(plan.Waiting.Message, "40%") || plan.Waiting.Reason != v1alpha1.ReasonRecovering {
		t.Errorf("planned %v, waiting %+v", plan.Actions, plan.Waiting)
	}
	w.begun(w.settle(300))
	if len(w.snapshots) > 0 {
		t.Errorf("left are %v", w.snapshots)
	}
}

// TestASnapshotThatFailsIsTakenAgain, not at once.
func TestASnapshotThatFailsIsTakenAgain(t *testing.T) {
	w := newHeir(t, 1, Source{Copied: true, VolumeID: oldVol})
	w.pass(-1)
	w.snapshots[0].State = snapshotError
	plan := w.pass(-1)
	if len(plan.Actions) > 0 || len(plan.Degraded) != 1 || plan.Degraded[0].Reason != v1alpha1.ReasonRecoveryFailed {
		t.Errorf("planned %v, told %v", plan.Actions, plan.Degraded)
	}
	w.begun(w.settle(600))
	if len(w.snapshots) > 0 {
		t.Errorf("left are %v", w.snapshots)
	}
}

// TestWhatMayNotBeUsedMakesNothing, and is told.
func TestWhatMayNotBeUsedMakesNothing(t *testing.T) {
	why := Finding{v1alpha1.ReasonInvalidSpec, "spec.storage.size: too small"}
	for name, source := range map[string]Source{
		"a copy":                {Copied: true, Why: why, Final: true},
		"a backup of no method": {Why: why, Final: true},
		"not yet":               {Copied: true, Why: why},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHeir(t, 3, source)
			for range 20 {
				plan := w.pass(-1)
				if len(plan.Actions) > 0 || plan.Waiting != (Finding{v1alpha1.ReasonRecovering, why.Message}) {
					t.Fatalf("planned %v, waiting %+v", plan.Actions, plan.Waiting)
				}
				if told := slices.Contains(plan.Degraded, why); told != source.Final {
					t.Fatalf("told %v", plan.Degraded)
				}
			}
			w.source = Source{Copied: true, SnapshotID: oldSnap}
			w.begun(w.settle(300))
		})
	}
}

// copied is fresh with a first member whose volume is a copy that holds another cluster's row.
func copied() (Desired, Observed) {
	d, o := fresh()
	m := o.Members["orders-0"]
	o.Source.Copied, o.Records.Source = true, oldSnap
	m.Volumes[0].Foreign = true
	m.SQL.Executed = gtid.MustParse(history)
	m.SQL.Membership = &Membership{Epoch: 7, Primary: "orders-0", Voters: []string{"orders-0", "orders-1", "orders-2"}, W: 1}
	m.SQL.Clone = &Clone{State: "Completed"} // its volume's first owner was seeded
	return d, o
}

// TestTheOldClustersVotersAreNotOurs: whatever the row on the copy says, and also when the records are lost.
func TestTheOldClustersVotersAreNotOurs(t *testing.T) {
	d, o := copied()
	p := pureNext(d, o)
	if a := planned[Adopt](p); len(a) != 1 || a[0] != (Adopt{"orders-0", "vol-orders-0"}) || len(planned[Recover](p)) > 0 {
		t.Fatalf("planned %v", p.Actions)
	}
	if p.Records.Established || p.Membership != nil || p.Records.Recovering != "vol-orders-0" {
		t.Errorf("records %+v, membership %+v", p.Records, p.Membership)
	}
	d, o = copied()
	o.Records = Rebuild(o)
	o.Records.RebuiltAt = o.Now.Add(-time.Hour)
	p = pureNext(d, o)
	if len(planned[Adopt](p))+len(planned[Bootstrap](p))+len(planned[Promote](p))+len(planned[CloneFrom](p)) > 0 || p.Records.Established {
		t.Errorf("with lost records: planned %v, records %+v", p.Actions, p.Records)
	}
	if !slices.ContainsFunc(p.Degraded, func(f Finding) bool { return f.Reason == v1alpha1.ReasonRecoveryFailed }) {
		t.Errorf("told %v", p.Degraded)
	}
	// Lost after it had begun: the row is of this cluster.
	o.Members["orders-0"].Volumes[0].Foreign = false
	if p = pureNext(d, o); !p.Records.Established {
		t.Errorf("a cluster that has begun is not found again: %v", p.Degraded)
	}
}

// TestACopyIsTakenToItsPointFirst: what is archived is replayed into the copy, before it is made the cluster's own. What was replayed into
// a volume that was lost counts for nothing on the next.
func TestACopyIsTakenToItsPointFirst(t *testing.T) {
	d, o := copied()
	d.ToPoint = true
	for _, replayed := range []string{"", "vol-before"} {
		o.Records.Replayed = replayed
		p := pureNext(d, o)
		if r := planned[Recover](p); len(r) != 1 || r[0] != (Recover{"orders-0", "vol-orders-0"}) || len(planned[Adopt](p)) > 0 || p.Records.Recovering != "vol-orders-0" {
			t.Errorf("after %q: planned %v, records %+v", replayed, p.Actions, p.Records)
		}
	}
	o.Records.Replayed = "vol-orders-0"
	if p := pureNext(d, o); len(planned[Recover](p)) > 0 || len(planned[Adopt](p)) != 1 {
		t.Errorf("once it is there: planned %v", p.Actions)
	}
}

// TestNothingIsSetOnAServerThatIsRestored: with event_scheduler its events would run on half of the data. The others are set up meanwhile.
func TestNothingIsSetOnAServerThatIsRestored(t *testing.T) {
	for name, begin := range map[string]func() (Desired, Observed){"a copy": copied, "a dump": func() (Desired, Observed) {
		d, o := fresh()
		o.Records.Recovering = "vol-orders-0"
		return d, o
	}} {
		t.Run(name, func(t *testing.T) {
			d, o := begin()
			d.Settings = map[string]string{"event_scheduler": "ON"}
			var set []string
			for _, a := range planned[ApplySettings](pureNext(d, o)) {
				set = append(set, a.Member)
			}
			if !slices.Equal(set, []string{"orders-1", "orders-2"}) {
				t.Errorf("set are %v", set)
			}
		})
	}
}

// TestTheArchiveOfASourceIsRemembered: the MySQLBackup that named both may go.
func TestTheArchiveOfASourceIsRemembered(t *testing.T) {
	for _, source := range []Source{{Copied: true, SnapshotID: oldSnap}, {Copied: true, VolumeID: oldVol}} {
		source.Archive = &v1alpha1.ArchiveSource{Path: "shop/orders/uid"}
		w := newHeir(t, 1, source)
		w.desired.ToPoint = true
		for passes := 0; w.records.Source == "" && passes < 30; passes++ {
			w.pass(-1)
		}
		w.source = Source{}
		w.begun(w.settle(300))
		if w.records.SourceArchive == nil || *w.records.SourceArchive != *source.Archive {
			t.Errorf("of %+v it remembers %+v", source, w.records.SourceArchive)
		}
	}
}

// TestACopyIsWhatTheClusterBeginsOn, whatever its volume's first owner was seeded with.
func TestACopyIsWhatTheClusterBeginsOn(t *testing.T) {
	d, o := copied()
	o.Records.Recovered, o.Records.Recovering = true, "vol-orders-0"
	o.Members["orders-0"].SQL.Membership, o.Members["orders-0"].Volumes[0].Foreign = nil, false
	if b := planned[Bootstrap](pureNext(d, o)); len(b) != 1 || b[0].Member != "orders-0" {
		t.Errorf("it begins on %v", b)
	}
}

func TestACopyThatMayNotBeAdopted(t *testing.T) {
	for name, change := range map[string]func(*Member){
		"it does not answer":           func(m *Member) { m.SQL.Access = AccessRefused },
		"it has a source":              func(m *Member) { m.SQL.Replication = &Replication{} },
		"its seeding was cut off":      func(m *Member) { m.SQL.Clone = &Clone{State: cloneFailed} },
		"it is being seeded":           func(m *Member) { m.SQL.Clone = &Clone{State: cloneInProgress} },
		"a person made it writable":    func(m *Member) { m.SQL.Writable = true },
		"another takes writes by hand": func(m *Member) { m.SQL.Access = AccessSilent },
	} {
		t.Run(name, func(t *testing.T) {
			d, o := copied()
			change(o.Members["orders-0"])
			if strings.HasPrefix(name, "another") {
				o.Members["orders-1"].SQL.Writable = true
			}
			d.ToPoint = len(name)%2 == 0
			p := pureNext(d, o)
			if len(planned[Adopt](p))+len(planned[Recover](p))+len(planned[Bootstrap](p))+len(planned[CloneFrom](p)) > 0 || p.Waiting.Message == "" {
				t.Errorf("planned %v, waiting %+v", p.Actions, p.Waiting)
			}
			if wants := strings.Contains(name, "writ"); wants != (len(planned[Demote](p)) == 1) {
				t.Errorf("planned %v", p.Actions)
			}
		})
	}
}

// TestForgottenRecordsKeepNobodyFromItsData: the records and the first member's volume are lost while nobody has an instance. The
// others get instances for what they hold, nothing is made in the place of the lost one, and nobody is told to delete anything.
func TestForgottenRecordsKeepNobodyFromItsData(t *testing.T) {
	d, o := copied()
	o.Source.SnapshotID = oldSnap
	for _, m := range o.Members {
		m.Instances, m.SQL = nil, SQL{}
		m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeAvailable, "", ""
	}
	o.Members["orders-0"].Volumes = nil
	o.Records = Rebuild(o)
	o.Records.RebuiltAt = o.Now.Add(-time.Hour)
	p := pureNext(d, o)
	if len(planned[LaunchInstance](p)) != len(o.Members)-1 || len(planned[CreateVolume](p)) > 0 {
		t.Errorf("planned %v; %v", p.Actions, p.Members)
	}
	if slices.ContainsFunc(p.Degraded, func(f Finding) bool { return strings.Contains(f.Message, "delete") }) {
		t.Errorf("told %v", p.Degraded)
	}
}

// TestTheSourceIsNeverUsedTwice: a volume that is lost after the cluster was given what it begins with is not made from it again.
func TestTheSourceIsNeverUsedTwice(t *testing.T) {
	for name, change := range map[string]func(*ClusterRecord){
		"recovered":   func(r *ClusterRecord) { r.Recovered, r.Recovering = true, "vol-orders-0" },
		"begun":       func(r *ClusterRecord) { r.Bootstrapped, r.BootstrappedVolume = "orders-0", "vol-orders-0" },
		"established": func(r *ClusterRecord) { r.Established = true },
		"forgotten":   func(r *ClusterRecord) { r.RebuiltAt = time.Unix(1, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			d, o := copied()
			o.Source.SnapshotID = oldSnap
			change(&o.Records)
			m := o.Members["orders-0"]
			m.Volumes, m.Instances, m.SQL, m.VolumeMissingSince = nil, nil, SQL{}, o.Now.Add(-time.Hour)
			p := pureNext(d, o)
			if len(planned[Bootstrap](p)) > 0 {
				t.Errorf("planned %v", p.Actions)
			}
			for _, v := range planned[CreateVolume](p) {
				if v.SnapshotID != "" {
					t.Errorf("planned %v", p.Actions)
				}
			}
		})
	}
	// Lost before: it is rebuilt.
	d, o := copied()
	m := o.Members["orders-0"]
	m.Volumes, m.Instances, m.SQL, m.VolumeMissingSince = nil, nil, SQL{}, o.Now.Add(-time.Hour)
	if v := planned[CreateVolume](pureNext(d, o)); len(v) != 1 || v[0].SnapshotID != oldSnap || v[0].Incarnation != 2 {
		t.Errorf("planned %v", v)
	}
}

// TestADeletionTakesTheCopyOfASourceAlong, whatever becomes of the volumes.
func TestADeletionTakesTheCopyOfASourceAlong(t *testing.T) {
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicySnapshot, v1alpha1.DeletionPolicyRetain, v1alpha1.DeletionPolicyDelete} {
		for passes := range 30 {
			w := newHeir(t, 2, Source{Copied: true, VolumeID: oldVol})
			for range passes {
				w.pass(-1)
			}
			w.desired.Deleting, w.desired.DeletionPolicy = true, policy
			w.settle(100)
			for _, s := range w.snapshots {
				if s.Purpose == RecoveryPurpose {
					t.Errorf("%s after %d passes: %v is left", policy, passes, s)
				}
			}
		}
	}
}
