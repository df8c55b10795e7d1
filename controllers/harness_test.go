package controllers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// The tests of this package run the reconciler against a real API server and moto's EC2, pass by pass, without a
// manager: so a test can stop it between any two calls.
var (
	kube   *rest.Config
	cloud  *moto.Server
	seeded moto.Seeded
	serial atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx := context.Background()
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		BinaryAssetsDirectory: assets(),
	}
	var err error
	if kube, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	defer func() { _ = env.Stop() }()
	if cloud, err = moto.Start(ctx, moto.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, "start moto:", err)
		return 1
	}
	defer func() { _ = cloud.Stop() }()
	if seeded, err = cloud.Seed(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "seed moto:", err)
		return 1
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "lab", "AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

func assets() string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/root"
	}
	return filepath.Join(home, ".cache", "nairobi-mysql", "envtest-1.36.3")
}

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = v1alpha1.AddToScheme(scheme)
	return scheme
}

// world is a namespace of its own with one cluster in it, and a proxy of its own in front of EC2.
type world struct {
	t       *testing.T
	client  client.Client
	proxy   *proxy.Proxy
	cluster *v1alpha1.MySQLCluster
	system  string
}

// newWorld makes the namespaces, a policy that allows everything, and applies a cluster that a test may change before.
func newWorld(t *testing.T, change func(*v1alpha1.MySQLCluster)) *world {
	t.Helper()
	ctx := t.Context()
	c, err := client.New(kube, client.Options{Scheme: testScheme()})
	must(t, err)
	p, err := proxy.Start(ctx, proxy.Options{Upstream: cloud.Endpoint()})
	must(t, err)
	t.Cleanup(func() { _ = p.Stop() })
	n := serial.Add(1)
	w := &world{t: t, client: c, proxy: p, system: fmt.Sprintf("system-%d", n)}
	namespace := fmt.Sprintf("shop-%d", n)
	for _, name := range []string{w.system, namespace} {
		must(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.policy("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n    securityGroups: [\"*\"]\n")
	w.cluster = &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.MySQLClusterSpec{
			Version: "9.7.4", DeletionProtection: ptr.To(false),
			AWS: v1alpha1.AWSSpec{
				Region: "us-east-1", InstanceType: "m6i.large", ImageID: seeded.Image, SubnetIDs: seeded.SubnetIDs(), ClientCIDRs: []string{"10.0.0.0/8"},
			},
			Database: &v1alpha1.DatabaseSpec{Name: "app"},
		},
	}
	if change != nil {
		change(w.cluster)
	}
	must(t, c.Create(ctx, w.cluster))
	return w
}

func (w *world) policy(text string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: v1alpha1.PolicyConfigMap}, Data: map[string]string{"policy.yaml": text}}
	if err := w.client.Create(w.t.Context(), cm); err != nil {
		must(w.t, w.client.Update(w.t.Context(), cm))
	}
}

// operator is one life of the operator: killing it loses everything that it had in memory.
type operator struct {
	*MySQLClusterReconciler
	dead atomic.Bool
}

// newOperator starts a life without a way to any mysqld. transport, when given, wraps the way to EC2.
func (w *world) newOperator(transport func(http.RoundTripper) http.RoundTripper) *operator {
	return w.equip(&operator{}, transport, mysql.Options{Dial: refuse})
}

// equip gives an operator its way to EC2, which transport wraps when given, and to mysqld.
func (w *world) equip(o *operator, transport func(http.RoundTripper) http.RoundTripper, sql mysql.Options) *operator {
	o.MySQLClusterReconciler = &MySQLClusterReconciler{
		Client: mortal{w.client, o}, Reader: w.client,
		Clouds: ec2.NewFactory(ec2.Options{Endpoint: w.proxy.Endpoint(), Middleware: transport, SweepInterval: time.Second, CallTimeout: 10 * time.Second}),
		SQL:    mysql.NewPool(sql), Prober: mysql.NewProber(mysql.ProberOptions{Pool: mysql.Options{Dial: sql.Dial}}),
		Events: events.NewFakeRecorder(10000), Clock: clock.RealClock{}, Metrics: NewMetrics(prometheus.NewRegistry()),
		Config: Config{SystemNamespace: w.system, ClusterDomain: "cluster.local"}, memory: newMemory(),
	}
	w.t.Cleanup(func() { o.SQL.Close(); o.Prober.Close() })
	return o
}

