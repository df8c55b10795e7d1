package controllers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/policy"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/iam"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

const (
	// Patience is how long, in real time, a cluster may take from one state to the next: a second or two when nothing
	// else is going on.
	patience = 2 * time.Minute
	// watchPause stands in for the watch that wakes the operator after a pass that asked for no other.
	watchPause = 20 * time.Millisecond
	// backOff stands in for the work queue's.
	backOff = time.Second
)

var serial atomic.Int64

// World is a namespace with one cluster in it, an AWS account, and a proxy in front of that.
type world struct {
	t *testing.T
	// server is the API server; client is its administrator, who arranges and looks.
	server  *apiServer
	client  client.Client
	account *account
	proxy   *proxy.Proxy
	cluster *v1alpha1.MySQLCluster
	system  string
	// clock is the time by which the operator and the proxy live. It stands still during a pass and is stepped by what the
	// pass asked for: minutes of waiting take no time. Nil where real servers run: these know only the real one.
	clock *clocktesting.FakePassiveClock
	// callTimeout bounds a call to AWS in real time.
	callTimeout time.Duration
	// besides are statements that an administrator has added to the operator's published policy.
	besides []iam.Statement
	// site has MySQL's tarballs, or not; nil when nobody asks.
	site pass.Tarballs
	// statuses sees what the operators write, and what the test reads.
	statuses *statuses
}

// newWorld makes the namespaces, a policy that allows everything, and applies a cluster that a test may change before.
func newWorld(t *testing.T, change func(*v1alpha1.MySQLCluster)) *world {
	t.Helper()
	return makeWorld(&world{t: t, clock: clocktesting.NewFakePassiveClock(time.Now())}, change)
}

// newHomeWorld is newWorld in the AWS account that the lab's own keys lead to.
func newHomeWorld(t *testing.T, change func(*v1alpha1.MySQLCluster)) *world {
	t.Helper()
	return makeWorld(&world{t: t, account: sharedAccount(), clock: clocktesting.NewFakePassiveClock(time.Now())}, change)
}

// makeWorld completes a world.
func makeWorld(w *world, change func(*v1alpha1.MySQLCluster)) *world {
	t := w.t
	t.Helper()
	if w.server == nil {
		w.server = shared
	}
	w.client = w.server.kube
	ctx, n := t.Context(), serial.Add(1)
	w.statuses = &statuses{t: t}
	if w.account == nil {
		w.account = newAccount(t, n)
	}
	w.system, w.callTimeout = fmt.Sprintf("system-%d", n), 10*time.Second
	var err error
	w.proxy, err = proxy.Start(ctx, proxy.Options{Upstream: cloud.Endpoint(), Clock: w.now(), Besides: w.besides})
	must(t, err)
	t.Cleanup(func() { _ = w.proxy.Stop() })
	namespace := fmt.Sprintf("shop-%d", n)
	for _, name := range []string{w.system, namespace} {
		must(t, w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.policy("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n    securityGroups: [\"*\"]\n")
	w.cluster = &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.MySQLClusterSpec{
			Version: "9.7.4", DeletionProtection: ptr.To(false),
			AWS: v1alpha1.AWSSpec{
				Region: "us-east-1", InstanceType: "m6i.large", ImageID: w.account.image, SubnetIDs: w.account.subnets, ClientCIDRs: []string{"10.0.0.0/8"},
			},
			Database: &v1alpha1.DatabaseSpec{Name: "app"},
		},
	}
	if change != nil {
		change(w.cluster)
	}
	must(t, w.client.Create(ctx, w.cluster))
	return w
}

// now is the clock of this world.
func (w *world) now() clock.PassiveClock {
	if w.clock == nil {
		return clock.RealClock{}
	}
	return w.clock
}

func (w *world) policy(text string) {
	w.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: v1alpha1.PolicyConfigMap}, Data: map[string]string{policy.Key: text}}
	if err := w.client.Create(w.t.Context(), cm); err != nil {
		must(w.t, w.client.Update(w.t.Context(), cm))
	}
}

