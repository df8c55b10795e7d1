//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

// bucket is where backups go, and claim a volume of their namespace.
const bucket, claim = cloud.BackupBucket, "backups"

// vault is the namespace of a cluster that is backed up and lost, and of the one that is restored.
var (
	lost     = client.ObjectKey{Namespace: "vault", Name: "ledger"}
	restored = client.ObjectKey{Namespace: "vault", Name: "ledger2"}
)

// s3Client connects to the lab's S3, as a person with other tools would.
func s3Client() *s3.Client {
	return s3.New(s3.Options{
		Region: lab.Cloud.Region, BaseEndpoint: awssdk.String("http://" + cloud.EndpointAddress), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(iam.AdministratorKeyID, "lab", ""),
	})
}

func vaultCluster(t *testing.T, key client.ObjectKey, change func(*v1alpha1.MySQLClusterSpec)) {
	t.Helper()
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	cluster.Spec.Replicas = ptr.To(int32(2))
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	cluster.Spec.DeletionProtection = ptr.To(false)
	cluster.Spec.Storage.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	change(&cluster.Spec)
	if err := lab.Apply(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// stored are the scenarios with backups that ran.
var stored findings

// stageVault makes the namespace, the bucket and the Secret for it, unless an earlier scenario has made them.
func stageVault(t *testing.T) {
	t.Helper()
	stored.add(t.Name())
	ctx := t.Context()
	if err := lab.AllowLab(ctx, lost.Namespace); err != nil {
		t.Fatal(err)
	}
	if _, err := s3Client().HeadBucket(ctx, &s3.HeadBucketInput{Bucket: awssdk.String(bucket)}); err != nil {
		if _, err := s3Client().CreateBucket(ctx, &s3.CreateBucketInput{Bucket: awssdk.String(bucket)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lost.Namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lost.Namespace, Name: "s3"}, StringData: map[string]string{"accessKeyID": iam.BackupKeyID, "secretAccessKey": "lab"}},
	} {
		if err := lab.Client.Create(ctx, obj); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

func destination() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: bucket, Prefix: cloud.BackupPrefix, Endpoint: "http://" + cloud.EndpointAddress,
		CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3"},
	}}
}

// write runs statements on a cluster's primary.
func write(t *testing.T, key client.ObjectKey, statements string) {
	t.Helper()
	if _, err := lab.RunClient(t.Context(), key, fmt.Sprintf(`sql %s-primary.%s.svc "%s"`, key.Name, key.Namespace, statements)); err != nil {
		t.Fatal(err)
	}
}

// checksums are those of every table of the application, as its client sees them.
func checksums(t *testing.T, key client.ObjectKey) string {
	t.Helper()
	out, err := lab.RunClient(t.Context(), key, fmt.Sprintf(`sql %s-primary.%s.svc "CHECKSUM TABLE t, u; SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM u"`, key.Name, key.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Test15: two CronJobs fire in the same minute, the backups of both complete, one is verified, the cluster is deleted, and another is
// restored from the bucket alone. That one is backed up onto a claim, and this is verified too.
func Test15BackupOutlivesItsCluster(t *testing.T) {
	ctx := t.Context()
	stageVault(t)
	vaultCluster(t, lost, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Backup = &v1alpha1.BackupSpec{
			Schedules: []v1alpha1.BackupSchedule{
				{Name: "minutely", Cron: "* * * * *", TimeZone: "Africa/Nairobi", Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(2))}},
				{Name: "beside", Cron: "* * * * *", Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(2))}},
			},
			Destination: destination(), Image: kube.MySQLClientImage, Suspend: true,
			Verification:  &v1alpha1.VerificationSpec{Cron: "0 5 * * 0"},
			BinlogArchive: &v1alpha1.BinlogArchiveSpec{Enabled: false}, // Test16 is about it
		}
	})
	before, err := lab.WaitReady(ctx, lost, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(before))
	}
	if _, err := lab.RunClient(ctx, lost, fmt.Sprintf(`sql %s-primary.%s.svc "
CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200), b BLOB);
INSERT INTO t (v, b) VALUES ('o''brien \\\\ ;', 0x00ff27), (NULL, NULL);
INSERT INTO t (v, b) SELECT REPEAT('x', 100), b FROM t; INSERT INTO t (v, b) SELECT v, b FROM t; INSERT INTO t (v, b) SELECT v, b FROM t;
CREATE TABLE u (id INT PRIMARY KEY)"`, lost.Name, lost.Namespace)); err != nil {
		t.Fatal(err)
	}
	want := checksums(t, lost)
	unsuspend := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"backup":{"suspend":false}}}`))
	if err := lab.Client.Patch(ctx, &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: lost.Namespace, Name: lost.Name}}, unsuspend); err != nil {
		t.Fatal(err)
	}
	pair := awaitPair(t, "minutely", "beside")
	for _, b := range pair {
		logBackup(t, b)
		if b.Status.GTIDSet == "" || !strings.HasPrefix(b.Status.Checksum, "sha256:") || b.Status.Member == before.Status.Primary {
			t.Errorf("status %+v", b.Status)
		}
		manifest := destination().S3.Prefix + "/" + b.Status.Path + "/manifest.json"
		if _, err := s3Client().HeadObject(ctx, &s3.HeadObjectInput{Bucket: awssdk.String(bucket), Key: &manifest}); err != nil {
			t.Errorf("%s is not in the bucket: %v", manifest, err)
		}
	}
	if pair[0].Status.Path == pair[1].Status.Path {
		t.Errorf("two backups share %s", pair[0].Status.Path)
	}
	waitUpTo(t, readyTimeout, lost, "BackupHealthy", func() bool {
		var c v1alpha1.MySQLCluster
		return lab.Client.Get(ctx, lost, &c) == nil && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionBackupHealthy)
	})
	verifyNow(t, lost)
	path := fmt.Sprintf("%s/%s/%s", lost.Namespace, lost.Name, before.UID)
	if err := lab.Delete(ctx, lost, changeTimeout); err != nil {
		t.Fatal(err)
	}
	// Nothing of Kubernetes is left that knows of the backup.
	if err := lab.Client.DeleteAllOf(ctx, &v1alpha1.MySQLBackup{}, client.InNamespace(lost.Namespace)); err != nil {
		t.Fatal(err)
	}
	vaultCluster(t, restored, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Bootstrap = &v1alpha1.BootstrapSpec{Recovery: &v1alpha1.RecoverySpec{
			ObjectStore: &v1alpha1.ObjectStoreSource{Destination: *destination(), Path: path}, Image: kube.MySQLClientImage,
		}}
		spec.Backup = &v1alpha1.BackupSpec{
			Destination: &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: claim}}, Image: kube.MySQLClientImage,
			Verification: &v1alpha1.VerificationSpec{Cron: "0 5 * * 0"},
		}
	})
	c, err := lab.WaitReady(ctx, restored, readyTimeout, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionRecovered) {
		t.Errorf("conditions:\n%s", conditions(c))
	}
	if got := checksums(t, restored); got != want {
		t.Errorf("restored is\n%s\nand was\n%s", got, want)
	}
	backUpOntoClaim(t)
	if err := lab.Delete(ctx, restored, changeTimeout); err != nil {
		t.Fatal(err)
	}
	uploads, err := s3Client().ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: awssdk.String(bucket)})
	if err != nil || len(uploads.Uploads) > 0 {
		t.Errorf("uploads are left: %v, %v", uploads, err)
	}
}

// backUpOntoClaim takes a backup of the restored cluster by hand, onto a claim of its namespace, and has it verified.
func backUpOntoClaim(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	volume := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: restored.Namespace, Name: claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := lab.Client.Create(ctx, volume); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: restored.Namespace, Name: "onto-a-claim"}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: restored.Name}}
	if err := lab.Client.Create(ctx, b); err != nil {
		t.Fatal(err)
	}
	waitUpTo(t, readyTimeout, restored, "the backup onto the claim", func() bool {
		if err := lab.Client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		if b.Status.Phase == v1alpha1.BackupFailed {
			t.Fatalf("%s failed: %s: %s", b.Name, b.Status.Reason, b.Status.Message)
		}
		return b.Status.Phase == v1alpha1.BackupCompleted
	})
	logBackup(t, b)
	if want := "pvc://" + claim + "/" + b.Status.Path; b.Status.Location != want || b.Status.StoredBytes == 0 || b.Status.GTIDSet == "" {
		t.Errorf("it is at %s and not at %s: %+v", b.Status.Location, want, b.Status)
	}
	if verified := verifyNow(t, restored); verified != b.Name {
		t.Errorf("verified was %s", verified)
	}
	for _, object := range []client.Object{b, volume} { // the claim goes with the last pod that uses it
		if err := lab.Client.Delete(ctx, object); err != nil {
			t.Error(err)
		}
	}
}

// verifyNow has the newest backup of a cluster verified, because nobody waits for Sunday, and returns its name.
func verifyNow(t *testing.T, cluster client.ObjectKey) string {
	t.Helper()
	ctx := t.Context()
	if _, err := lab.Kubectl(ctx, "", "create", "job", "--namespace", cluster.Namespace, "--from=cronjob/"+cluster.Name+"-verify", cluster.Name+"-verify-now"); err != nil {
		t.Fatal(err)
	}
	name := ""
	waitUpTo(t, readyTimeout, cluster, "the verification", func() bool {
		for _, b := range backupsOf(t, cluster) {
			if v := b.Status.Verification; v != nil {
				if v.Result != v1alpha1.VerificationPassed || v.Tables == 0 || v.Checksums == 0 || b.Status.VerifiedAt == nil {
					t.Fatalf("the verification found %+v", v)
				}
				t.Logf("%s: %s", b.Name, v.Message)
				name = b.Name
			}
		}
		return name != ""
	})
	return name
}

func backupsOf(t *testing.T, cluster client.ObjectKey) []*v1alpha1.MySQLBackup {
	t.Helper()
	var list v1alpha1.MySQLBackupList
	if err := lab.Client.List(t.Context(), &list, client.InNamespace(cluster.Namespace)); err != nil {
		t.Fatal(err)
	}
	var found []*v1alpha1.MySQLBackup
	for i := range list.Items {
		if b := &list.Items[i]; b.Spec.ClusterName == cluster.Name {
			found = append(found, b)
		}
	}
	return found
}

func logBackup(t *testing.T, b *v1alpha1.MySQLBackup) {
	t.Helper()
	t.Logf("%s of %s: %s of %d bytes in %s from %s at %s", b.Name, b.Spec.ClusterName, b.Status.Size, b.Status.DataBytes, b.Status.Duration, b.Status.Member, b.Status.Location)
}

// awaitPair waits until two schedules have each completed the backup of one and the same minute, by which their Jobs are named. One
// that fails says why.
func awaitPair(t *testing.T, one, other string) [2]*v1alpha1.MySQLBackup {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	for ; ; time.Sleep(time.Second) {
		all := backupsOf(t, lost)
		completed := map[string]*v1alpha1.MySQLBackup{}
		for _, b := range all {
			switch b.Status.Phase {
			case v1alpha1.BackupCompleted:
				completed[b.Name] = b
			case v1alpha1.BackupFailed:
				t.Fatalf("%s failed: %s: %s", b.Name, b.Status.Reason, b.Status.Message)
			case v1alpha1.BackupPending, v1alpha1.BackupRunning:
			}
		}
		for name, b := range completed {
			minute, is := strings.CutPrefix(name, lost.Name+"-"+one+"-")
			if second := completed[lost.Name+"-"+other+"-"+minute]; is && second != nil {
				if b.Spec.Schedule != one || second.Spec.Schedule != other {
					t.Errorf("%s is of schedule %s, %s of %s", b.Name, b.Spec.Schedule, second.Name, second.Spec.Schedule)
				}
				return [2]*v1alpha1.MySQLBackup{b, second}
			}
		}
		if ctx.Err() != nil {
			var jobs batchv1.JobList
			_ = lab.Client.List(t.Context(), &jobs, client.InNamespace(lost.Namespace))
			t.Fatalf("no backups of one minute were completed; Jobs: %+v; backups: %+v", jobs.Items, all)
		}
	}
}
