package controllers

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// annals is a cluster with an archive on a real API server, which it has because its backups go to a bucket. No pod runs: the
// tests play what it reports.
type annals struct {
	*shelf
	r       *MySQLClusterReconciler
	cluster *v1alpha1.MySQLCluster
	cache   *pass.Cache
}

func newAnnals(t *testing.T) *annals {
	t.Helper()
	a := &annals{shelf: newShelf(t)}
	a.r = NewMySQLClusterReconciler(pass.Ports{
		Client: shared.cached, Reader: shared.operator, Clock: a.clock, Metrics: metrics.New(prometheus.NewRegistry()),
		Images: &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}, Events: a.shelf.r.Events,
	})
	a.cluster = a.shelf.cluster
	a.cache = a.r.Caches.Of(client.ObjectKeyFromObject(a.cluster), pass.KeyOf(a.cluster.UID))
	return a
}

// change changes the cluster's spec.
func (a *annals) change(change func(*v1alpha1.MySQLCluster)) {
	a.t.Helper()
	a.cluster = &v1alpha1.MySQLCluster{}
	must(a.t, kube.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "orders"}, a.cluster))
	change(a.cluster)
	must(a.t, kube.Update(a.t.Context(), a.cluster))
}

// wants says what the cluster is to have for an archive; nil takes what it says of it out.
func (a *annals) wants(archive *v1alpha1.BinlogArchiveSpec) {
	a.t.Helper()
	a.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.BinlogArchive = archive })
}

// collect does what the garbage collector does with a StatefulSet that is deleted: nobody does it here.
func (a *annals) collect() {
	a.t.Helper()
	if set := a.set(); set != nil && !set.DeletionTimestamp.IsZero() {
		set.Finalizers = nil
		must(a.t, kube.Update(a.t.Context(), set))
	}
}

// pass does what a pass does about the archive, and returns the condition.
func (a *annals) pass() *metav1.Condition {
	a.t.Helper()
	s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
	s.Plan.Primary, s.Planned = "orders-0", true
	s.SetRecords(topology.ClusterRecord{Established: true})
	var err error
	s.Backup.All, err = a.r.backups.Snapshots.List(a.t.Context(), s)
	must(a.t, err)
	s.Backup.Known = true
	must(a.t, a.r.backups.LookAtDestination(a.t.Context(), s))
	must(a.t, a.r.backups.Archive.Ensure(a.t.Context(), s))
	a.r.backups.ProjectBackups(s, pass.Conditions{Cluster: a.cluster})
	for i := range a.cluster.Status.Conditions {
		if a.cluster.Status.Conditions[i].Type == v1alpha1.ConditionArchiveHealthy {
			return &a.cluster.Status.Conditions[i]
		}
	}
	return nil
}

func (a *annals) set() *appsv1.StatefulSet {
	a.t.Helper()
	var set appsv1.StatefulSet
	if err := kube.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "orders-archive"}, &set); err != nil {
		must(a.t, client.IgnoreNotFound(err))
		return nil
	}
	return &set
}

// reports writes what the pod says.
func (a *annals) reports(report archive.Report) {
	a.t.Helper()
	text, err := json.Marshal(report)
	must(a.t, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "orders-archive"}}
	after := cm.DeepCopy()
	after.Data = map[string]string{task.ReportArchive: string(text)}
	must(a.t, kube.Patch(a.t.Context(), after, client.MergeFrom(cm)))
}

func (a *annals) bases() []v1alpha1.MySQLBackup {
	a.t.Helper()
	var list v1alpha1.MySQLBackupList
	must(a.t, kube.List(a.t.Context(), &list, client.InNamespace(a.namespace)))
	return list.Items
}

