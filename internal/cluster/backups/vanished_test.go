package backups

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
)

// TestWhetherASnapshotHasVanishedIsKnown only while EC2 answers, of a snapshot that it had the time to show.
func TestWhetherASnapshotHasVanishedIsKnown(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		completed       time.Duration // how long ago
		shown, away     bool
		listed          time.Duration // how long ago EC2 answered the list
		running         bool
		vanished, known bool
	}{
		"shown":               {completed: time.Hour, shown: true, known: true},
		"gone":                {completed: time.Hour, vanished: true, known: true},
		"EC2 does not answer": {completed: time.Hour, away: true},
		"not shown yet":       {completed: time.Minute},
		"the list is older":   {completed: time.Hour, listed: time.Hour},
		"it is running":       {completed: time.Hour, running: true},
	} {
		b := completed("b", "hourly", v1alpha1.BackupMethodSnapshot)
		b.UID, b.Status.CompletedAt = "b", &metav1.Time{Time: noon.Add(-c.completed)}
		if c.running {
			b.Status.Phase = v1alpha1.BackupRunning
		}
		s := &pass.Pass{}
		s.Observed.CloudReachable, s.Seen.Inventory.SnapshotsTaken = !c.away, noon.Add(-c.listed)
		if c.shown {
			s.Seen.Inventory.Snapshots = []inventory.Snapshot{{State: inventory.SnapshotCompleted, Tags: map[string]string{awsapi.TagPurpose: pass.PurposeOf(&b)}}}
		}
		if vanished, known := hasVanished(s, &b); vanished != c.vanished || known != c.known {
			t.Errorf("%s: vanished %v, known %v", name, vanished, known)
		}
	}
}

// TestASnapshotThatNoRestoreWouldTakeHasVanished: one that has lost one of its tags, and a copy with all of them.
func TestASnapshotThatNoRestoreWouldTakeHasVanished(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change   func(*inventory.Snapshot)
		vanished bool
	}{
		"it is as it was":        {func(*inventory.Snapshot) {}, false},
		"its namespace is gone":  {func(s *inventory.Snapshot) { delete(s.Tags, v1alpha1.TagNamespace) }, true},
		"its cluster is gone":    {func(s *inventory.Snapshot) { delete(s.Tags, v1alpha1.TagClusterUID) }, true},
		"its purpose is gone":    {func(s *inventory.Snapshot) { delete(s.Tags, awsapi.TagPurpose) }, true},
		"another cluster has it": {func(s *inventory.Snapshot) { s.Tags[v1alpha1.TagClusterUID] = "another" }, true},
		"a copy is left":         {func(s *inventory.Snapshot) { s.ID = "snap-copy" }, true},
	} {
		b := completed("b", "hourly", v1alpha1.BackupMethodSnapshot)
		b.Namespace, b.UID = "shop", "b"
		b.Status.ClusterUID, b.Status.SnapshotID, b.Status.CompletedAt = "orders", "snap-1", &metav1.Time{Time: noon.Add(-time.Hour)}
		shown := inventory.Snapshot{ID: "snap-1", State: inventory.SnapshotCompleted, Tags: map[string]string{
			v1alpha1.TagNamespace: "shop", v1alpha1.TagClusterUID: "orders", awsapi.TagPurpose: pass.PurposeOf(&b)}}
		c.change(&shown)
		s := &pass.Pass{}
		s.Observed.CloudReachable, s.Seen.Inventory.SnapshotsTaken, s.Seen.Inventory.Snapshots = true, noon, []inventory.Snapshot{shown}
		if vanished, known := hasVanished(s, &b); vanished != c.vanished || !known {
			t.Errorf("%s: vanished %v, known %v", name, vanished, known)
		}
	}
}

