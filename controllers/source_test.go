package controllers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/restore"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
)

// estate is an account in which a cluster that is gone has left a volume of 12 GiB and a snapshot of it behind.
type estate struct {
	*world
	volume, snapshot string
}

// originalTags are the tags of what is left behind, by a namespace.
func originalTags(namespace string, more map[string]string) []types.Tag {
	tags := map[string]string{v1alpha1.TagClusterUID: "gone", v1alpha1.TagNamespace: namespace, v1alpha1.TagMember: "orders-2", v1alpha1.TagMySQLVersion: "9.7.3"}
	maps.Copy(tags, more)
	var out []types.Tag
	for key, value := range tags {
		if value != "" {
			out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(value)})
		}
	}
	return out
}

// newEstate makes what is left behind, with more tags (an empty one leaves it out), and then a cluster that change may have
// restore from it.
func newEstate(t *testing.T, more map[string]string, change func(*estate, *v1alpha1.MySQLCluster)) *estate {
	t.Helper()
	e := &estate{world: &world{t: t, account: newAccount(t, serial.Add(1)), clock: clocktesting.NewFakePassiveClock(time.Now())}}
	if uid, said := more[v1alpha1.TagClusterUID]; said && uid == "" { // as docs/aws.md says of what the operator did not make
		e.besides = []iam.Statement{{Effect: "Allow", Action: iam.OneOrMany{"ec2:CreateSnapshot"}, Resource: iam.OneOrMany{"arn:aws:ec2:*:*:volume/*"}}}
	}
	makeWorld(e.world, func(c *v1alpha1.MySQLCluster) {
		ctx, api, tags := t.Context(), e.account.api, originalTags(c.Namespace, more)
		specification := func(kind types.ResourceType, more ...types.Tag) []types.TagSpecification {
			return []types.TagSpecification{{ResourceType: kind, Tags: append(slices.Clone(tags), more...)}}
		}
		v, err := api.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String(moto.Zones[0].Name), Size: aws.Int32(12), TagSpecifications: specification(types.ResourceTypeVolume)})
		must(t, err)
		e.volume = aws.ToString(v.VolumeId)
		e.await("the volume", func() bool { return e.stateOf(e.volume) == inventory.VolumeAvailable })
		purpose := types.Tag{Key: aws.String(awsapi.TagPurpose), Value: aws.String("final-1")}
		s, err := api.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: v.VolumeId, TagSpecifications: specification(types.ResourceTypeSnapshot, purpose)})
		must(t, err)
		e.snapshot = aws.ToString(s.SnapshotId)
		size := resource.MustParse("20Gi")
		c.Spec.Storage.Size = &size
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{SnapshotID: e.snapshot}}
		if change != nil {
			change(e, c)
		}
	})
	return e
}

