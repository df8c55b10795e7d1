package topology

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// reports says whether a plan tells a person of something, in these words.
func reports(p Plan, reason, words string) bool {
	return slices.ContainsFunc(p.Degraded, func(f Finding) bool { return f.Reason == reason && strings.Contains(f.Message, words) })
}

// TestAVolumeThatEC2CannotMake: the order is taken, and there is no volume. That is told with what to change, tried again in
// peace with another token each time, and is over when EC2 can; nothing is left of what was not made.
func TestAVolumeThatEC2CannotMake(t *testing.T) {
	for _, dud := range []string{"gone", "error"} {
		for _, inherits := range []bool{true, false} {
			w := newHeir(t, 3, Source{Copied: true, SnapshotID: oldSnap})
			words := "and that of " + oldSnap + " must be enabled"
			if !inherits {
				w, words = newWorld(t, 3), "spec.storage.kmsKeyID"
			}
			w.dud = dud
			began, told, quiet, orders := w.now, time.Time{}, 0, map[int]int{}
			for w.now.Sub(began) < time.Hour {
				plan := w.pass(-1)
				for _, order := range planned[CreateVolume](plan) {
					if order.Member == "orders-0" {
						orders[order.Incarnation]++
					}
				}
				switch {
				case reports(plan, v1alpha1.ReasonVolumeNotMade, words):
					if told.IsZero() {
						told = w.now
					}
				case !told.IsZero():
					quiet++
				}
				if !told.IsZero() && len(planned[LaunchInstance](plan))+len(planned[AttachVolume](plan)) > 0 {
					t.Errorf("%s: planned %v", dud, plan.Actions)
				}
				if plan.RequeueAfter < waitMySQL && w.now.Sub(began) > time.Minute && len(significant(plan.Actions)) == 0 {
					t.Errorf("%s: looks again after %s", dud, plan.RequeueAfter)
				}
			}
			if told.IsZero() || told.Sub(began) > 3*time.Minute {
				t.Errorf("%s: told after %s", dud, told.Sub(began))
			}
			if quiet > 0 {
				t.Errorf("%s: for %d passes nothing was told", dud, quiet)
			}
			if len(orders) < 6 || len(orders) > 13 {
				t.Errorf("%s: within an hour it was tried as %v", dud, orders)
			}
			for incarnation, n := range orders {
				if n != 1 {
					t.Errorf("%s: incarnation %d was ordered %d times", dud, incarnation, n)
				}
			}
			for _, m := range w.machines {
				if !m.gone() {
					t.Errorf("%s: the instance %s waits for a volume", dud, m.ID)
				}
			}
			w.dud = "" // a person has changed the key's policy
			plan := w.settle(600)
			if len(w.volumes) != 3 || reports(plan, v1alpha1.ReasonVolumeNotMade, "") {
				t.Errorf("%s: %d volumes, told %v", dud, len(w.volumes), plan.Degraded)
			}
			if inherits {
				w.begun(plan)
			}
		}
	}
}

// TestAFailedVolumeWithDataIsLeftAlone: only what was never attached, as the records have it, is deleted.
func TestAFailedVolumeWithDataIsLeftAlone(t *testing.T) {
	d, o := copied()
	m := o.Members["orders-1"]
	m.Instances, m.SQL = nil, SQL{}
	m.Volumes[0].State, m.Volumes[0].AttachedTo, m.Volumes[0].AttachState = volumeError, "", ""
	o.Records.Members["orders-1"] = MemberRecord{VolumeID: m.Volumes[0].ID, Volume: 1}
	m.RecordedVolume = m.Volumes[0].ID
	p := pureNext(d, o)
	if len(planned[DeleteVolume](p)) > 0 || !reports(p, v1alpha1.ReasonMemberMissing, "state error") {
		t.Errorf("planned %v, told %v", p.Actions, p.Degraded)
	}
	o.Records.Members["orders-1"], m.RecordedVolume = MemberRecord{PendingVolume: m.Volumes[0].ID, Volume: 1}, ""
	p = pureNext(d, o)
	if gone := planned[DeleteVolume](p); len(gone) != 1 || gone[0].VolumeID != m.Volumes[0].ID || p.Records.Members["orders-1"].Volume != 2 {
		t.Errorf("planned %v, records %+v", p.Actions, p.Records.Members["orders-1"])
	}
}

