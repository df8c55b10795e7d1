//go:build e2e

package olm_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

// footing is what an upgrade of the operator must not touch.
type footing struct {
	// instances are the instances and volumes by member, started when each mysqld was, in tens of seconds of its own clock.
	machines map[string]string
	started  map[string]string
	primary  string
	epoch    int64
}

// stand reads the footing of a cluster.
func stand(t *testing.T, key client.ObjectKey) footing {
	t.Helper()
	var c v1alpha1.MySQLCluster
	if err := lab.Client.Get(t.Context(), key, &c); err != nil {
		t.Fatal(err)
	}
	f := footing{machines: map[string]string{}, started: map[string]string{}, primary: c.Status.Primary}
	if c.Status.Voters != nil {
		f.epoch = c.Status.Voters.Epoch
	}
	script := ""
	for _, m := range c.Status.Members {
		f.machines[m.Name] = m.InstanceID + " " + m.VolumeID
		// Rounded to 10 seconds by the server's own clock: the difference of two readings is 0 or, at an edge, 10.
		script += fmt.Sprintf("echo %s $(sql %s.%s.%s.svc \"SELECT ROUND((UNIX_TIMESTAMP(NOW(6)) - VARIABLE_VALUE) / 10) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'\")\n",
			m.Name, m.Name, key.Name, key.Namespace)
	}
	out, err := lab.RunClient(t.Context(), key, script)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if name, started, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			f.started[name] = started
		}
	}
	if len(f.started) != len(f.machines) {
		t.Fatalf("not every member says when it was started: %s", out)
	}
	return f
}

// same fails when something was restarted, replaced, promoted or re-elected.
func (f footing) same(t *testing.T, now footing) {
	t.Helper()
	if !maps.Equal(f.machines, now.machines) {
		t.Errorf("instances or volumes %v became %v", f.machines, now.machines)
	}
	for name, started := range f.started {
		before, err := strconv.Atoi(started)
		after, errNow := strconv.Atoi(now.started[name])
		if err != nil || errNow != nil || after-before > 1 || before-after > 1 {
			t.Errorf("mysqld of %s was started anew: %s, then %s (in tens of seconds)", name, started, now.started[name])
		}
	}
	if f.primary != now.primary || f.epoch != now.epoch {
		t.Errorf("primary %s in epoch %d became %s in epoch %d", f.primary, f.epoch, now.primary, now.epoch)
	}
}

// watcher records every moment at which a protected cluster is not Ready, or would be deleted.
type watcher struct {
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	seen  []string
	looks int
	// unprotected are the moments at which a deletion would have gone through. While no pod serves the webhook the API server refuses it.
	unprotected []string
}

func watch(t *testing.T, key client.ObjectKey) *watcher {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{stop: stop}
	w.done.Go(func() {
		for ctx.Err() == nil {
			var c v1alpha1.MySQLCluster
			err := lab.Client.Get(ctx, key, &c)
			w.mu.Lock()
			w.looks++
			if err == nil && !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
				w.seen = append(w.seen, fmt.Sprintf("%s: phase %s, %s ready, %+v", time.Now().Format(time.TimeOnly), c.Status.Phase, c.Status.ReadyMembers, c.Status.Conditions))
			}
			w.mu.Unlock()
			time.Sleep(250 * time.Millisecond)
		}
	})
	// Beside it: a webhook that nobody serves is waited for.
	w.done.Go(func() {
		for ctx.Err() == nil {
			c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if lab.Client.Delete(ctx, c, client.DryRunAll) == nil {
				w.mu.Lock()
				w.unprotected = append(w.unprotected, time.Now().Format(time.TimeOnly))
				w.mu.Unlock()
			}
			time.Sleep(250 * time.Millisecond)
		}
	})
	return w
}

// end fails when the cluster was not Ready throughout.
func (w *watcher) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.done.Wait()
	if len(w.seen) > 0 {
		t.Errorf("not Ready in %d of %d looks, first %s", len(w.seen), w.looks, w.seen[0])
	}
	if len(w.unprotected) > 0 {
		t.Errorf("the protected cluster could be deleted in %d looks, first at %s", len(w.unprotected), w.unprotected[0])
	}
	t.Logf("Ready in %d looks", w.looks-len(w.seen))
}

// theEnd is what a writer reads in its table when it is to stop.
const theEnd = "the end"

