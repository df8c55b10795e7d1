//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/archive"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// annals is a cluster whose binary logs are archived, and replayed the one that is restored from them.
var (
	annals   = client.ObjectKey{Namespace: "vault", Name: "annals"}
	replayed = client.ObjectKey{Namespace: "vault", Name: "replayed"}
)

// Test16: a base, writes, a switchover in which the archive's pod is lost too, more writes, a table dropped by mistake; then
// the cluster is deleted, and another is restored from the bucket to the moment before the mistake: first with a segment
// missing, which is refused by the names of the transactions, then exactly.
func Test16ArchiveReachesTheMomentBeforeTheMistake(t *testing.T) {
	ctx := t.Context()
	stageVault(t)
	vaultCluster(t, annals, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Backup = &v1alpha1.BackupSpec{Destination: destination(), Image: kube.MySQLClientImage} // a bucket has an archive by default
	})
	defer func() {
		if t.Failed() {
			diagnoseArchive(t)
		}
	}()
	c, err := lab.WaitReady(ctx, annals, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	began := time.Now()
	lap := func(what string) {
		t.Logf("%5.1fs %s", time.Since(began).Seconds(), what)
	}
	base := awaitBase(t, annals)
	lap("the base " + base.Name + " is complete")
	repairArchive(t)
	lap("the archive's pod is back")
	folder := archiveOf(t, annals, string(c.UID))
	archived := func(what string, set gtid.Set) {
		t.Helper()
		awaitAnnals(t, annals, what+" in the archive", func(*v1alpha1.MySQLCluster) bool {
			head, _, err := folder.Head(ctx, 0)
			return err == nil && head != nil && head.All().Contains(set)
		})
		lap(what + " is archived")
	}
	out, err := lab.RunClient(ctx, annals, fmt.Sprintf(`sql %s-primary.%s.svc "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40)); %s SELECT REPLACE(@@gtid_executed, '\n', '')"`, annals.Name, annals.Namespace, inserts(1, 10)))
	if err != nil {
		t.Fatal(err)
	}
	archived("what came first", gtid.MustParse(strings.TrimSpace(out)))
	handOver(t)
	lap("handed over")
	m := mistake(t)
	archived("all", m.end)
	awaitAnnals(t, annals, "a healthy archive", func(c *v1alpha1.MySQLCluster) bool {
		b := c.Status.Backup
		// From the base on: its time has whole seconds, and the point is rounded up to the next.
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionArchiveHealthy) && b != nil && b.LastGood == base.Name &&
			b.FirstRecoverablePoint != nil && !b.FirstRecoverablePoint.After(base.Status.CompletedAt.Add(2*time.Second))
	})
	lap("the archive is healthy")
	// The instance of the new cluster boots while the old cluster goes.
	if err := lab.Client.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
	restore := takeAway(t, folder, gtid.MustParse(base.Status.GTIDSet), m.before)
	vaultCluster(t, replayed, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Replicas = ptr.To[int32](1)
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{
			ObjectStore: &v1alpha1.ObjectStoreSource{Destination: *destination(), Path: backup.RootOf(annals.Namespace, annals.Name, string(c.UID))},
			PointInTime: &v1alpha1.PointInTimeSpec{Time: m.point}, Image: kube.MySQLClientImage,
		}}
	})
	if err := lab.Delete(ctx, annals, changeTimeout); err != nil {
		t.Fatal(err)
	}
	if err := lab.Client.DeleteAllOf(ctx, &v1alpha1.MySQLBackup{}, client.InNamespace(annals.Namespace)); err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t)
	lap("the cluster is gone")
	awaitAnnals(t, replayed, "the refusal", func(c *v1alpha1.MySQLCluster) bool {
		recovered := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionRecovered)
		if recovered == nil || recovered.Reason != v1alpha1.ReasonRecoveryFailed {
			return false
		}
		if !strings.Contains(recovered.Message, restore.missing) || !strings.Contains(recovered.Message, fmt.Sprintf("segment %d is not there", restore.number)) {
			t.Errorf("without %s the recovery says: %s", restore.missing, recovered.Message)
		}
		t.Logf("refused: %s", recovered.Message)
		return true
	})
	lap("refused")
	restore.putBack()
	job := resources.NamesOf(replayed.Name).Recovery
	if err := lab.Client.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: replayed.Namespace, Name: job}}, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	if c, err = lab.WaitReady(ctx, replayed, readyTimeout, nil); err != nil || !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionRecovered) {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	lap("restored")
	isExactly(t, m)
	// Other scenarios see to it that a cluster goes without a trace.
	if err := lab.Client.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// inserts are statements, each a transaction of its own.
func inserts(from, to int) string {
	var b strings.Builder
	for id := from; id <= to; id++ {
		fmt.Fprintf(&b, "INSERT INTO t VALUES (%d, 'row %[1]d'); ", id)
	}
	return b.String()
}

// awaitBase waits for the backup that the operator takes by itself, because the archive needs one to begin with.
func awaitBase(t *testing.T, key client.ObjectKey) *v1alpha1.MySQLBackup {
	t.Helper()
	var base *v1alpha1.MySQLBackup
	awaitAnnals(t, key, "the archive's base", func(*v1alpha1.MySQLCluster) bool {
		var list v1alpha1.MySQLBackupList
		if err := lab.Client.List(t.Context(), &list, client.InNamespace(key.Namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			b := &list.Items[i]
			if b.Spec.ClusterName == key.Name && b.Status.Phase == v1alpha1.BackupFailed {
				t.Fatalf("%s failed: %s: %s", b.Name, b.Status.Reason, b.Status.Message)
			}
			if b.Spec.ClusterName == key.Name && b.Status.Phase == v1alpha1.BackupCompleted {
				base = b
			}
		}
		return base != nil
	})
	return base
}

// handOver has the archive's pod lost while the primary changes.
func handOver(t *testing.T) {
	t.Helper()
	var c v1alpha1.MySQLCluster
	if err := lab.Client.Get(t.Context(), annals, &c); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Status.Members, func(m v1alpha1.MemberStatus) bool { return m.Name != c.Status.Primary })
	to := c.Status.Members[i].Name
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationSwitchover, to)
	if err := lab.Client.Patch(t.Context(), &c, client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: annals.Namespace, Name: resources.ArchiveName(annals.Name) + "-0"}}
	if err := lab.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	awaitAnnals(t, annals, "another primary", func(now *v1alpha1.MySQLCluster) bool { return now.Status.Primary == to && available(now) })
}

