package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
)

var testImages = Images{Operator: "registry.example.com/operator:1", MySQL: "registry.example.com/mysql:9.7.4"}

func bucketDestination() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{
		Bucket: "my-backups", Prefix: "team/mysql", CredentialsSecretRef: &v1alpha1.LocalSecretReference{Name: "s3-keys"},
	}}
}

func claimDestination() *v1alpha1.BackupDestination {
	return &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: "backups"}}
}

// backedUp is a cluster with a schedule, and what its pods are told.
func backedUp(d *v1alpha1.BackupDestination) (*v1alpha1.MySQLCluster, v1alpha1.BackupSchedule, task.Task) {
	c := testCluster()
	s := v1alpha1.BackupSchedule{Name: "daily", Cron: "30 3 * * *", TimeZone: "Africa/Nairobi", Method: v1alpha1.BackupMethodDump}
	c.Spec.Backup = &v1alpha1.BackupSpec{Destination: d, Schedules: []v1alpha1.BackupSchedule{s}}
	return c, s, task.Task{
		Namespace: c.Namespace, Cluster: c.Name, ClusterUID: string(c.UID), Members: []string{"orders-0", "orders-1"}, Destination: d,
		Region: "eu-west-1", Schedule: s.Name, Method: s.Method, Retention: task.Retention{Keep: 14}, StallTimeout: 10 * time.Minute,
	}
}

// verifyTask gives the cluster a verification, and returns what its pods are told.
func verifyTask(c *v1alpha1.MySQLCluster, told task.Task, storage string) task.Task {
	c.Spec.Backup.Verification = &v1alpha1.VerificationSpec{Cron: "0 5 * * 0", TimeZone: "Africa/Nairobi"}
	if storage != "" {
		c.Spec.Backup.Verification.Storage, c.Spec.Backup.Verification.StorageClassName = new(resource.MustParse(storage)), "gp3"
	}
	told.Schedule, told.Method, told.Members, told.Keep = "", "", nil, 0
	told.MaxAge, told.Report = 26*time.Hour, VerifyName(c.Name)
	return told
}

func testBackup() *v1alpha1.MySQLBackup {
	return &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "before-the-sale", UID: "11111111-2222-3333-4444-555555555555"}}
}

func TestGoldenBackup(t *testing.T) {
	c, schedule, told := backedUp(bucketDestination())
	cron, err := Schedule(c, schedule, told, true, testImages)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "backup-schedule.yaml", cron)
	for file, storage := range map[string]string{"verify-schedule.yaml": "", "verify-schedule-claim.yaml": "100Gi"} {
		cron, err := Verification(c, verifyTask(c, told, storage), false, testImages)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, cron)
	}
	golden[any](t, "backup-identity.yaml", BackupServiceAccount(c, "arn:aws:iam::111122223333:role/backups"), BackupServiceAccount(c, ""),
		BackupRole(c), BackupRoleBinding(c), BackupTLSSecret(c, []byte("CERT"), []byte("KEY"), []byte("CA")), RecoveryReport(c), VerificationReport(c))
	c, _, told = backedUp(claimDestination())
	told.Schedule, told.Backup = "", "before-the-sale"
	job, err := BackupJob(c, testBackup(), "before-the-sale", "backup", told, testImages)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "backup-job.yaml", job)
	recovery, err := RecoveryJob(c, task.Task{Cluster: c.Name, Destination: bucketDestination(), Path: "shop/orders/uid", Recovery: task.Recovery{Target: "orders-0"}}, testImages)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "recovery-job.yaml", recovery)
	golden[any](t, "archive.yaml", ArchiveReport(c), testArchive(t, bucketDestination(), ""), testArchive(t, bucketDestination(), "gp3"))
}

func testArchive(t *testing.T, d *v1alpha1.BackupDestination, class string) *appsv1ac.StatefulSetApplyConfiguration {
	t.Helper()
	c, _, told := backedUp(d)
	told.Schedule, told.Method, told.Keep, told.Members = "", "", 0, nil
	told.Primary, told.Report, told.SpoolBytes = PrimaryHost(c), ArchiveName(c.Name), 5<<30
	set, err := Archive(c, told, testImages, resource.MustParse("5Gi"), class)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestEveryPodKnowsTheProxy, and none gets an empty variable, which would hide one of the image's.
func TestEveryPodKnowsTheProxy(t *testing.T) {
	without := testImages
	t.Cleanup(func() { testImages = without })
	for name, pod := range pods(t, bucketDestination()) {
		for _, v := range pod.Containers[0].Env {
			if slices.Contains(ProxyVariables, *v.Name) {
				t.Errorf("%s: %s without a proxy", name, *v.Name)
			}
		}
	}
	testImages.Proxy = map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc"}
	for name, pod := range pods(t, bucketDestination()) {
		told := map[string]string{}
		for _, v := range pod.Containers[0].Env {
			if slices.Contains(ProxyVariables, *v.Name) {
				told[*v.Name] = *v.Value
			}
		}
		if !maps.Equal(told, testImages.Proxy) {
			t.Errorf("%s is told %v", name, told)
		}
	}
}

// pods are those of every kind of Job, and of the archive, by name.
func pods(t *testing.T, d *v1alpha1.BackupDestination) map[string]*corev1ac.PodSpecApplyConfiguration {
	t.Helper()
	c, schedule, told := backedUp(d)
	cron, err := Schedule(c, schedule, told, false, testImages)
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]*batchv1ac.JobSpecApplyConfiguration{"schedule": cron.Spec.JobTemplate.Spec}
	for _, command := range []string{"backup", "remove-backup"} {
		job, err := BackupJob(c, testBackup(), "b", command, told, testImages)
		if err != nil {
			t.Fatal(err)
		}
		specs[command] = job.Spec
	}
	recovery, err := RecoveryJob(c, told, testImages)
	if err != nil {
		t.Fatal(err)
	}
	specs["restore"] = recovery.Spec
	verification, err := Verification(c, verifyTask(c, told, "100Gi"), false, testImages)
	if err != nil {
		t.Fatal(err)
	}
	specs["verify"] = verification.Spec.JobTemplate.Spec
	found := map[string]*corev1ac.PodSpecApplyConfiguration{"archive": testArchive(t, d, "").Spec.Template.Spec}
	for name, spec := range specs {
		found[name] = spec.Template.Spec
	}
	return found
}