// await waits in real time.
func (e *estate) await(what string, done func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(motoDelay) {
		if time.Now().After(deadline) {
			e.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (e *estate) stateOf(volume string) string {
	found, err := e.account.api.DescribeVolumes(e.t.Context(), &awsec2.DescribeVolumesInput{VolumeIds: []string{volume}})
	must(e.t, err)
	return string(found.Volumes[0].State)
}

// inherited are the volumes of the cluster that were made from a snapshot, with the snapshot's volume, by member.
func (e *estate) inherited() map[string]string {
	e.t.Helper()
	found, err := e.account.api.DescribeVolumes(e.t.Context(), &awsec2.DescribeVolumesInput{Filters: []types.Filter{{Name: aws.String("tag:" + v1alpha1.TagClusterUID), Values: []string{string(e.cluster.UID)}}}})
	must(e.t, err)
	from := map[string]string{}
	for _, v := range found.Volumes {
		if aws.ToString(v.SnapshotId) == "" || tagOf(v.Tags, awsapi.TagPurpose) == "root" {
			continue
		}
		if tagOf(v.Tags, v1alpha1.TagRecovery) != v1alpha1.RecoveryPending || aws.ToInt32(v.Size) != 20 || tagOf(v.Tags, v1alpha1.TagMySQLVersion) != "9.7.4" {
			e.t.Errorf("volume %s has %d GiB and the tags %v", aws.ToString(v.VolumeId), aws.ToInt32(v.Size), v.Tags)
		}
		member := tagOf(v.Tags, v1alpha1.TagMember)
		if from[member] != "" {
			e.t.Errorf("%s has two volumes from snapshots", member)
		}
		from[member] = aws.ToString(v.SnapshotId)
	}
	return from
}

// archiveOfGone is the archive of the cluster that left the estate behind.
func archiveOfGone(c *v1alpha1.MySQLCluster) *v1alpha1.ArchiveSource {
	return &v1alpha1.ArchiveSource{Destination: v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}, Path: c.Namespace + "/gone/gone"}
}

// TestTheArchiveOfACopyIsFound: where the spec names it, or where the MySQLBackup of the snapshot does; the spec comes first. It is
// remembered with the snapshot, in case the MySQLBackup goes.
func TestTheArchiveOfACopyIsFound(t *testing.T) {
	t.Parallel()
	point := &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05Z"}
	named := func(e *estate, c *v1alpha1.MySQLCluster) {
		backupName(e, c, func(b *v1alpha1.MySQLBackup) { archived(e, c, b) })
	}
	for name, r := range map[string]struct {
		change func(*estate, *v1alpha1.MySQLCluster)
		path   string
	}{
		"the spec's": {func(_ *estate, c *v1alpha1.MySQLCluster) {
			c.Spec.Bootstrap.Recovery.PointInTime, c.Spec.Bootstrap.Recovery.Archive = point, archiveOfGone(c)
		}, "/gone/gone"},
		"the backup's": {func(e *estate, c *v1alpha1.MySQLCluster) {
			named(e, c)
			c.Spec.Bootstrap.Recovery.PointInTime = point
		}, "/gone/gone"},
		"both": {func(e *estate, c *v1alpha1.MySQLCluster) {
			named(e, c)
			c.Spec.Bootstrap.Recovery.PointInTime, c.Spec.Bootstrap.Recovery.Archive = point, archiveOfGone(c)
			c.Spec.Bootstrap.Recovery.Archive.Path = c.Namespace + "/gone/elsewhere"
		}, "/gone/elsewhere"},
		"none, for no point": {named, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, nil, r.change)
			o := e.newOperator(nil)
			e.drive(o, patience, func() bool { return len(e.inherited()) == 1 })
			records, path := e.seen(o).Records(), ""
			if records.SourceArchive != nil {
				path = strings.TrimPrefix(records.SourceArchive.Path, e.cluster.Namespace)
			}
			if records.Source != e.snapshot || path != r.path {
				t.Errorf("remembered are %s and the archive %q", records.Source, path)
			}
		})
	}
}

// archived has the operator record where the archive of a snapshot's cluster is.
func archived(e *estate, c *v1alpha1.MySQLCluster, b *v1alpha1.MySQLBackup) {
	e.t.Helper()
	a := archiveOfGone(c)
	status := b.Status
	recordPlace(e.t, e.system, b, v1alpha1.ObjectStoreSource{Destination: a.Destination, Path: a.Path})
	b.Status = status
	b.Status.Archive = a
}

func backupName(e *estate, c *v1alpha1.MySQLCluster, change func(*v1alpha1.MySQLBackup)) {
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "nightly"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "gone", Method: v1alpha1.BackupMethodSnapshot}}
	must(e.t, kube.Create(e.t.Context(), b))
	_, err := e.account.api.CreateTags(e.t.Context(), &awsec2.CreateTagsInput{Resources: []string{e.snapshot}, Tags: []types.Tag{{Key: aws.String(awsapi.TagPurpose), Value: aws.String(pass.PurposeOf(b))}}})
	must(e.t, err)
	b.Status = v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupCompleted, Version: "9.7.3", ClusterUID: "gone", BackupSnapshot: v1alpha1.BackupSnapshot{SnapshotID: e.snapshot}}
	if change != nil {
		change(b)
	}
	must(e.t, kube.Status().Update(e.t.Context(), b))
	c.Spec.Bootstrap.Recovery = &v1alpha1.RecoverySpec{BackupName: "nightly"}
}

func volumeID(e *estate, c *v1alpha1.MySQLCluster) {
	c.Spec.Bootstrap.Recovery = &v1alpha1.RecoverySpec{VolumeID: e.volume}
}