// TestWhatABackupIsWorth: only a good one is the last good one.
func TestWhatABackupIsWorth(t *testing.T) {
	at := metav1.Now()
	refuted := &v1alpha1.VerificationStatus{Result: v1alpha1.VerificationFailed, Reason: v1alpha1.BackupReasonDamaged}
	for want, st := range map[v1alpha1.BackupStanding]v1alpha1.MySQLBackupStatus{
		v1alpha1.StandingUnfinished: {Phase: v1alpha1.BackupRunning},
		v1alpha1.StandingFailed:     {Phase: v1alpha1.BackupFailed},
		v1alpha1.StandingVanished:   {Phase: v1alpha1.BackupCompleted, BackupFindings: v1alpha1.BackupFindings{VanishedAt: &at, Verification: refuted}},
		v1alpha1.StandingRefuted:    {Phase: v1alpha1.BackupCompleted, BackupFindings: v1alpha1.BackupFindings{Verification: refuted}},
		v1alpha1.StandingGood:       {Phase: v1alpha1.BackupCompleted},
	} {
		b := v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: st}
		if got := b.Standing(); got != want || b.Good() != (want == v1alpha1.StandingGood) {
			t.Errorf("%+v: standing %d, want %d", st, got, want)
		}
		if last := summarise([]v1alpha1.MySQLBackup{b}).LastGood; (last != "") != (want == v1alpha1.StandingGood) {
			t.Errorf("%+v: the last good one is %q", st, last)
		}
	}
}

// TestWhatVanishedIsNamed, with the way to have it back.
func TestWhatVanishedIsNamed(t *testing.T) {
	for method, want := range map[v1alpha1.BackupMethod][]string{
		v1alpha1.BackupMethodSnapshot: {"no snapshot snap-1 since 2026-11-22T12:00:00Z", "Recycle Bin"},
		v1alpha1.BackupMethodDump:     {"objects of s3://my-backups/x have been missing since 2026-11-22T12:00:00Z", "lifecycle rule", "the bucket's versions"},
	} {
		b := completed("b", "daily", method)
		b.Status.SnapshotID, b.Status.Location = "snap-1", "s3://my-backups/x"
		b.Status.VanishedAt = &metav1.Time{Time: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
		for _, part := range want {
			if got := vanishedMessage(&b); !strings.Contains(got, part) {
				t.Errorf("%s: %q does not say %q", method, got, part)
			}
		}
	}
}

// taker is an API server that takes every status. The tests of controllers ask a real one.
type taker struct{ client.Client }

func (taker) Status() client.SubResourceWriter { return takerOfStatus{} }

type takerOfStatus struct{ client.SubResourceWriter }

func (takerOfStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// TestABackupSaysThatItsSnapshotVanished, and that it is there again; while EC2 does not answer, it says what it said last.
func TestABackupSaysThatItsSnapshotVanished(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	r := &Snapshots{&pass.Ports{Client: taker{}, Clock: clock}}
	b := completed("b", "hourly", v1alpha1.BackupMethodSnapshot)
	b.UID, b.Status.SnapshotID, b.Status.CompletedAt = "b", "snap-1", &metav1.Time{Time: clock.Now().Add(-time.Hour)}
	for _, step := range []struct {
		name        string
		shown, away bool
		ready       string
		want        status.Status
	}{
		{"gone", false, false, "False/BackupVanished", status.FailedStatus},
		{"EC2 does not answer", false, true, "False/BackupVanished", status.FailedStatus},
		{"its tags are restored", true, false, "True/Completed", status.CurrentStatus},
		{"EC2 does not answer again", false, true, "True/Completed", status.CurrentStatus},
	} {
		clock.SetTime(clock.Now().Add(time.Minute))
		s := &pass.Pass{}
		s.Observed.CloudReachable, s.Seen.Inventory.SnapshotsTaken = !step.away, clock.Now()
		if step.shown {
			s.Seen.Inventory.Snapshots = []inventory.Snapshot{{ID: "snap-1", State: inventory.SnapshotCompleted, Tags: map[string]string{awsapi.TagPurpose: pass.PurposeOf(&b)}}}
		}
		if err := r.recordVanished(t.Context(), s, &b); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
		is, err := kstatus.Of(&b)
		if err != nil || c == nil || string(c.Status)+"/"+c.Reason != step.ready || is != step.want {
			t.Fatalf("%s: it is %s: %+v, %v", step.name, is, b.Status, err)
		}
		if wrong := (&kstatus.Checker{}).Check(&b); wrong != "" {
			t.Errorf("%s: %s", step.name, wrong)
		}
		if is == status.FailedStatus && (!strings.Contains(c.Message, "snap-1") || !strings.Contains(c.Message, "since 2026-11-22T12:01:00Z") || !strings.Contains(c.Message, "restore its tags")) {
			t.Errorf("%s: it says: %s", step.name, c.Message)
		}
	}
}