func TestTheArchiveHasItsPod(t *testing.T) {
	a := newAnnals(t)
	if c := a.pass(); c == nil || c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonArchiveStarting {
		t.Errorf("before the pod reports: %+v", c)
	}
	set := a.set()
	if set == nil || !metav1.IsControlledBy(set, a.cluster) {
		t.Fatalf("the StatefulSet is %+v", set)
	}
	told, err := task.Decode(set.Spec.Template.Spec.Containers[0].Env[0].Value)
	must(t, err)
	if told.Primary != "orders-primary."+a.namespace+".svc" || told.Report != "orders-archive" || told.SpoolBytes != 5<<30 || told.ClusterUID != string(a.cluster.UID) || told.Destination == nil {
		t.Errorf("the pod is told %+v", told)
	}
	claim := set.Spec.VolumeClaimTemplates[0]
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "5Gi" || set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Errorf("the claim is %+v", claim)
	}
	// Drift is put back, and what the pod reported stays.
	a.reports(archive.Report{At: a.clock.Now(), CoveredUntil: a.clock.Now()})
	set.Spec.Replicas = ptr.To[int32](0)
	must(t, kube.Update(t.Context(), set))
	a.pass()
	if got := a.set(); *got.Spec.Replicas != 1 {
		t.Errorf("%d replicas after a person's change", *got.Spec.Replicas)
	}
	a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: false})
	if c := a.pass(); c != nil {
		t.Errorf("switched off, the condition says %+v", c)
	}
	if got := a.set(); got != nil && got.DeletionTimestamp.IsZero() {
		t.Error("switched off, the StatefulSet is still there")
	}
}

// TestAnArchiveThatNeverReports is not waited for silently, and what an earlier one reported does not speak for it.
func TestAnArchiveThatNeverReports(t *testing.T) {
	a := newAnnals(t)
	a.clock = clocktesting.NewFakePassiveClock(time.Now())
	a.r.Clock = a.clock
	a.pass()
	a.reports(archive.Report{At: a.clock.Now().Add(-time.Hour), CoveredUntil: a.clock.Now().Add(-time.Hour), FirstRecoverable: a.clock.Now().Add(-2 * time.Hour)})
	if c := a.pass(); c.Reason != v1alpha1.ReasonArchiveStarting || a.cluster.Status.Backup.FirstRecoverablePoint != nil {
		t.Errorf("an old report counts: %+v, %v", c, a.cluster.Status.Backup.FirstRecoverablePoint)
	}
	if got := testutil.CollectAndCount(a.r.Metrics.Archived); got != 0 {
		t.Errorf("%d metrics say until when it goes", got)
	}
	a.clock.SetTime(a.clock.Now().Add(backups.ArchiveLate + time.Minute))
	if c := a.pass(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonArchiveBehind || !strings.Contains(c.Message, "has not reported since its StatefulSet was made") {
		t.Errorf("after minutes of silence: %+v", c)
	}
}

// TestWhoHasAnArchive: a bucket has one unless it is switched off, and what the spec leaves out is what it would fill in.
func TestWhoHasAnArchive(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	before := a.set()
	if before == nil {
		t.Fatal("a bucket has no archive")
	}
	same := func(what string) {
		t.Helper()
		for range 2 {
			a.pass()
		}
		if got := a.set(); got == nil || got.UID != before.UID || got.Generation != before.Generation {
			t.Errorf("%s: the StatefulSet is now %+v", what, got)
		}
	}
	a.wants(&v1alpha1.BinlogArchiveSpec{Enabled: true})
	same("asked for by name")
	a.wants(nil)
	same("left out again")
	a.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Backup.Suspend = true })
	same("schedules are suspended")
	a.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Hibernate = true })
	same("the cluster hibernates")
	if c := a.pass(); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonHibernated {
		t.Errorf("the cluster hibernates: %+v", c)
	}
	a.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.Hibernate = false
		c.Spec.Backup.Destination = &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "backups"}}
	})
	if c := a.pass(); c != nil {
		t.Errorf("on a claim, the condition says %+v", c)
	}
	a.collect()
	if got := a.set(); got != nil {
		t.Errorf("on a claim, there is %+v", got)
	}
}

