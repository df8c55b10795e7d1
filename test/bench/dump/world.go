package dump

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/pod"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/store"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/build"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// Names of what is backed up. The servers' certificates carry namespace, cluster and member.
const (
	namespace, cluster, member = "shop", "orders", "orders-0"
	clusterUID                 = "5b1e5c6e-0000-4000-8000-000000000000"
	recoveryReport             = "orders-recovery"
	bucket, region             = "backups", "us-east-1"
)

// World is an API server, an S3, and the servers.
type world struct {
	env    *envtest.Environment
	kube   client.Client
	s3     *moto.Server
	api    *s3.Client
	place  backup.Place
	farm   *mysqld.Farm
	binary []byte
}

// newWorld starts everything but the servers. Close it, also after an error.
func newWorld(ctx context.Context) (*world, error) {
	w := &world{}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return w, err
	}
	if w.binary, err = buildOperator(ctx, root); err != nil {
		return w, err
	}
	if err := w.startKubernetes(ctx, root); err != nil {
		return w, err
	}
	if w.s3, err = moto.Start(ctx, moto.Options{}); err != nil {
		return w, err
	}
	w.api = api(w.s3.Endpoint())
	if _, err := w.api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: new(bucket)}); err != nil {
		return w, fmt.Errorf("make the bucket: %w", err)
	}
	s, err := store.NewS3(ctx, store.S3Options{Bucket: bucket, Region: region, Endpoint: w.s3.Endpoint(), AccessKeyID: accessKey, SecretAccessKey: accessKey})
	if err != nil {
		return w, err
	}
	w.place = backup.Place{Store: s, Root: backup.RootOf(namespace, cluster, clusterUID)}
	w.farm, err = mysqld.NewDiskFarm(ctx, os.Stderr)
	return w, err
}

func (w *world) startKubernetes(ctx context.Context, root string) error {
	assets, err := build.EnvtestAssets(ctx)
	if err != nil {
		return err
	}
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 3 * time.Minute,
	}
	config, err := env.Start()
	w.env = env
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build the scheme: %w", err)
	}
	if w.kube, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: recoveryReport}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, &corev1.ConfigMap{ObjectMeta: meta}} {
		if err := w.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func (w *world) close() error {
	var failures []error
	if w.farm != nil {
		failures = append(failures, w.farm.Close())
	}
	if w.s3 != nil {
		failures = append(failures, w.s3.Stop())
	}
	if w.env != nil {
		failures = append(failures, w.env.Stop())
	}
	return errors.Join(failures...)
}

// source starts a primary that has tables with about size bytes of rows, and furnishes its pods.
func (w *world) source(ctx context.Context, size int64, tables []table) (*machine, error) {
	s, err := startServer(ctx, w.farm)
	if err != nil {
		return nil, err
	}
	if err := promote(ctx, w.farm, s); err != nil {
		return nil, err
	}
	if err := fill(ctx, s, size, tables); err != nil {
		return nil, err
	}
	cert, key, err := w.farm.Authority.IssueClient(pki.BackupPods, time.Now())
	if err != nil {
		return nil, err
	}
	return w.furnished(ctx, s, mysql.Identity{CAPEM: w.farm.Authority.CertificatePEM(), CertPEM: cert, KeyPEM: key})
}

// target starts an empty server of a new cluster, and furnishes the pod that restores into it.
func (w *world) target(ctx context.Context) (*machine, error) {
	s, err := startServer(ctx, w.farm)
	if err != nil {
		return nil, err
	}
	ca, cert, key := w.farm.OperatorIdentity()
	return w.furnished(ctx, s, mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key})
}

func (w *world) furnished(ctx context.Context, s *mysqld.Server, identity mysql.Identity) (*machine, error) {
	p := &machine{server: s, binary: w.binary, config: w.env.KubeConfig}
	return p, p.furnish(ctx, identity)
}

// task is what all pods are told.
func (w *world) task() task.Task {
	return task.Task{
		Namespace: namespace, Cluster: cluster, ClusterUID: clusterUID, Members: []string{member}, Region: region,
		Destination:  &v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: bucket, Endpoint: w.s3.Endpoint()}},
		StallTimeout: v1alpha1.DefaultStallTimeout, Method: v1alpha1.BackupMethodDump,
	}
}

// byHand dumps by hand, and returns how long that took and how much is stored.
func (w *world) byHand(ctx context.Context, p *machine, level int) (time.Duration, int64, error) {
	to := place{Endpoint: w.s3.Endpoint(), Bucket: bucket, Key: "by-hand.sql.zst"}
	files := backup.Credentials{CAFile: task.TLSDir + "/ca.crt", CertFile: task.TLSDir + "/tls.crt", KeyFile: task.TLSDir + "/tls.key"}
	arguments := files.DumpArguments(p.server.DNSName(), []string{database})
	took, err := byHand(ctx, p.server.Program(ctx, "mysqldump", arguments...), level, to)
	if err != nil {
		return 0, 0, err
	}
	head, err := w.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &to.Bucket, Key: &to.Key})
	if err != nil {
		return 0, 0, fmt.Errorf("look at the dump by hand: %w", err)
	}
	if head.ContentLength == nil {
		return 0, 0, errors.New("the dump by hand has no length")
	}
	return took, *head.ContentLength, w.place.Store.Delete(ctx, to.Key)
}

// backUp has a pod take a backup, and returns what that took and the manifest.
func (w *world) backUp(ctx context.Context, p *machine, name string) (spent, taken, error) {
	var t taken
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MySQLBackupSpec{ClusterName: cluster, Method: v1alpha1.BackupMethodDump}}
	if err := w.kube.Create(ctx, b); err != nil {
		return spent{}, t, fmt.Errorf("ask for a backup: %w", err)
	}
	work := w.task()
	work.Backup = name
	s, err := p.run(ctx, pod.CommandBackup, name, work)
	if err != nil {
		return s, t, err
	}
	if err := w.kube.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
		return s, t, fmt.Errorf("read the backup: %w", err)
	}
	t.path = b.Status.Path
	t.manifest, err = w.place.ReadManifest(ctx, filepath.Base(t.path))
	return s, t, err
}

// taken is a backup that was taken.
type taken struct {
	path     string
	manifest backup.Manifest
}

// restore has a pod restore a backup into an empty server.
func (w *world) restore(ctx context.Context, p *machine, t taken) (spent, error) {
	work := w.task()
	work.Path, work.Target, work.Report = t.path, member, recoveryReport
	return p.run(ctx, pod.CommandRestore, recoveryReport, work)
}