// TestNoPodHasMoreThanItNeeds: the restricted Pod Security Standard holds, and only the pod that restores is given the
// certificate that owns the database.
func TestNoPodHasMoreThanItNeeds(t *testing.T) {
	for name, pod := range pods(t, bucketDestination()) {
		t.Run(name, func(t *testing.T) {
			if x := pod.SecurityContext; !*x.RunAsNonRoot || *x.RunAsUser == 0 || *x.SeccompProfile.Type != "RuntimeDefault" {
				t.Errorf("pod %+v", x)
			}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				if x := c.SecurityContext; !*x.ReadOnlyRootFilesystem || *x.AllowPrivilegeEscalation || fmt.Sprint(x.Capabilities.Drop) != "[ALL]" {
					t.Errorf("%s %+v", *c.Name, x)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s has no limits: %+v", *c.Name, c.Resources)
				}
			}
			var secrets []string
			for _, v := range pod.Volumes {
				if v.Secret != nil {
					secrets = append(secrets, *v.Secret.SecretName)
				}
				if v.Projected != nil {
					secrets = append(secrets, projected(t, v.Projected)...)
				}
			}
			slices.Sort(secrets)
			const keys = "s3-keys/accessKeyID s3-keys/secretAccessKey s3-keys/sessionToken?"
			want := "orders-backup-tls " + keys
			switch name {
			case "restore":
				want = "orders-operator-tls " + keys
			case "verify", "remove-backup":
				want = keys
			}
			if got := strings.Join(secrets, " "); got != want {
				t.Errorf("it mounts %s, not %s", got, want)
			}
			for _, e := range pod.Containers[0].Env {
				if e.Value != nil && strings.Contains(*e.Value, "SECRET") {
					t.Errorf("%s carries a secret", *e.Name)
				}
			}
		})
	}
	for name, pod := range pods(t, claimDestination()) {
		mounted := false
		for _, v := range pod.Volumes {
			mounted = mounted || v.PersistentVolumeClaim != nil && *v.PersistentVolumeClaim.ClaimName == "backups"
		}
		if !mounted {
			t.Errorf("%s does not mount the claim", name)
		}
	}
}

// projected names what of Secrets a volume shows, with a mark where it need not be there.
func projected(t *testing.T, v *corev1ac.ProjectedVolumeSourceApplyConfiguration) []string {
	t.Helper()
	var names []string
	for _, source := range v.Sources {
		if source.Secret == nil || len(source.Secret.Items) == 0 {
			t.Fatalf("a volume shows all of something: %+v", source)
		}
		for _, item := range source.Secret.Items {
			name := *source.Secret.Name + "/" + *item.Key
			if source.Secret.Optional != nil && *source.Secret.Optional {
				name += "?"
			}
			names = append(names, name)
		}
	}
	return names
}

// TestWhatAPodIsToldComesBack, with every awkward character that a bucket's prefix may have.
func TestWhatAPodIsToldComesBack(t *testing.T) {
	c, schedule, told := backedUp(bucketDestination())
	told.Destination.S3.Prefix = `team/mysql!_.*'()=+@:,-"$(id)` + "\n"
	cron, err := Schedule(c, schedule, told, false, testImages)
	if err != nil {
		t.Fatal(err)
	}
	back, err := task.Decode(*cron.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Env[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(told)
	if got, _ := json.Marshal(back); string(got) != string(want) {
		t.Errorf("told %s, heard %s", want, got)
	}
}

func TestNamesOfBackupsFitTheLongestCluster(t *testing.T) {
	c, schedule, told := backedUp(bucketDestination())
	c.Name, schedule.Name = strings.Repeat("a", 40), strings.Repeat("b", 10)
	cron, err := Schedule(c, schedule, told, false, testImages)
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes appends a hyphen and ten digits to a CronJob's name, and refuses one that is longer than 52 characters.
	if name := *cron.Name; len(name) > 52 || len(validation.IsDNS1123Label(name)) > 0 {
		t.Errorf("CronJob %s", name)
	}
	names := NamesOf(c.Name)
	account, tls, recovery := names.BackupAccount, names.BackupTLS, names.Recovery
	for _, name := range []string{account, tls, recovery, ArchiveName(c.Name) + "-0", ArchiveName(c.Name) + "-0123456789"} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
