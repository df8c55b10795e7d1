package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/metrics"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/records"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// manage lets a manager with its caches and watches drive an operator until the test ends, and returns how often it has
// passed over a cluster.
func (w *world) manage(o *operator) func() int {
	w.t.Helper()
	mgr, err := ctrl.NewManager(shared.config, ctrl.Options{
		Scheme: testScheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), DefaultNamespaces: map[string]cache.Config{w.cluster.Namespace: {}, w.system: {}}},
	})
	must(w.t, err)
	registry := prometheus.NewRegistry()
	o.Client, o.Reader, o.Metrics, o.Wake = mgr.GetClient(), mgr.GetAPIReader(), metrics.New(registry), make(chan event.GenericEvent, 16)
	must(w.t, o.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { stop(); running.Wait() })
	return func() int {
		families, err := registry.Gather()
		must(w.t, err)
		total := 0.0
		for _, f := range families {
			if f.GetName() == "mysqlcluster_reconciles_total" {
				for _, m := range f.GetMetric() {
					total += m.GetCounter().GetValue()
				}
			}
		}
		return int(total)
	}
}

// await waits, in real time, for what a manager brings about.
func (w *world) await(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within %s; status:\n%s", what, limit, w.describe())
		}
	}
}

// A value that mysqld refuses, or would change to another, is told, and tried again after a while: not at full speed. What a
// person does to the records is looked at at once all the same.
func TestRefusedSettingsAreTriedWithPauses(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newSQLWorld(t, farm, func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	var statements atomic.Int64
	o := w.newSQLOperator(&operator{}, func(op, phase string) error {
		if strings.HasPrefix(op, "settings/") && phase == "before" {
			statements.Add(1)
		}
		return nil
	})
	passes := w.manage(o)
	w.await(sqlPatience, "the cluster comes up", w.phaseIs(v1alpha1.PhaseReady))

	w.world.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_connections": "200000", "no_such_variable": "1"}
	})
	w.await(patience, "the refusal is told", w.conditionHas(v1alpha1.ConditionDegraded, "SettingRefused", "max_connections=200000", "no_such_variable"))
	const watched = 12 * time.Second
	busy := func() string {
		before, records := passes(), w.recordsVersion()
		time.Sleep(watched)
		// A look every 15 s, and what may have been under way.
		if n := passes() - before; n > 5 {
			return fmt.Sprintf("%d passes within %s over a member that refuses its settings", n, watched)
		}
		if w.recordsVersion() != records {
			return "the records were written although nothing happened"
		}
		return ""
	}
	tried := statements.Load()
	why := busy()
	if n := statements.Load() - tried; n != 0 {
		t.Errorf("the refused settings were tried again with %d statements within %s", n, watched)
	}
	// A mysqld that a stall of the instance keeps from answering is looked at more often for a while, and then no more.
	for deadline := time.Now().Add(patience); why != "" && time.Now().Before(deadline); {
		why = busy()
	}
	if why != "" {
		t.Error(why)
	}

	// Right after a look, so that it is not the next one that notices it.
	before := passes()
	w.await(patience, "the next look", func() bool { return passes() > before })
	before = passes()
	w.changeRecords(func(records *topology.ClusterRecord) { records.RollingDone = []string{"orders-0"} })
	w.await(engine.AfterWaiting-time.Second, "a hand in the records is noticed", func() bool { return passes() > before })
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_connections": "200"}
	})
	w.await(patience, "the right value is applied at once", w.conditionHas(v1alpha1.ConditionDegraded, "False/"))
}

func (w *world) recordsVersion() string {
	cm, _ := w.records()
	return cm.ResourceVersion
}