// TestAStatefulSetThatCannotBeChangedIsReplaced, once: the API lets a storage class be named later, and a claim be smaller that was
// off between two passes, and Kubernetes does not.
func TestAStatefulSetThatCannotBeChangedIsReplaced(t *testing.T) {
	fast := &v1alpha1.BinlogArchiveSpec{Enabled: true, StorageClassName: "fast"}
	small := &v1alpha1.BinlogArchiveSpec{Enabled: true, StorageClassName: "fast", Storage: ptr.To(resource.MustParse("1Gi"))}
	for name, row := range map[string]struct {
		before *v1alpha1.BinlogArchiveSpec
		then   []*v1alpha1.BinlogArchiveSpec
		size   string
	}{
		"a class, where nothing was said":          {nil, []*v1alpha1.BinlogArchiveSpec{fast}, "5Gi"},
		"a class, where the default was asked for": {&v1alpha1.BinlogArchiveSpec{Enabled: true}, []*v1alpha1.BinlogArchiveSpec{fast}, "5Gi"},
		"smaller, and nobody saw that it was off":  {nil, []*v1alpha1.BinlogArchiveSpec{{Enabled: false}, small}, "1Gi"},
		"a class of before, and nobody saw it go":  {&v1alpha1.BinlogArchiveSpec{Enabled: true, StorageClassName: "slow"}, []*v1alpha1.BinlogArchiveSpec{{Enabled: false}, fast}, "5Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAnnals(t)
			a.wants(row.before)
			a.pass()
			first := a.set()
			for _, archive := range row.then {
				a.wants(archive.DeepCopy())
			}
			a.pass()
			if got := a.set(); got != nil && got.DeletionTimestamp.IsZero() {
				t.Fatal("the StatefulSet with the old claim is still there")
			}
			a.collect()
			a.pass()
			second := a.set()
			if second == nil || second.UID == first.UID {
				t.Fatalf("the StatefulSet is %+v", second)
			}
			claim := second.Spec.VolumeClaimTemplates[0].Spec
			if size := claim.Resources.Requests[corev1.ResourceStorage]; *claim.StorageClassName != "fast" || size.String() != row.size {
				t.Errorf("the claim is %+v", claim)
			}
			a.pass()
			if got := a.set(); got == nil || got.UID != second.UID {
				t.Errorf("it is replaced again: %+v", got)
			}
		})
	}
}

// TestTheArchivesNameMayBeTaken: what is not ours is not touched.
func TestTheArchivesNameMayBeTaken(t *testing.T) {
	a := newAnnals(t)
	must(t, kube.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "orders-archive"}, Data: map[string]string{"mine": "yes"}}))
	s := &pass.Pass{Cluster: a.cluster, Log: logr.Discard(), Cache: a.cache}
	if err := a.r.backups.Archive.Ensure(t.Context(), s); err == nil || !strings.Contains(err.Error(), "does not belong to this cluster") {
		t.Errorf("got %v", err)
	}
}

