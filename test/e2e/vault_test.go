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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
)

const bucket = "lab-backups"

// vault is the namespace of a cluster that is backed up and lost, and of the one that is restored.
var (
	lost     = client.ObjectKey{Namespace: "vault", Name: "ledger"}
	restored = client.ObjectKey{Namespace: "vault", Name: "ledger2"}
)

// s3Client connects to the lab's S3, as a person with other tools would.
func s3Client() *s3.Client {
	return s3.New(s3.Options{
		Region: lab.Cloud.Region, BaseEndpoint: awssdk.String("http://" + cloud.EndpointAddress), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("lab", "lab", ""),
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

// stageVault makes the namespace, the bucket and the Secret for it, unless an earlier scenario has made them.
func stageVault(t *testing.T) {
	t.Helper()
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
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lost.Namespace, Name: "s3"}, StringData: map[string]string{"accessKeyID": "lab", "secretAccessKey": "lab"}},
	} {
		if err := lab.Client.Create(ctx, obj); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

func destination() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: bucket, Prefix: "team/mysql", Endpoint: "http://" + cloud.EndpointAddress,
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

// Test15: the CronJob fires, the backup completes and is verified, the cluster is deleted, and another is restored from the bucket alone.
func Test15BackupOutlivesItsCluster(t *testing.T) {
	ctx := t.Context()
	stageVault(t)
	vaultCluster(t, lost, func(spec *v1alpha1.MySQLClusterSpec) {
		spec.Backup = &v1alpha1.BackupSpec{
			Schedules:   []v1alpha1.BackupSchedule{{Name: "minutely", Cron: "* * * * *", TimeZone: "Africa/Nairobi", Retention: v1alpha1.RetentionSpec{Count: ptr.To(int32(2))}}},
			Destination: destination(), Image: kube.MySQLClientImage, Suspend: true,
			Verification: &v1alpha1.VerificationSpec{Cron: "0 5 * * 0"},
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
	b := awaitBackup(t)
	t.Logf("%s of %s: %s of %d bytes in %s from %s at %s", b.Name, b.Spec.ClusterName, b.Status.Size, b.Status.DataBytes, b.Status.Duration, b.Status.Member, b.Status.Location)
	if b.Spec.Schedule != "minutely" || b.Status.GTIDSet == "" || !strings.HasPrefix(b.Status.Checksum, "sha256:") || b.Status.Member == before.Status.Primary {
		t.Errorf("status %+v", b.Status)
	}
	waitUpTo(t, readyTimeout, lost, "BackupHealthy", func() bool {
		var c v1alpha1.MySQLCluster
		return lab.Client.Get(ctx, lost, &c) == nil && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionBackupHealthy)
	})
	// Nobody waits for Sunday.
	if _, err := lab.Kubectl(ctx, "", "create", "job", "--namespace", lost.Namespace, "--from=cronjob/"+lost.Name+"-verify", "verify-now"); err != nil {
		t.Fatal(err)
	}
	waitUpTo(t, readyTimeout, lost, "the verification", func() bool {
		var list v1alpha1.MySQLBackupList
		if err := lab.Client.List(ctx, &list, client.InNamespace(lost.Namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items { // the newest backup then may be a newer one
			if v := list.Items[i].Status.Verification; v != nil {
				if v.Result != v1alpha1.VerificationPassed || v.Tables == 0 || v.Checksums == 0 || list.Items[i].Status.VerifiedAt == nil {
					t.Fatalf("the verification found %+v", v)
				}
				t.Logf("%s: %s", list.Items[i].Name, v.Message)
				return true
			}
		}
		return false
	})
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
	if err := lab.Delete(ctx, restored, changeTimeout); err != nil {
		t.Fatal(err)
	}
	uploads, err := s3Client().ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: awssdk.String(bucket)})
	if err != nil || len(uploads.Uploads) > 0 {
		t.Errorf("uploads are left: %v, %v", uploads, err)
	}
}

// awaitBackup waits until a schedule's backup is complete. One that fails says why.
func awaitBackup(t *testing.T) *v1alpha1.MySQLBackup {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	for ; ; time.Sleep(time.Second) {
		var list v1alpha1.MySQLBackupList
		if err := lab.Client.List(ctx, &list, client.InNamespace(lost.Namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			switch b := &list.Items[i]; b.Status.Phase {
			case v1alpha1.BackupCompleted:
				return b
			case v1alpha1.BackupFailed:
				t.Fatalf("%s failed: %s: %s", b.Name, b.Status.Reason, b.Status.Message)
			case v1alpha1.BackupPending, v1alpha1.BackupRunning:
			}
		}
		if ctx.Err() != nil {
			var jobs batchv1.JobList
			_ = lab.Client.List(t.Context(), &jobs, client.InNamespace(lost.Namespace))
			t.Fatalf("no backup was completed; Jobs: %+v; backups: %+v", jobs.Items, list.Items)
		}
	}
}