// mishap is what is known of a mistake: the moment right before it, what had been committed right before and right after
// that moment was read, and in the end.
type mishap struct {
	point              string
	before, after, end gtid.Set
}

// laterTransactions are those of the mistake: ten rows and the drop of their table.
const laterTransactions = 11

// mistake writes good rows, and then bad ones, and drops the table.
func mistake(t *testing.T) mishap {
	t.Helper()
	out, err := lab.RunClient(t.Context(), annals, fmt.Sprintf(`host=%s-primary.%s.svc
for try in $(seq 60); do sql $host "DO 1" && break; sleep 1; done
sql $host "%s SELECT REPLACE(@@gtid_executed, '\n', ''); SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%%Y-%%m-%%dT%%H:%%i:%%s.%%fZ'); SELECT REPLACE(@@gtid_executed, '\n', '');
%s DROP TABLE t; SELECT REPLACE(@@gtid_executed, '\n', '')"`, annals.Name, annals.Namespace, inserts(11, 20), inserts(21, 30)))
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Fields(out)
	if len(said) < 4 {
		t.Fatalf("the client printed:\n%s", out)
	}
	said = said[len(said)-4:]
	t.Logf("the point is %s, after %s", said[1], said[0])
	return mishap{said[1], gtid.MustParse(said[0]), gtid.MustParse(said[2]), gtid.MustParse(said[3])}
}

// archiveOf is a cluster's archive in the bucket.
func archiveOf(t *testing.T, key client.ObjectKey, uid string) archive.Folder {
	t.Helper()
	s, err := store.NewS3(t.Context(), store.S3Options{
		Bucket: bucket, Prefix: cloud.BackupPrefix, Region: lab.Cloud.Region, Endpoint: "http://" + cloud.EndpointAddress, AccessKeyID: iam.BackupKeyID, SecretAccessKey: "lab",
	})
	if err != nil {
		t.Fatal(err)
	}
	return archive.Folder{Place: backup.Place{Store: s, Root: backup.RootOf(key.Namespace, key.Name, uid)}}
}

// taken is a segment that was taken out of the archive.
type taken struct {
	number  uint64
	missing string
	putBack func()
}

// takeAway takes the first segment out of the archive that the base does not hold.
func takeAway(t *testing.T, folder archive.Folder, base, before gtid.Set) taken {
	t.Helper()
	numbers, err := folder.Numbers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range numbers {
		h, err := folder.Header(t.Context(), number)
		if err != nil {
			t.Fatal(err)
		}
		missing := h.Own().Subtract(base)
		if missing.IsEmpty() {
			continue
		}
		if number == numbers[len(numbers)-1] || !before.Contains(h.All()) {
			t.Fatalf("the point is in the first segment of %v after the base", numbers)
		}
		key := awssdk.String(fmt.Sprintf("team/mysql/%s/archive/%020d.seg", folder.Root, number))
		object, err := s3Client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: awssdk.String(bucket), Key: key})
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(object.Body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s3Client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: awssdk.String(bucket), Key: key}); err != nil {
			t.Fatal(err)
		}
		t.Logf("of the segments %v, %d is taken away, with %s", numbers, number, missing)
		return taken{number, missing.String(), func() {
			if _, err := s3Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: awssdk.String(bucket), Key: key, Body: bytes.NewReader(content)}); err != nil {
				t.Fatal(err)
			}
		}}
	}
	t.Fatalf("no segment of %v holds more than the base", numbers)
	return taken{}
}

