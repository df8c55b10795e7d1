package topology

import (
	"slices"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
)

func planned[A Action](p Plan) []A {
	var found []A
	for _, a := range p.Actions {
		if wanted, ok := a.(A); ok {
			found = append(found, wanted)
		}
	}
	return found
}

// fresh is a cluster of three whose instances are up and whose servers answer, empty and without roles.
func fresh() (Desired, Observed) {
	d := Desired{Cluster: "orders", Replicas: 3, Durability: Durability{Lossless: true}, MaxLag: 30 * time.Second, Beginning: Beginning{Recover: true},
		Subnets: []Subnet{{ID: "subnet-1", Zone: "a"}, {ID: "subnet-2", Zone: "b"}, {ID: "subnet-3", Zone: "c"}}}
	o := Observed{Now: time.Unix(1000000, 0), CloudReachable: true, Permitted: Permitted{Launchable: true, Rehearsal: Rehearsal{Completed: true}}, Members: map[string]*Member{}, InService: map[string]bool{}}
	o.Records.Members = map[string]MemberRecord{}
	for ordinal := range 3 {
		name := d.MemberName(ordinal)
		vol, in := "vol-"+name, "i-"+name
		o.Records.Members[name] = MemberRecord{Instance: 1, Volume: 1, SignedInstance: in, VolumeID: vol}
		o.Members[name] = &Member{Name: name, Ordinal: ordinal, RecordedVolume: vol,
			Instances: []Instance{{ID: in, Incarnation: 1, State: stateRunning, Address: "10.0.0.1" + name[len(name)-1:], Zone: d.Subnets[ordinal].Zone}},
			Volumes:   []Volume{{ID: vol, Incarnation: 1, State: "in-use", AttachedTo: in, AttachState: attachAttached, Zone: d.Subnets[ordinal].Zone}},
			SQL:       SQL{Access: AccessVerified, MembershipKnown: true, ServerUUID: "uuid-" + name},
		}
	}
	return d, o
}

// TestARecoveryComesBeforeEverything: nobody is made a primary, and nobody seeded, before the restore is done; it goes into
// one volume only; and what was restored is what the cluster then begins on.
func TestARecoveryComesBeforeEverything(t *testing.T) {
	d, o := fresh()
	p := pureNext(d, o)
	if r := planned[Recover](p); len(r) != 1 || r[0].Member != "orders-0" || len(planned[Bootstrap](p)) > 0 || len(planned[CloneFrom](p)) > 0 {
		t.Fatalf("planned %v", p.Actions)
	}
	if p.Records.Recovering != "vol-orders-0" || p.Waiting.Reason != v1alpha1.ReasonRecovering || p.Phase == v1alpha1.PhaseReady {
		t.Errorf("records %+v, waiting %+v, phase %s", p.Records, p.Waiting, p.Phase)
	}
	// Half restored, and gone for a moment: nobody else is taken.
	o.Records = p.Records
	o.Members["orders-0"].SQL.Executed = gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23")
	o.Members["orders-0"].SQL.Access = AccessRefused
	p = pureNext(d, o)
	if len(planned[Recover](p)) > 0 || len(planned[Bootstrap](p)) > 0 {
		t.Errorf("while the member is away: %v", p.Actions)
	}
	// Done.
	o.Members["orders-0"].SQL.Access = AccessVerified
	o.Records.Recovered = true
	p = pureNext(d, o)
	if b := planned[Bootstrap](p); len(planned[Recover](p)) > 0 || len(b) != 1 || b[0].Member != "orders-0" {
		t.Fatalf("after it: %v", p.Actions)
	}
}

// TestWhatWasRestoredIsWhereTheClusterBegins, also when an empty member comes first in order.
func TestWhatWasRestoredIsWhereTheClusterBegins(t *testing.T) {
	d, o := fresh()
	o.Records.Recovering, o.Records.Recovered = "vol-orders-1", true
	o.Members["orders-1"].SQL.Executed = gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23")
	if b := planned[Bootstrap](pureNext(d, o)); len(b) != 1 || b[0].Member != "orders-1" {
		t.Errorf("it begins on %v", b)
	}
}

// TestARecoveryOutlivesALowerNumberOfReplicas: it went into a member that spec.replicas then no longer asks for. That holds the data, so it is
// finished and the cluster begins there. Nothing goes into such a member that has not begun.
func TestARecoveryOutlivesALowerNumberOfReplicas(t *testing.T) {
	d, o := fresh()
	d.Replicas = 1
	o.Members["orders-0"].SQL.Access = AccessRefused
	if p := pureNext(d, o); len(planned[Recover](p)) > 0 || p.Records.Recovering != "" {
		t.Errorf("it begins in a member that is not wanted: %v", p.Actions)
	}
	o.Members["orders-0"].SQL.Access = AccessVerified
	o.Records.Recovering = "vol-orders-1"
	if r := planned[Recover](pureNext(d, o)); len(r) != 1 || r[0].Member != "orders-1" {
		t.Errorf("it does not go on: %v", r)
	}
	o.Records.Recovered = true
	o.Members["orders-1"].SQL.Executed = gtid.MustParse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23")
	p := pureNext(d, o)
	if b := planned[Bootstrap](p); len(b) != 1 || b[0].Member != "orders-1" || p.Records.BootstrappedVolume != "vol-orders-1" {
		t.Errorf("it does not begin there: %v", p.Actions)
	}
}