// TestAVolumeThatCameLateIsDeleted, once the member lives on another.
func TestAVolumeThatCameLateIsDeleted(t *testing.T) {
	d, o := copied()
	m := o.Members["orders-0"]
	m.Volumes[0].Incarnation, m.RecordedVolume = 2, m.Volumes[0].ID
	m.Volumes = append(m.Volumes, Volume{ID: "vol-late", Incarnation: 1, State: volumeAvailable, Zone: "a"}, Volume{ID: "vol-somebodys", Incarnation: 1, State: volumeAvailable, Zone: "a"})
	rec := o.Records.Members["orders-0"]
	rec.AbandonedVolume, rec.Volume = "vol-late", 2
	o.Records.Members["orders-0"] = rec
	if gone := planned[DeleteVolume](pureNext(d, o)); len(gone) != 1 || gone[0].VolumeID != "vol-late" {
		t.Errorf("planned %v", gone)
	}
}

// TestWhatIsDeletedOnPurposeIsNoFailure: a zone without room is given up before anything was on the volume.
func TestWhatIsDeletedOnPurposeIsNoFailure(t *testing.T) {
	w := newWorld(t, 1)
	w.noRoom["a"] = true
	for range 600 {
		if plan := w.pass(-1); reports(plan, v1alpha1.ReasonVolumeNotMade, "") {
			t.Fatalf("told %v", plan.Degraded)
		}
	}
	w.settle(300)
}

// TestABeginningThatIsLostIsTold: what was recovered is gone with its volume before the cluster began on it.
func TestABeginningThatIsLostIsTold(t *testing.T) {
	for name, change := range map[string]func(*Observed){
		"a copy":         func(o *Observed) { o.Records.Recovered = true },
		"a dump":         func(o *Observed) { o.Source, o.Records.Source, o.Records.Recovered = Source{}, "", true },
		"half of a dump": func(o *Observed) { o.Source, o.Records.Source = Source{}, "" },
	} {
		t.Run(name, func(t *testing.T) {
			d, o := copied()
			change(&o)
			m := o.Members["orders-0"]
			o.Records.Recovering = "vol-orders-0"
			o.Records.Members["orders-0"] = MemberRecord{VolumeID: "vol-orders-0", Volume: 1, Instance: 1}
			m.Volumes, m.SQL, m.RecordedVolume, m.VolumeMissingSince = nil, SQL{}, "vol-orders-0", o.Now.Add(-volumePatience+time.Second)
			const advice = "Delete the cluster and make it again"
			if p := pureNext(d, o); reports(p, v1alpha1.ReasonRecoveryFailed, advice) {
				t.Errorf("told before it is certain: %v", p.Degraded)
			}
			m.VolumeMissingSince = o.Now.Add(-volumePatience)
			p := pureNext(d, o)
			if !reports(p, v1alpha1.ReasonRecoveryFailed, advice) || !strings.Contains(p.Waiting.Message, "vol-orders-0") {
				t.Errorf("told %v, waiting %+v", p.Degraded, p.Waiting)
			}
			if len(planned[CreateVolume](p))+len(planned[Bootstrap](p)) > 0 {
				t.Errorf("planned %v", p.Actions)
			}
			o.Records.Bootstrapped = "orders-1"
			if p := pureNext(d, o); reports(p, v1alpha1.ReasonRecoveryFailed, advice) {
				t.Errorf("told of a cluster that has begun: %v", p.Degraded)
			}
		})
	}
}