// TestWhatAClusterMayBeginWith: one member, and no other, gets a volume from what was left behind.
func TestWhatAClusterMayBeginWith(t *testing.T) {
	t.Parallel()
	listed := "namespaces: {\"*\": {operatorCredentials: true, images: [\"*\"], subnets: [\"*\"], snapshots: [\"snap-*\"], volumes: [\"vol-*\"]}}\n"
	for name, r := range map[string]struct {
		tags   map[string]string
		change func(*estate, *v1alpha1.MySQLCluster)
		policy string
		copied bool // a snapshot of the cluster's own comes in between
	}{
		"a snapshot":                       {},
		"a snapshot of unknown version":    {tags: map[string]string{v1alpha1.TagMySQLVersion: ""}},
		"a snapshot of the series before":  {tags: map[string]string{v1alpha1.TagMySQLVersion: "8.4.9"}},
		"a backup":                         {change: func(e *estate, c *v1alpha1.MySQLCluster) { backupName(e, c, nil) }},
		"a volume":                         {change: volumeID, copied: true},
		"another's snapshot, with leave":   {tags: map[string]string{v1alpha1.TagNamespace: "other"}, policy: listed},
		"a volume without tag, with leave": {tags: map[string]string{v1alpha1.TagNamespace: "", v1alpha1.TagClusterUID: ""}, policy: listed, change: volumeID, copied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, r.tags, r.change)
			if r.policy != "" {
				e.policy(r.policy)
			}
			o := e.newOperator(nil)
			e.drive(o, patience, e.phaseIs(v1alpha1.PhaseEC2Ready))
			from := e.inherited()
			if len(from) != 1 || from["orders-0"] == "" || (from["orders-0"] == e.snapshot) == r.copied {
				t.Errorf("the volumes are made from %v, the snapshot is %s", from, e.snapshot)
			}
			if text := e.condition(v1alpha1.ConditionRecovered); !strings.HasPrefix(text, "False/Recovering: orders-0 has volume vol-") {
				t.Errorf("it is told: %s", text)
			}
			if e.stateOf(e.volume) != inventory.VolumeAvailable {
				t.Error("the volume that was left behind is in use")
			}
			e.delete()
			e.drive(o, patience, e.gone)
			l := e.left()
			if !slices.Equal(idsOf(l.volumes, ""), []string{e.volume}) || len(l.instances)+len(l.groups) > 0 || !e.snapshotExists(e.snapshot) ||
				slices.ContainsFunc(l.snapshots, func(s thing) bool { return s.owner == string(e.cluster.UID) }) {
				t.Errorf("left are %+v", l)
			}
		})
	}
}

