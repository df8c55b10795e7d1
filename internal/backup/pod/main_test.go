package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// The tests of this package play pods beside a real API server, moto's S3 and a real primary.
var (
	kube       client.WithWatch
	kubeConfig *rest.Config
	cloud      *moto.Server
	farm       *mysqld.Farm
	primary    *mysqld.Server
	// operator and pods are who connects to it.
	operator, pods mysql.Identity
)

func TestMain(m *testing.M) {
	if file := os.Getenv(playedPod); file != "" {
		os.Exit(playPod(file))
	}
	os.Exit(runTests(m))
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

func runTests(m *testing.M) (code int) {
	ctx := context.Background()
	fail := func(what string, err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, what, err)
			code = 1
		}
	}
	assets, err := build.EnvtestAssets(ctx)
	fail("find the API server:", err)
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 3 * time.Minute, ControlPlaneStopTimeout: 3 * time.Minute,
	}
	kubeConfig, err = env.Start()
	fail("start the API server:", err)
	if code != 0 {
		return code
	}
	defer func() { fail("stop the API server:", env.Stop()) }()
	scheme, err := newScheme()
	fail("build the scheme:", err)
	kube, err = client.NewWithWatch(kubeConfig, client.Options{Scheme: scheme})
	fail("reach the API server:", err)
	cloud, err = moto.Start(ctx, moto.Options{})
	if fail("start moto:", err); err == nil {
		defer func() { fail("stop moto:", cloud.Stop()) }()
	}
	farm, err = mysqld.NewFarm(ctx, os.Stderr)
	if fail("start mysqld:", err); err == nil {
		defer func() { fail("stop mysqld:", farm.Close()) }()
		fail("make the primary:", makePrimary(ctx))
	}
	if code != 0 {
		return code
	}
	return m.Run()
}

// makePrimary makes a primary with a little data.
func makePrimary(ctx context.Context) (err error) {
	if primary, err = farm.Start(ctx, mysqld.Options{}); err != nil {
		return err
	}
	ca, cert, key := farm.OperatorIdentity()
	operator = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	if cert, key, err = farm.Authority.IssueClient(pki.BackupPods, time.Now()); err != nil {
		return err
	}
	pods = mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key}
	pool := conn.NewPool(conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute})
	defer pool.Close()
	p := admin.Open(pool, endpoint(primary), operator)
	if err := p.Promote(ctx, mysql.PromoteSpec{}); err != nil {
		return err
	}
	for user, client := range map[string]pki.Client{mysql.BackupUser: pki.BackupPods, mysql.MetricsUser: pki.MetricsPod} {
		if _, err := p.EnsurePodAccount(ctx, user, farm.Authority.IssuerDN(), farm.Authority.ClientDN(client)); err != nil {
			return err
		}
	}
	_, err = primary.SQL(ctx, "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY); INSERT INTO shop.orders VALUES (1),(2),(3)")
	return err
}

func endpoint(s *mysqld.Server) mysql.Endpoint {
	return mysql.Endpoint{Key: "uid/" + s.Name + "/" + s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
}

// scene is a namespace with a bucket of its own.
type scene struct {
	t         *testing.T
	namespace string
	store     store.Store
}

var scenes atomic.Int64

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, namespace: fmt.Sprintf("backups-%d", scenes.Add(1))}
	must(t, kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	_, err := bucketAPI().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.namespace})
	must(t, err)
	s.store, err = store.NewS3(t.Context(), store.S3Options{
		Bucket: s.namespace, Prefix: "mysql", Region: "us-east-1", Endpoint: cloud.Endpoint(), AccessKeyID: "lab", SecretAccessKey: "lab", Attempts: 2, MaxPause: time.Millisecond,
	})
	must(t, err)
	return s
}

// bucketAPI is S3 beside the store, for what that does not tell.
func bucketAPI() *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(cloud.Endpoint()), UsePathStyle: true, Credentials: awscredentials.NewStaticCredentialsProvider("lab", "lab", ""),
	})
}

// pod is a pod of a Job. Of a schedule's, whose task names no backup, the Job's name is the backup's.
func (s *scene) pod(job string, t task.Task) *worker {
	s.t.Helper()
	t.Namespace, t.Cluster, t.ClusterUID, t.Members, t.StallTimeout = s.namespace, "orders", "uid", []string{"orders-0"}, time.Minute
	t.Method = v1alpha1.BackupMethodDump
	t.Destination = &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: s.namespace, Prefix: "mysql"}}
	return &worker{
		task: t, client: kube, place: backup.Place{Store: s.store, Root: backup.RootOf(s.namespace, "orders", "uid")}, log: testr.New(s.t),
		clock: clock.RealClock{}, runner: job, attemptPause: 100 * time.Millisecond, reach: reach(primary), credentials: files(s.t, primary, pods), program: primary.Program,
	}
}

func reach(server *mysqld.Server) func(name, user string) backup.Member {
	return func(name, user string) backup.Member {
		identity := pods
		if user == mysql.OperatorUser {
			identity = operator
		}
		return backup.Member{Name: name, Host: server.IP(), Connect: func(ctx context.Context) (*podclient.Visit, error) {
			return podclient.OpenVisit(ctx, podclient.VisitOptions{Endpoint: endpoint(server), Identity: identity, User: user, Options: conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute}})
		}}
	}
}

// files puts an identity where the programs of a server see it.
func files(t *testing.T, s *mysqld.Server, identity mysql.Identity) backup.Credentials {
	t.Helper()
	for name, content := range map[string][]byte{"pod-ca.pem": identity.CAPEM, "pod-cert.pem": identity.CertPEM, "pod-key.pem": identity.KeyPEM} {
		must(t, s.WriteFile(name, content))
	}
	const dir = "/etc/nairobi-mysql/"
	return backup.Credentials{CAFile: dir + "pod-ca.pem", CertFile: dir + "pod-cert.pem", KeyFile: dir + "pod-key.pem"}
}

// make makes a MySQLBackup.
func (s *scene) make(name string) {
	s.t.Helper()
	must(s.t, kube.Create(s.t.Context(), &v1alpha1.MySQLBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: "orders", Method: v1alpha1.BackupMethodDump},
	}))
}

func (s *scene) read(name string) *v1alpha1.MySQLBackup {
	s.t.Helper()
	var b v1alpha1.MySQLBackup
	must(s.t, kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &b))
	return &b
}

// report writes a status as the operator, or another pod, does.
func (s *scene) report(name string, change func(*v1alpha1.MySQLBackupStatus)) {
	s.t.Helper()
	b := s.read(name)
	change(&b.Status)
	must(s.t, kube.Status().Update(s.t.Context(), b))
}

// stored are the names of what lies in the bucket.
func (s *scene) stored() string {
	s.t.Helper()
	var names []string
	for o, err := range s.store.List(s.t.Context(), "") {
		must(s.t, err)
		names = append(names, o.Key[strings.LastIndexByte(o.Key, '/')+1:])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const wholeBackup = "accounts.json.zst definitions.json.zst dump.sql.zst manifest.json"

// during does something once mysqldump has begun.
func during(w *worker, do func()) {
	genuine := w.program
	w.program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if name == "mysqldump" && !slices.Contains(arguments, "--version") {
			do()
		}
		return genuine(ctx, name, arguments...)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