func TestOwnWritesWakeNobody(t *testing.T) {
	t.Parallel()
	m := pass.NewCaches()
	cluster := client.ObjectKey{Namespace: "shop", Name: "orders"}
	n := m.Of(cluster, "uid-1")
	n.Records.Written.Begin("first")
	n.Records.Written.End("1")
	n.Records.Written.Begin("second")
	object := func(version, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-members", ResourceVersion: version,
				OwnerReferences: []metav1.OwnerReference{{Name: "orders", UID: "uid-1", Controller: ptr.To(true)}}},
			Data: map[string]string{resources.KeyMembers: text},
		}
	}
	report := object("1", "")
	report.Data = map[string]string{"state": "Failed"}
	foreign := object("1", "first")
	foreign.OwnerReferences[0].UID = "uid-2"
	deleted := object("5", "second")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	for name, row := range map[string]struct {
		now  *corev1.ConfigMap
		want bool
	}{
		"deleted, and kept by its finalizer":       {deleted, true},
		"what was written":                         {object("1", "first"), false},
		"what is being written":                    {object("2", "second"), false},
		"a hand edit":                              {object("3", "third"), true},
		"a pod's report":                           {report, true},
		"of a cluster of before, of the same name": {foreign, true},
		"emptied by hand":                          {object("4", ""), true},
	} {
		if got := (records.OthersWrites{Caches: m}).Update(event.UpdateEvent{ObjectOld: row.now, ObjectNew: row.now}); got != row.want {
			t.Errorf("%s: let through %v, want %v", name, got, row.want)
		}
	}
	if !(records.OthersWrites{Caches: m}).Delete(event.DeleteEvent{Object: object("1", "first")}) || (records.OthersWrites{Caches: m}).Create(event.CreateEvent{}) {
		t.Error("a deletion is to be noticed, a creation is our own")
	}
}

func TestWhenToLookAgain(t *testing.T) {
	t.Parallel()
	r := NewMySQLClusterReconciler(pass.Ports{})
	failed := []*engine.Problem{{Reason: "Any", Message: "of mysqld"}}
	for name, row := range map[string]struct {
		s    *pass.Pass
		want time.Duration
	}{
		"as planned":                                {&pass.Pass{Plan: topology.Plan{RequeueAfter: 5 * time.Second}}, 5 * time.Second},
		"a step that others follow on":              {&pass.Pass{Plan: topology.Plan{RequeueAfter: 5 * time.Second}, Result: pass.Result{Moved: true}}, engine.AfterProgress},
		"a step, and something failed":              {&pass.Pass{Plan: topology.Plan{RequeueAfter: 5 * time.Second}, Result: pass.Result{Moved: true, Problems: failed}}, 5 * time.Second},
		"a promotion":                               {&pass.Pass{Plan: topology.Plan{RequeueAfter: 250 * time.Millisecond}, Result: pass.Result{Promoted: true, Acted: 1}}, engine.AfterProgress},
		"a failure":                                 {&pass.Pass{Plan: topology.Plan{RequeueAfter: 50 * time.Millisecond}, Result: pass.Result{Problems: failed}}, time.Second},
		"a failure while nobody can write":          {&pass.Pass{Plan: topology.Plan{Failing: true, RequeueAfter: 50 * time.Millisecond}, Result: pass.Result{Problems: failed}}, engine.AfterFailing},
		"a failure that only a person undoes":       {&pass.Pass{Plan: topology.Plan{RequeueAfter: 50 * time.Millisecond}, Result: pass.Result{Problems: []*engine.Problem{{After: engine.AfterPerson}}}}, engine.AfterWaiting},
		"backups in trouble while nobody can write": {&pass.Pass{Plan: topology.Plan{Failing: true}, Result: pass.Result{Problems: []*engine.Problem{{After: engine.AfterPerson, Aside: true}}}}, engine.AfterFailing},
		"backups in trouble while there is work":    {&pass.Pass{Plan: topology.Plan{RequeueAfter: 50 * time.Millisecond}, Result: pass.Result{Problems: []*engine.Problem{{After: engine.AfterPerson, Aside: true}}}}, time.Second},
		"a preflight that found something":          {&pass.Pass{Plan: topology.Plan{RequeueAfter: 5 * time.Second}, Seen: pass.Sight{PreflightProblem: &engine.Problem{After: engine.AfterPerson}}}, 5 * time.Second},
		"an object in the way":                      {&pass.Pass{Plan: topology.Plan{RequeueAfter: 50 * time.Millisecond}, Result: pass.Result{InTheWay: []*engine.Problem{{After: engine.AfterPerson}}}}, 50 * time.Millisecond},
	} {
		if result, err := r.reporter.Next(row.s, nil); err != nil || result.RequeueAfter != row.want {
			t.Errorf("%s: looked at again after %s (%v), want %s", name, result.RequeueAfter, err, row.want)
		}
	}
	if _, err := r.reporter.Next(&pass.Pass{}, &engine.Problem{Message: "x", Cause: errors.New("x")}); err == nil {
		t.Error("what failed as a whole is left to the work queue's back-off")
	}
}