// TestWhatAClusterMayNotBeginWith: nothing at all is made, and the conditions say what to change.
func TestWhatAClusterMayNotBeginWith(t *testing.T) {
	t.Parallel()
	small := func(_ *estate, c *v1alpha1.MySQLCluster) {
		size := resource.MustParse("11Gi")
		c.Spec.Storage.Size = &size
	}
	recovery := func(r v1alpha1.RecoverySpec) func(*estate, *v1alpha1.MySQLCluster) {
		return func(_ *estate, c *v1alpha1.MySQLCluster) { c.Spec.Bootstrap.Recovery = &r }
	}
	for name, r := range map[string]struct {
		tags   map[string]string
		change func(*estate, *v1alpha1.MySQLCluster)
		says   string
	}{
		"a larger snapshot":        {change: small, says: "spec.storage.size: snapshot snap-"},
		"a larger volume":          {change: func(e *estate, c *v1alpha1.MySQLCluster) { small(e, c); volumeID(e, c) }, says: "set it to 12Gi at least"},
		"of a newer MySQL":         {tags: map[string]string{v1alpha1.TagMySQLVersion: "9.7.5"}, says: "set spec.version to 9.7.5 or later"},
		"a volume of a newer one":  {tags: map[string]string{v1alpha1.TagMySQLVersion: "9.7.5"}, change: volumeID, says: "set spec.version to 9.7.5 or later"},
		"of another namespace":     {tags: map[string]string{v1alpha1.TagNamespace: "other"}, says: "spec.bootstrap.recovery.snapshotID: snap-"},
		"of nobody":                {tags: map[string]string{v1alpha1.TagNamespace: ""}, says: ".snapshots: ["},
		"another's volume":         {tags: map[string]string{v1alpha1.TagNamespace: "other"}, change: volumeID, says: ".volumes: ["},
		"a snapshot that is gone":  {change: recovery(v1alpha1.RecoverySpec{SnapshotID: "snap-0a1b2c3d4e5f60718"}), says: "no snapshot snap-0a1b2c3d4e5f60718 in us-east-1"},
		"a volume that is gone":    {change: recovery(v1alpha1.RecoverySpec{VolumeID: "vol-0a1b2c3d4e5f60718"}), says: "no data volume vol-0a1b2c3d4e5f60718 in us-east-1"},
		"a backup that is missing": {change: recovery(v1alpha1.RecoverySpec{BackupName: "nightly"}), says: "there is no MySQLBackup nightly"},
		"a backup that failed": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, func(b *v1alpha1.MySQLBackup) { b.Status.Phase = v1alpha1.BackupFailed })
		}, says: "MySQLBackup nightly failed, so there is nothing to restore"},
		"a backup to a moment": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, nil)
			c.Spec.Bootstrap.Recovery.PointInTime = &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05Z"}
		}, says: "MySQLBackup nightly is a snapshot, which holds one moment only, and its annotation mysql.alx.ke/place does not say where the binary logs of its cluster are archived"},
		"a backup whose archive is another's": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, func(b *v1alpha1.MySQLBackup) {
				b.Status.Archive = &v1alpha1.ArchiveSource{Destination: v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: "my-backups"}}, Path: "other/gone/gone"}
			})
			c.Spec.Bootstrap.Recovery.PointInTime = &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05Z"}
		}, says: "does not say where the binary logs of its cluster are archived"},
		"a backup whose archive the pods report": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, func(b *v1alpha1.MySQLBackup) { b.Status.Archive = archiveOfGone(c) })
			c.Spec.Bootstrap.Recovery.PointInTime = &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05Z"}
		}, says: "does not say where the binary logs of its cluster are archived"},
		"a dump and an archive": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "dump"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "gone"}}
			must(e.t, kube.Create(e.t.Context(), b))
			b.Status = v1alpha1.MySQLBackupStatus{Phase: v1alpha1.BackupCompleted}
			must(e.t, kube.Status().Update(e.t.Context(), b))
			c.Spec.Bootstrap.Recovery = &v1alpha1.RecoverySpec{BackupName: b.Name, PointInTime: &v1alpha1.PointInTimeSpec{Time: "2026-01-02T03:04:05Z"}, Archive: archiveOfGone(c)}
		}, says: "spec.bootstrap.recovery.archive: MySQLBackup dump is a dump, whose archive is beside it"},
		"a backup of another's snapshot": {tags: map[string]string{v1alpha1.TagNamespace: "other"}, change: func(e *estate, c *v1alpha1.MySQLCluster) { backupName(e, c, nil) }, says: "no snapshot of MySQLBackup nightly"},
		"a backup that names another snapshot": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, func(b *v1alpha1.MySQLBackup) { b.Status.SnapshotID = "snap-0a1b2c3d4e5f60718" })
		}, says: "no snapshot of MySQLBackup nightly"},
		"a backup of another cluster": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			backupName(e, c, func(b *v1alpha1.MySQLBackup) { b.Status.ClusterUID = "another" })
		}, says: "no snapshot of MySQLBackup nightly"},
		"a volume in use": {change: func(e *estate, c *v1alpha1.MySQLCluster) {
			run, err := e.account.api.RunInstances(e.t.Context(), &awsec2.RunInstancesInput{ImageId: aws.String(e.account.image), InstanceType: "m6i.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(e.account.subnets[0])})
			must(e.t, err)
			e.await("the instance", func() bool {
				_, err := e.account.api.AttachVolume(e.t.Context(), &awsec2.AttachVolumeInput{VolumeId: aws.String(e.volume), InstanceId: run.Instances[0].InstanceId, Device: aws.String(ec2.DataDevice)})
				return err == nil
			})
			volumeID(e, c)
		}, says: "is attached to instance i-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, r.tags, r.change)
			o := e.newOperator(nil)
			e.drive(o, patience, e.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", r.says))
			e.follow(o, 3)
			if text := e.condition(v1alpha1.ConditionDegraded); !strings.Contains(text, r.says) {
				t.Errorf("Degraded is %s", text)
			}
			for _, action := range []string{"CreateVolume", "CreateSnapshot", "RunInstances", "CreateSecurityGroup"} {
				if n := e.called(action); n > 0 {
					t.Errorf("%s was called %d times", action, n)
				}
			}
			e.delete()
			e.drive(o, patience, e.gone)
		})
	}
}

// called counts the calls of an action that did not only try whether it is allowed.
func (e *estate) called(action string) int {
	n := 0
	for _, call := range e.proxy.Calls() {
		if call.Action == action && !call.DryRun {
			n++
		}
	}
	return n
}

// up says whether every member has its instance, with its volume.
func (e *estate) up() bool {
	attached := 0
	for _, v := range e.left().volumes {
		if v.owner == string(e.cluster.UID) && v.of != "" {
			attached++
		}
	}
	return e.phaseIs(v1alpha1.PhaseEC2Ready)() && attached == members
}