// TestASurplusMemberWhoseVolumeIsLostLeavesDuringARestore: there is no primary that could take it away. What was restored into it is lost,
// and a person is told what to do.
func TestASurplusMemberWhoseVolumeIsLostLeavesDuringARestore(t *testing.T) {
	for _, restored := range []string{"vol-orders-0", "vol-orders-2"} {
		d, o := fresh()
		d.Replicas, o.Records.Recovering = 2, restored
		m := o.Members["orders-2"]
		m.SQL = SQL{Access: AccessSilent}
		m.Volumes, m.VolumeMissingSince = nil, o.Now.Add(time.Second-volumePatience)
		if p := pureNext(d, o); len(planned[TerminateInstance](p)) > 0 {
			t.Fatalf("planned %v before the loss is certain", p.Actions)
		}
		m.VolumeMissingSince = o.Now.Add(-volumePatience)
		p := pureNext(d, o)
		if ended := planned[TerminateInstance](p); len(ended) != 1 || ended[0].Member != "orders-2" {
			t.Fatalf("planned %v", p.Actions)
		}
		m.Instances[0].State = stateTerminated
		o.Records = p.Records
		p = pureNext(d, o)
		if len(p.Members) != 2 || p.Records.Members["orders-2"].VolumeID != "" {
			t.Errorf("it does not leave: %+v", p.Members)
		}
		if goesOn := restored == "vol-orders-0"; goesOn != (len(planned[Recover](p)) == 1) || goesOn == told(p, v1alpha1.ReasonRecoveryFailed) || goesOn == (p.Waiting.Reason == v1alpha1.ReasonRecoveryFailed) {
			t.Errorf("restored into %s: planned %v, says %v", restored, p.Actions, p.Degraded)
		}
	}
}

// TestWhatWasRestoredHandsOverAndLeaves: orders-1 was restored, and then a single member is asked for, which is orders-0.
func TestWhatWasRestoredHandsOverAndLeaves(t *testing.T) {
	w := newHeir(t, 3, Source{})
	for len(planned[Recover](Next(w.wish(), w.observe()))) == 0 || w.machineOf("orders-1") == nil {
		w.pass(-1)
		if w.passes > 100 {
			t.Fatal("nothing is restored")
		}
	}
	w.desired.Replicas, w.records.Recovering = 1, w.records.Members["orders-1"].VolumeID
	if r := planned[Recover](Next(w.wish(), w.observe())); len(r) != 1 || r[0].Member != "orders-1" {
		t.Fatalf("it does not go on: %v", r)
	}
	w.records.Recovered = true
	w.volumes[w.records.Recovering].data.executed = gtid.MustParse(history)
	if plan := w.settle(300); plan.Primary != "orders-0" {
		t.Errorf("%s leads", plan.Primary)
	} else {
		w.begun(plan)
	}
}

// TestNothingIsRestoredIntoAClusterThatServes, whatever the records have forgotten.
func TestNothingIsRestoredIntoAClusterThatServes(t *testing.T) {
	for name, change := range map[string]func(*Observed){
		"it has served":           func(o *Observed) { o.Records.Established = true },
		"it has begun":            func(o *Observed) { o.Records.Bootstrapped, o.Records.BootstrappedVolume = "orders-0", "vol-orders-0" },
		"its records were lost":   func(o *Observed) { o.Records.RebuiltAt = o.Now.Add(-time.Hour) },
		"somebody is writable":    func(o *Observed) { o.Members["orders-2"].SQL.Writable = true },
		"it was restored already": func(o *Observed) { o.Records.Recovering, o.Records.Recovered = "vol-orders-0", true },
		"the member clones somebody": func(o *Observed) {
			for _, m := range o.Members {
				m.SQL.Clone = &Clone{}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fresh()
			change(&o)
			if p := pureNext(d, o); len(planned[Recover](p)) > 0 {
				t.Errorf("planned %v", p.Actions)
			}
		})
	}
}

// TestARecoveryThatWasForgottenIsNoBeginning: a cluster that was to be restored never begins empty because its records
// were lost, and a person is told what to do. One whose members know each other is found again as ever.
func TestARecoveryThatWasForgottenIsNoBeginning(t *testing.T) {
	d, o := fresh()
	o.Records.RebuiltAt = o.Now.Add(-time.Hour)
	p := pureNext(d, o)
	if len(planned[Bootstrap](p)) > 0 || len(planned[Recover](p)) > 0 || len(planned[CloneFrom](p)) > 0 {
		t.Errorf("planned %v", p.Actions)
	}
	if p.Phase == v1alpha1.PhaseReady || !slices.ContainsFunc(p.Degraded, func(f Finding) bool { return f.Reason == v1alpha1.ReasonRecoveryFailed }) {
		t.Errorf("phase %s, told %v", p.Phase, p.Degraded)
	}
	d.Recover = false
	if b := planned[Bootstrap](pureNext(d, o)); len(b) != 1 {
		t.Errorf("without a recovery an empty cluster begins: %v", b)
	}
}

func TestRecordsOfARecoveryAreCompared(t *testing.T) {
	a := ClusterRecord{Heritage: Heritage{Recovering: "vol-1"}}
	if a.Equal(ClusterRecord{}) || (ClusterRecord{Heritage: Heritage{Recovered: true}}).Equal(ClusterRecord{}) || !slices.Equal([]bool{a.Clone().Equal(a)}, []bool{true}) {
		t.Error("the records of a recovery are not looked at")
	}
}