// releaseKeys adds key blocks to the policy.
func (w *world) releaseKeys(blocks string) {
	w.t.Helper()
	var cm corev1.ConfigMap
	must(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.system, Name: v1alpha1.PolicyConfigMap}, &cm))
	cm.Data[policy.ReleaseKeysKey] = blocks
	must(w.t, w.client.Update(w.t.Context(), &cm))
}

// operator is one life of the operator: killing it loses everything that it had in memory.
type operator struct {
	*MySQLClusterReconciler
	dead     atomic.Bool
	statuses *statuses
}

// newOperator starts a life without a way to any mysqld. transport, when given, wraps the way to EC2.
func (w *world) newOperator(transport func(http.RoundTripper) http.RoundTripper) *operator {
	return w.equip(&operator{}, transport, conn.Options{Dial: refuse})
}

// equip gives an operator its way to EC2, which transport wraps when given, and to mysqld.
func (w *world) equip(o *operator, transport func(http.RoundTripper) http.RoundTripper, sql conn.Options) *operator {
	o.statuses = w.statuses
	middleware := func(next http.RoundTripper) http.RoundTripper {
		next = ownAccount{w.account.id, next}
		if transport != nil {
			next = transport(next)
		}
		return next
	}
	o.MySQLClusterReconciler = NewMySQLClusterReconciler(pass.Ports{
		Client: mortal{w.server.cached, o}, Reader: w.server.operator,
		Clouds: ec2.NewFactory(ec2.Options{Config: awsapi.Config{Endpoint: w.proxy.Endpoint(), Middleware: middleware, CallTimeout: w.callTimeout, Clock: w.now()}}),
		SQL:    conn.NewPool(sql), Prober: probe.NewProber(probe.ProberOptions{Pool: conn.Options{Dial: sql.Dial}}),
		Events: events.NewFakeRecorder(10000), Clock: w.now(), Metrics: metrics.New(prometheus.NewRegistry()),
		Config: pass.Config{SystemNamespace: w.system, ClusterDomain: "cluster.local"}, Tarballs: w.site,
	})
	if w.clock == nil { // where time is real nobody waits for minutes: EC2 shows at once what an earlier operator made
		o.Caches.Of(client.ObjectKeyFromObject(w.cluster), pass.KeyOf(w.cluster.UID)).Cloud.Watched = true
	}
	w.t.Cleanup(func() { o.SQL.Close(); o.Prober.Close() })
	return o
}

// refuse answers every dial at once: no instance boots behind this EC2.
func refuse(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// drive runs passes, as far apart as they ask for, until done says so. It fails the test when that takes longer than
// limit in real time.
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
		w.wait(pauseAfter(result, err))
	}
}

// pauseAfter is when the next pass follows.
func pauseAfter(result ctrl.Result, err error) time.Duration {
	if err != nil {
		return backOff
	}
	return max(result.RequeueAfter, watchPause)
}

// wait lets time pass: as much as is asked for where it can be stepped, little where it is real.
func (w *world) wait(d time.Duration) {
	if w.clock == nil {
		time.Sleep(min(d, 150*time.Millisecond))
		return
	}
	w.clock.SetTime(w.clock.Now().Add(d))
}

func (w *world) pass(o *operator) (ctrl.Result, error) {
	return o.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
}

// passes runs n passes as fast as watches could wake the operator.
func (w *world) passes(o *operator, n int) {
	for range n {
		_, _ = w.pass(o)
		w.wait(watchPause)
	}
}

// follow runs n passes, as far apart as they ask for.
func (w *world) follow(o *operator, n int) {
	for range n {
		result, err := w.pass(o)
		w.wait(pauseAfter(result, err))
	}
}

// get reads the cluster as it is now; false when it is gone.
func (w *world) get() (*v1alpha1.MySQLCluster, bool) {
	var c v1alpha1.MySQLCluster
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(w.cluster), &c)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err == nil {
		w.statuses.see(&c)
	}
	return &c, err == nil
}

func (w *world) delete() {
	w.t.Helper()
	must(w.t, w.client.Delete(w.t.Context(), w.cluster.DeepCopy()))
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