// TestTheSourceIsLookedAtAgain: what was wrong is put right, and the cluster begins; one that is not whole yet is waited for.
func TestTheSourceIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	e := newEstate(t, map[string]string{v1alpha1.TagNamespace: "other"}, nil)
	o := e.newOperator(nil)
	e.drive(o, patience, e.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", ".snapshots: ["))
	e.policy("namespaces: {\"*\": {operatorCredentials: true, images: [\"*\"], subnets: [\"*\"], snapshots: [\"" + e.snapshot + "\"]}}\n")
	e.drive(o, patience, func() bool { return len(e.inherited()) == 1 })
	s := e.seen(o)
	s.Observed.Source = topology.Source{}
	restore.JudgeSnapshot(s, inventory.Snapshot{ID: "snap-1", State: inventory.SnapshotPending, Progress: "40%", Tags: map[string]string{v1alpha1.TagNamespace: e.cluster.Namespace}}, "")
	if why := s.Observed.Source.Why; why.Reason != v1alpha1.ReasonRecovering || !strings.Contains(why.Message, "40%") || s.Observed.Source.Final {
		t.Errorf("a snapshot that is not whole: %+v", s.Observed.Source)
	}
	restore.JudgeSnapshot(s, inventory.Snapshot{ID: "snap-1", State: inventory.SnapshotError, Tags: map[string]string{v1alpha1.TagNamespace: e.cluster.Namespace}}, "")
	if !s.Observed.Source.Final {
		t.Errorf("a snapshot that failed: %+v", s.Observed.Source)
	}
}

// TestADumpIsRestoredWithoutItsBackup: once a restore of a dump has a server to go into, nobody asks for the MySQLBackup any
// more; before, nothing is made.
func TestADumpIsRestoredWithoutItsBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{BackupName: "nightly"}}
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionRecovered, "False/RecoveryFailed", "there is no MySQLBackup nightly"))
	if l := w.left(); len(l.volumes) > 0 {
		t.Errorf("made are %+v", l)
	}
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "nightly"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "gone"}}
	must(t, kube.Create(t.Context(), b))
	b.Status.Phase = v1alpha1.BackupCompleted
	must(t, kube.Status().Update(t.Context(), b))
	w.drive(o, patience, w.machinesUp)
	must(t, kube.Delete(t.Context(), b))
	w.follow(o, 3)
	if text := w.condition(v1alpha1.ConditionRecovered); !strings.HasPrefix(text, "False/Recovering: ") {
		t.Errorf("it is told: %s", text)
	}
}

// TestCrashSweepOverACopy kills the operator before and after each call to AWS by which a cluster is given the copy of a volume,
// and loses the answer of each: one snapshot is taken of it, and one volume made from that.
func TestCrashSweepOverACopy(t *testing.T) {
	t.Parallel()
	share, seed := intFrom(t, sweepShareVariable, 8), intFrom(t, sweepSeedVariable, int(time.Now().Unix()))
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	live := func(t *testing.T, s *scissors) {
		e := newEstate(t, nil, volumeID)
		o := e.newOperator(func(next http.RoundTripper) http.RoundTripper { s.next = next; return s })
		s.operator = o
		e.drive(o, patience, func() bool { return o.dead.Load() || e.up() })
		if o.dead.Load() {
			e.drive(e.newOperator(nil), patience, e.up)
		}
		own := 0
		for _, taken := range e.left().snapshots {
			if taken.owner == string(e.cluster.UID) {
				own++
			}
		}
		if from := e.inherited(); len(from) != 1 || own != 1 || len(e.left().volumes) != members+1 {
			t.Errorf("volumes from snapshots %v, own snapshots %d, left %+v", from, own, e.left())
		}
	}
	whole := &scissors{}
	t.Run("uncut", func(t *testing.T) { live(t, whole) })
	calls, tried := whole.sent(), 0
	for _, at := range placesOf(calls) {
		for _, how := range cuts {
			if random.IntN(share) != 0 {
				continue
			}
			tried++
			t.Run(fmt.Sprintf("%s %s", how, at), func(t *testing.T) {
				t.Parallel()
				s := &scissors{at: at, how: how}
				live(t, s)
				t.Logf("%s %s", how, s.cutCall())
			})
		}
	}
	t.Logf("%d calls to AWS (%v), %d cuts tried, seed %d (repeat with %s=%d)", len(calls), calls, tried, seed, sweepSeedVariable, seed)
}

// TestAVolumeTellsWhatOpenedIt: the tag by which a later cluster knows whether it can read a volume is put right.
func TestAVolumeTellsWhatOpenedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	id := w.dataVolumes()[0]
	version := func() string {
		found, err := w.account.api.DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{VolumeIds: []string{id}})
		must(t, err)
		return tagOf(found.Volumes[0].Tags, v1alpha1.TagMySQLVersion)
	}
	if got := version(); got != "9.7.4" {
		t.Fatalf("it tells of %q", got)
	}
	_, err := w.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(v1alpha1.TagMySQLVersion), Value: aws.String("9.7.1")}}})
	must(t, err)
	w.drive(o, patience, func() bool { w.wait(time.Minute); return version() == "9.7.4" })
}