func TestWhatTheConditionSaysOfTheArchive(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	now := time.Now().Add(2 * time.Hour) // the archive has been there for some time
	a.clock = clocktesting.NewFakePassiveClock(now)
	a.r.Clock = a.clock
	for name, row := range map[string]struct {
		report archive.Report
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"a gap after the fact":            {archive.Report{At: now, CoveredUntil: now, Start: archive.Start{BaseNeeded: true}, Missing: "uuid:5"}, metav1.ConditionFalse, v1alpha1.ReasonArchiveGap, "no longer in the bucket: uuid:5"},
		"nothing but trouble":             {archive.Report{At: now, Error: "access is denied", Reason: "AccessDenied"}, metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "nothing is archived yet: AccessDenied: access is denied"},
		"all is well":                     {archive.Report{At: now, CoveredUntil: now.Add(-11 * time.Second), FirstRecoverable: now.Add(-time.Hour)}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "can be restored"},
		"a failover for a moment":         {archive.Report{At: now, CoveredUntil: now.Add(-time.Minute), FirstRecoverable: now.Add(-time.Hour), Error: "the primary does not take writes", Reason: "NoPrimary"}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "can be restored"},
		"a bucket that is not open":       {archive.Report{At: now, CoveredUntil: now.Add(-time.Hour), Error: "access is denied", Reason: "AccessDenied"}, metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "AccessDenied: access is denied"},
		"behind without an error":         {archive.Report{At: now, CoveredUntil: now.Add(-time.Hour)}, metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "not archived yet"},
		"a pod that is silent":            {archive.Report{At: now.Add(-time.Hour), CoveredUntil: now.Add(-time.Hour)}, metav1.ConditionFalse, v1alpha1.ReasonArchiveBehind, "has not reported"},
		"no base yet":                     {archive.Report{At: now, CoveredUntil: now, Start: archive.Start{BaseNeeded: true}}, metav1.ConditionFalse, v1alpha1.ReasonArchiveBaseNeeded, "no backup to begin with"},
		"a gap":                           {archive.Report{At: now, CoveredUntil: now, Start: archive.Start{BaseNeeded: true}, Gap: "uuid:7-9"}, metav1.ConditionFalse, v1alpha1.ReasonArchiveGap, "purged before they were archived: uuid:7-9"},
		"a loss":                          {archive.Report{At: now, CoveredUntil: now, Start: archive.Start{BaseNeeded: true}, Lost: "uuid:5"}, metav1.ConditionFalse, v1alpha1.ReasonArchiveGap, "lost by the cluster: uuid:5"},
		"a pod that has just begun":       {archive.Report{At: now, CoveredUntil: now}, metav1.ConditionUnknown, v1alpha1.ReasonArchiveStarting, "looked through"},
		"a bucket that refuses to delete": {archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now, Kept: "access is denied"}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "old segments stay: access is denied"},
		"not looked through for a moment": {archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now, Doubt: archive.Doubt{Unread: "the store is not available", UnreadSince: now.Add(-6 * time.Minute)}}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "can be restored"},
		"not looked through for long":     {archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now, Doubt: archive.Doubt{Unread: "the store is not available", UnreadSince: now.Add(-time.Hour)}}, metav1.ConditionFalse, v1alpha1.ReasonArchiveUnread, "whether segments are missing is not known"},
		"a time ahead":                    {archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now, TimeAhead: archive.TimeAhead{Ahead: "uuid:7 was archived", AheadSince: now.Add(-time.Minute)}}, metav1.ConditionFalse, v1alpha1.ReasonArchiveTimeAhead, "uuid:7 was archived"},
		"a time ahead long ago":           {archive.Report{At: now, CoveredUntil: now, FirstRecoverable: now, TimeAhead: archive.TimeAhead{Ahead: "uuid:7 was archived", AheadSince: now.Add(-2 * time.Hour)}}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "any moment"},
		"never looked through":            {archive.Report{At: now, CoveredUntil: now, Doubt: archive.Doubt{Unread: "access is denied", UnreadSince: now.Add(-time.Hour)}}, metav1.ConditionFalse, v1alpha1.ReasonArchiveUnread, "access is denied"},
		"a gap with its bridge":           {archive.Report{At: now, CoveredUntil: now, Gap: "uuid:7-9", FirstRecoverable: now}, metav1.ConditionTrue, v1alpha1.ReasonArchiving, "can be restored"},
	} {
		t.Run(name, func(t *testing.T) {
			a.reports(row.report)
			c := a.pass()
			if c == nil || c.Status != row.status || c.Reason != row.reason || !strings.Contains(c.Message, row.says) {
				t.Errorf("the condition is %+v", c)
			}
			if row.report.CoveredUntil.IsZero() != (testutil.CollectAndCount(a.r.Metrics.Archived) == 0) {
				t.Error("the metric is there without a time, or the other way round")
			} else if covered := float64(row.report.CoveredUntil.UnixMilli()) / 1000; covered > 0 && testutil.ToFloat64(a.r.Metrics.Archived) != covered {
				t.Errorf("the metric says %f instead of %f", testutil.ToFloat64(a.r.Metrics.Archived), covered)
			}
			first := a.cluster.Status.Backup.FirstRecoverablePoint
			if want := row.report.FirstRecoverable; want.IsZero() != (first == nil) || first != nil && (first.Time.Before(want) || first.Sub(want) > time.Second) {
				t.Errorf("the first recoverable point is %v instead of %v", first, want)
			}
		})
	}
}