// write writes through the primary's Service until the returned function is called, which tells how often and which failed.
func write(t *testing.T, key client.ObjectKey) func() {
	t.Helper()
	var out string
	var err error
	var done sync.WaitGroup
	done.Go(func() {
		out, err = lab.RunClient(t.Context(), key, fmt.Sprintf(`end=$(( $(date +%%s) + 110 )) told=0
while [ "$told" = 0 ] && [ $(date +%%s) -lt $end ]; do
  told=$(sql %s-primary.%s.svc "INSERT INTO t (v) VALUES ('while the operator was replaced'); SELECT COUNT(*) FROM t WHERE v = '%s'") && echo ok || { echo failed; told=0; }
done`, key.Name, key.Namespace, theEnd))
	})
	return func() {
		t.Helper()
		sql(t, fmt.Sprintf(`sql %s-primary.%s.svc "INSERT INTO t (v) VALUES ('%s')"`, key.Name, key.Namespace, theEnd))
		done.Wait()
		if err != nil {
			t.Errorf("the writer: %v", err)
		}
		written, failed := strings.Count(out, "ok\n"), strings.Count(out, "failed\n")
		if written == 0 || failed > 0 {
			t.Errorf("%d writes went through, %d failed:\n%s", written, failed, out)
		}
		t.Logf("%d writes went through, %d failed", written, failed)
	}
}

// publish brings a release into the catalog.
func publish(t *testing.T, version string) {
	t.Helper()
	var source operatorsv1alpha1.CatalogSource
	if err := manager.Client.Get(t.Context(), catalog, &source); err != nil {
		t.Fatal(err)
	}
	old := source.DeepCopy()
	source.Spec.Image = catalogImage(version)
	if err := manager.Client.Patch(t.Context(), &source, client.MergeFrom(old)); err != nil {
		t.Fatal(err)
	}
}

func Test08UpgradeThroughTheCatalogTouchesNoDatabase(t *testing.T) {
	// After a switchover the new primary's voters are confirmed, which takes an epoch of its own.
	if _, err := lab.WaitReady(t.Context(), orders, readyLimit, nil); err != nil {
		t.Fatal(err)
	}
	before := stand(t, orders)
	w := watch(t, orders)
	written := write(t, orders)

	publish(t, second)
	began := time.Now()
	csv, err := manager.WaitForCSV(t.Context(), client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(second)}, installLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is %s after %s", csv.Name, csv.Status.Phase, time.Since(began).Round(time.Second))
	waitFor(t, "the end of the old release", func() bool {
		var old operatorsv1alpha1.ClusterServiceVersion
		return manager.Client.Get(t.Context(), client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(first)}, &old) != nil
	})
	hasLooked(t, second)
	written()
	w.end(t)
	adopted(t, second)
	before.same(t, stand(t, orders))
}

// hasLooked waits until a release of the operator has looked at every cluster: only then it tells OLM that it is idle.
func hasLooked(t *testing.T, version string) {
	t.Helper()
	waitFor(t, "the operator to have looked at every cluster", func() bool {
		c := upgradeable(t, version)
		return c != nil && c.Status == metav1.ConditionTrue
	})
}

// adopted has the operator do what it alone can do, and looks at which release did it. Members are not ready for a moment
// meanwhile: they do not have the settings that the spec asks for.
func adopted(t *testing.T, version string) {
	t.Helper()
	pods, err := lab.OperatorPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if image := pod.Spec.Containers[0].Image; image != images[version] && pod.DeletionTimestamp.IsZero() {
			t.Errorf("pod %s runs %s", pod.Name, image)
		}
	}
	// What the release before had made under the same names, and OLM collects with it unless the new one owns it by then.
	for _, manifest := range []string{"nairobi-mysql-controller-manager-metrics-service_v1_service.yaml", "nairobi-mysql-controller-manager_policy_v1_poddisruptionbudget.yaml"} {
		out, err := lab.Kubectl(t.Context(), "", "get", "--namespace="+subscription.Namespace, "--output=jsonpath={.metadata.deletionTimestamp}", "-f", filepath.Join(bundles[version], "manifests", manifest))
		if err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("%s of the bundle is not there, or goes (%s): %v", manifest, out, err)
		}
	}
	var crd apiextensionsv1.CustomResourceDefinition
	text, err := lab.Kubectl(t.Context(), "", "get", "crd", "mysqlclusters.mysql.alx.ke", "--output=yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(text), &crd); err != nil {
		t.Fatal(err)
	}
	if _, there := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties[newField]; !there || len(crd.Status.StoredVersions) != 1 {
		t.Errorf("the CRD is not the new release's, or stores %v", crd.Status.StoredVersions)
	}
	value := strings.Split(version, ".")[1] + ".5" // another for each release
	patch := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"mysqld":{"long_query_time":"`+value+`"}}}`))
	if err := lab.Client.Patch(t.Context(), current(t), patch); err != nil {
		t.Fatal(err)
	}
	members := []string{}
	for _, m := range current(t).Status.Members {
		members = append(members, m.Name)
	}
	slices.Sort(members)
	waitFor(t, "a setting that only a working operator brings to every member", func() bool {
		script := ""
		for _, name := range members {
			script += fmt.Sprintf("sql %s.%s.%s.svc \"SELECT @@global.long_query_time\"\n", name, orders.Name, orders.Namespace)
		}
		return strings.Count(sql(t, script), value+"00000") == len(members)
	})
}