// isExactly compares what was restored with what was there at the point.
func isExactly(t *testing.T, m mishap) {
	t.Helper()
	out, err := lab.RunClient(t.Context(), replayed, fmt.Sprintf(`sql %s-primary.%s.svc "SELECT REPLACE(@@gtid_executed, '\n', ''); SELECT GROUP_CONCAT(id, ' is ', v ORDER BY id SEPARATOR '; ') FROM t"`, replayed.Name, replayed.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	executed, rows, _ := strings.Cut(strings.TrimSpace(out), "\n")
	var want []string
	for id := 1; id <= 20; id++ {
		want = append(want, fmt.Sprintf("%d is row %[1]d", id))
	}
	if rows != strings.Join(want, "; ") {
		t.Errorf("the rows are %s", rows)
	}
	have := gtid.MustParse(executed)
	if !have.Contains(m.before) {
		t.Errorf("missing are %s", m.before.Subtract(have))
	}
	// One write of the operator itself may have been on its way to its acknowledgement.
	if more := have.Intersect(m.end).Subtract(m.after); more.Count() > 1 {
		t.Errorf("%s came after the point", more)
	}
	if later := m.end.Subtract(have); later.Count() < laterTransactions {
		t.Errorf("of what came later only %s are not there", later)
	}
	t.Logf("restored are %s, of %s", executed, m.end)
}

// nothingIsLeft of the archive but what is in the bucket.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	awaitAnnals(t, annals, "the end of the archive's pod and claim", func(*v1alpha1.MySQLCluster) bool {
		out, err := lab.Kubectl(t.Context(), "", "get", "statefulsets,pods,persistentvolumeclaims,configmaps,secrets,serviceaccounts,roles,rolebindings",
			"--namespace", annals.Namespace, "--selector", v1alpha1.LabelCluster+"="+annals.Name, "--output", "name")
		return err == nil && strings.TrimSpace(out) == ""
	})
}

// repairArchive names a Secret that does not exist, and then the right one: the pod that never became ready is replaced by itself.
func repairArchive(t *testing.T) {
	t.Helper()
	for _, step := range []struct {
		secret string
		runs   bool
	}{{"absent", false}, {"s3", true}} {
		patch := fmt.Sprintf(`{"spec":{"backup":{"destination":{"s3":{"credentialsSecretRef":{"name":%q}}}}}}`, step.secret)
		c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: annals.Namespace, Name: annals.Name}}
		if err := lab.Client.Patch(t.Context(), c, client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
			t.Fatal(err)
		}
		awaitAnnals(t, annals, "the archive's pod with the Secret "+step.secret, func(*v1alpha1.MySQLCluster) bool {
			var pod corev1.Pod
			key := client.ObjectKey{Namespace: annals.Namespace, Name: resources.ArchiveName(annals.Name) + "-0"}
			if lab.Client.Get(t.Context(), key, &pod) != nil {
				return false
			}
			mounts := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				return v.Projected != nil && len(v.Projected.Sources) > 0 && v.Projected.Sources[0].Secret != nil && v.Projected.Sources[0].Secret.Name == step.secret
			})
			return mounts && (pod.Status.Phase == corev1.PodRunning) == step.runs
		})
	}
}

// awaitAnnals waits for what happens around a cluster. Where it does not, it says how the cluster is.
func awaitAnnals(t *testing.T, key client.ObjectKey, what string, done func(*v1alpha1.MySQLCluster) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), changeTimeout)
	defer cancel()
	for {
		var c v1alpha1.MySQLCluster
		if err := lab.Client.Get(ctx, key, &c); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		if done(&c) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s\n%s", what, conditions(&c))
		case <-time.After(time.Second):
		}
	}
}

// diagnoseArchive prints what a person would look at.
func diagnoseArchive(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	lab.Diagnose(ctx, os.Stderr, annals)
	lab.Diagnose(ctx, os.Stderr, replayed)
	for _, args := range [][]string{
		{"describe", "pod", resources.ArchiveName(annals.Name) + "-0"},
		{"logs", resources.ArchiveName(annals.Name) + "-0", "--tail=60"},
		{"get", "mysqlbackups,jobs,pods,persistentvolumeclaims,configmaps", "--output", "wide"},
		{"get", "configmap", resources.ArchiveName(annals.Name), "--output", "yaml"},
		{"logs", "--selector", "job-name=" + replayed.Name + "-recovery", "--tail=60", "--all-containers"},
	} {
		out, err := lab.Kubectl(ctx, "", append(args, "--namespace", annals.Namespace)...)
		fmt.Fprintf(os.Stderr, "\nkubectl %s: %v\n%s\n", strings.Join(args, " "), err, out)
	}
}