// TestTheBucketsKeysAreMissed: without them no pod starts, and what is told is not only that it is silent.
func TestTheBucketsKeysAreMissed(t *testing.T) {
	a := newAnnals(t)
	a.pass()
	a.secret(map[string]string{"accessKeyID": "AKIA"})
	a.later(backups.DestinationFor)
	health := func() *metav1.Condition {
		return meta.FindStatusCondition(a.cluster.Status.Conditions, v1alpha1.ConditionBackupHealthy)
	}
	if c := a.pass(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonArchiveBehind || !strings.Contains(c.Message, "has no key secretAccessKey") {
		t.Errorf("of the archive: %+v", c)
	}
	if c := health(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonCredentialsMissing || !strings.Contains(c.Message, "Secret s3 has no key secretAccessKey") {
		t.Errorf("of the backups: %+v", c)
	}
	a.secret(map[string]string{"accessKeyID": "AKIA", "secretAccessKey": "x"})
	if c := a.pass(); c.Reason != v1alpha1.ReasonArchiveStarting || health().Reason != v1alpha1.ReasonNoBackupYet {
		t.Errorf("they are there: %+v, %+v", c, health())
	}
}

// TestAnArchiveGetsItsBase: one backup is taken, not two, and another only when that was in vain.
func TestAnArchiveGetsItsBase(t *testing.T) {
	a := newAnnals(t)
	a.clock = clocktesting.NewFakePassiveClock(time.Now())
	a.r.Clock = a.clock
	a.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.Backup.Schedules = []v1alpha1.BackupSchedule{{Name: "hourly", Cron: "0 * * * *", Method: v1alpha1.BackupMethodSnapshot}, {Name: "daily", Cron: "30 3 * * *"}}
	})
	a.pass()
	a.clock.SetTime(a.clock.Now().Add(time.Minute)) // the StatefulSet is as old as the API server says: what is reported is younger
	a.reports(archive.Report{At: a.clock.Now(), Start: archive.Start{BaseNeeded: true}, Error: "the bucket does not exist", Reason: "NoBucket"})
	a.pass()
	if got := a.bases(); len(got) != 0 {
		t.Fatalf("with a bucket that does not exist: %v", got)
	}
	const required = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"
	want := func(what string, n int) {
		t.Helper()
		a.reports(archive.Report{At: a.clock.Now(), Start: archive.Start{BaseNeeded: true, Required: required}})
		a.pass()
		a.pass()
		if got := a.bases(); len(got) != n {
			t.Fatalf("%s: %d backups", what, len(got))
		}
	}
	want("needed", 1)
	b := a.bases()[0]
	if b.Spec.ClusterName != "orders" || b.Spec.Method != v1alpha1.BackupMethodDump || b.Spec.Schedule != "" || b.Labels[v1alpha1.LabelComponent] != resources.ComponentArchive || !strings.HasPrefix(b.Name, "orders-base-") {
		t.Errorf("the base is %+v", b)
	}
	var job batchv1.Job
	a.look(b.Name)
	must(t, kube.Get(t.Context(), client.ObjectKey{Namespace: a.namespace, Name: backups.JobName(&b, "")}, &job))
	if told := resources.TaskOf(&job); !told.Base || told.Required != required {
		t.Errorf("its pod gets %+v", told)
	}
	a.clock.SetTime(a.clock.Now().Add(2 * time.Hour))
	want("while it runs, however long", 1)
	finish := func(phase v1alpha1.BackupPhase) {
		for _, b := range a.bases() {
			if !b.Done() {
				a.report(b.Name, func(st *v1alpha1.MySQLBackupStatus) {
					at := metav1.NewTime(a.clock.Now())
					st.Phase, st.CompletedAt = phase, &at
				})
			}
		}
	}
	finish(v1alpha1.BackupFailed)
	want("after a failed one", 2)
	finish(v1alpha1.BackupCompleted)
	want("right after a good one: the pod has not seen it yet", 2)
	a.put("snapshot", func(b *v1alpha1.MySQLBackup) { b.Spec.Method = v1alpha1.BackupMethodSnapshot })
	a.put("by-hand", nil)
	a.clock.SetTime(a.clock.Now().Add(2 * time.Hour))
	want("while a person's dump runs", 4)
}

// TestARestoreIsToldItsPoint: spec.bootstrap.recovery.pointInTime reaches the restoring pod as it was written.
func TestARestoreIsToldItsPoint(t *testing.T) {
	a := newAnnals(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	for i, point := range []v1alpha1.PointInTimeSpec{{Time: "2026-01-02T08:34:05.678901+05:30"}, {GTID: "3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23"}} {
		c := a.cluster.DeepCopy()
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{PointInTime: &point, ObjectStore: &v1alpha1.ObjectStoreSource{
			Destination: *c.Spec.Backup.Destination, Path: "shop/orders/uid"}}}
		told, err := a.r.restorer.RecoveryTask(t.Context(), &pass.Pass{Cluster: c}, topology.Recover{Member: "orders-0"})
		must(t, err)
		text, err := told.Encode()
		must(t, err)
		told, err = task.Decode(text)
		must(t, err)
		if i == 0 && (told.UntilTime == nil || !told.UntilTime.Equal(at) || told.UntilGTID != "") || i == 1 && (told.UntilGTID != point.GTID || told.UntilTime != nil) {
			t.Errorf("told is %s", text)
		}
	}
}