// refuse answers every dial at once: no machine boots behind this EC2.
func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// drive runs passes until done says so, and fails the test when that takes longer than limit.
func (w *world) drive(o *operator, limit time.Duration, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); ; {
		result, err := w.pass(o)
		if done() {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not done within %s; the last pass returned %+v, %v; status:\n%s", limit, result, err, w.describe())
		}
		time.Sleep(min(max(result.RequeueAfter, 20*time.Millisecond), 150*time.Millisecond))
	}
}

func (w *world) pass(o *operator) (ctrl.Result, error) {
	return o.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
}

// get reads the cluster as it is now; false when it is gone.
func (w *world) get() (*v1alpha1.MySQLCluster, bool) {
	var c v1alpha1.MySQLCluster
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(w.cluster), &c)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return &c, err == nil
}

func (w *world) phaseIs(phase v1alpha1.Phase) func() bool {
	return func() bool { c, ok := w.get(); return ok && c.Status.Phase == phase }
}

func (w *world) gone() bool { _, ok := w.get(); return !ok }

// condition returns a condition of the cluster as "Status/Reason: message", empty when there is none.
func (w *world) condition(kind string) string {
	c, _ := w.get()
	for _, cond := range c.Status.Conditions {
		if cond.Type == kind {
			return fmt.Sprintf("%s/%s: %s", cond.Status, cond.Reason, cond.Message)
		}
	}
	return ""
}

func (w *world) conditionHas(kind string, parts ...string) func() bool {
	return func() bool {
		text := w.condition(kind)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	}
}

func (w *world) describe() string {
	c, ok := w.get()
	if !ok {
		return "gone"
	}
	text := "phase " + string(c.Status.Phase) + "\n"
	for _, cond := range c.Status.Conditions {
		text += fmt.Sprintf("%s=%s %s: %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
	}
	for _, m := range c.Status.Members {
		text += fmt.Sprintf("%s %s %s %s: %s\n", m.Name, m.Phase, m.InstanceID, m.VolumeID, m.Message)
	}
	return text
}

// left counts what EC2 holds of the cluster: live instances and existing volumes by member, security groups, snapshots.
type left struct {
	instances, volumes map[string]int
	groups, snapshots  int
}

func (w *world) left() left {
	w.t.Helper()
	// Past the proxy: faults must not blind the test.
	c, err := ec2.NewFactory(ec2.Options{Endpoint: cloud.Endpoint(), CallTimeout: 10 * time.Second}).Cloud(w.t.Context(), ec2.Account{Region: "us-east-1"})
	must(w.t, err)
	inventory, err := c.Observe(w.t.Context(), string(w.cluster.UID), 0)
	must(w.t, err)
	l := left{instances: map[string]int{}, volumes: map[string]int{}, groups: len(inventory.SecurityGroups), snapshots: len(inventory.Snapshots)}
	for _, in := range inventory.Instances {
		if in.State != ec2.StateTerminated && in.State != ec2.StateShuttingDown {
			l.instances[in.Member]++
		}
	}
	for _, v := range inventory.Volumes {
		l.volumes[v.Member]++
	}
	return l
}

// oneOfEach fails the test unless every member has exactly one live instance and one volume.
func (w *world) oneOfEach(members int) {
	w.t.Helper()
	l := w.left()
	if len(l.instances) != members || len(l.volumes) != members || l.groups != 1 {
		w.t.Errorf("want %d members, each with one instance and one volume, and one security group; there are %+v", members, l)
	}
	for name, n := range l.instances {
		if n != 1 || l.volumes[name] != 1 {
			w.t.Errorf("%s has %d instances and %d volumes", name, n, l.volumes[name])
		}
	}
}

// nothing fails the test unless EC2 holds nothing of the cluster but the given number of snapshots.
func (w *world) nothing(snapshots int) {
	w.t.Helper()
	if l := w.left(); len(l.instances)+len(l.volumes)+l.groups != 0 || l.snapshots != snapshots {
		w.t.Errorf("want nothing left but %d snapshots; there are %+v", snapshots, l)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
