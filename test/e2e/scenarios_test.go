//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"

	corev1 "k8s.io/api/core/v1"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/logs"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

// phases in the order in which a new cluster goes through them.
var phases = []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready, v1alpha1.PhaseReplicating, v1alpha1.PhaseReady}

func Test01AppliedClusterGoesThroughThePhasesToReady(t *testing.T) {
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = orders.Namespace, orders.Name
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	cluster.Spec.DeletionProtection = ptr.To(true)
	if err := lab.Apply(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	var seen []v1alpha1.Phase
	c, err := lab.WaitReady(t.Context(), orders, readyTimeout, func(c *v1alpha1.MySQLCluster) error {
		if p := c.Status.Phase; p != "" && (len(seen) == 0 || seen[len(seen)-1] != p) {
			t.Logf("%5.1fs %s", time.Since(started).Seconds(), p)
			seen = append(seen, p)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, conditions(c))
	}
	if !slices.Equal(seen, phases) {
		t.Errorf("the phases were %v", seen)
	}
	if c.Status.ReadyMembers != "3/3" || c.Status.Voters == nil || len(c.Status.Voters.Names) != 3 || c.Status.Voters.WaitFor != 1 {
		t.Errorf("ready members %s, voters %+v", c.Status.ReadyMembers, c.Status.Voters)
	}
	found := inventoryOf(t, string(c.UID))
	if len(found.Instances) != 3 || len(found.Volumes) != 3 {
		t.Errorf("%d instances and %d volumes", len(found.Instances), len(found.Volumes))
	}
}

func Test02ApplicationWritesToThePrimaryAndReadsFromReplicas(t *testing.T) {
	out := sql(t, `
sql orders-primary.shop.svc "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'written')"
for try in $(seq 120); do
  sql orders-replicas.shop.svc "SELECT v FROM t WHERE id = 1" | grep written && break
  sleep 0.5
done
sql orders-replicas.shop.svc "INSERT INTO t VALUES (2, 'no')" 2>&1 || echo refused
`)
	if !strings.Contains(out, "written") || !strings.Contains(out, "refused") || !strings.Contains(out, "read-only") {
		t.Errorf("the client printed:\n%s", out)
	}
}

func Test03OperatorRestartChangesNothing(t *testing.T) {
	before := inventoryOf(t, string(current(t).UID))
	if err := lab.RestartOperator(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The new operator must have looked: a change that it alone can make comes through.
	change(t, `{"spec":{"mysqld":{"long_query_time":"3"}}}`)
	after := inventoryOf(t, string(current(t).UID))
	for i := range before.Instances {
		if before.Instances[i].ID != after.Instances[i].ID || !before.Instances[i].LaunchTime.Equal(after.Instances[i].LaunchTime) {
			t.Errorf("instance %s became %s", before.Instances[i].ID, after.Instances[i].ID)
		}
	}
}

func Test04SettingsTakeEffect(t *testing.T) {
	change(t, `{"spec":{"mysqld":{"long_query_time":"2.5","back_log":"77"}}}`)
	waitFor(t, "the settings on every member", func() bool {
		// One that is being restarted gives no answer.
		out := sql(t, `for m in orders-0 orders-1 orders-2; do sql $m.orders.shop.svc "SELECT @@global.long_query_time, @@global.back_log" || echo none; done`)
		return strings.Count(out, "2.500000\t77") == 3
	})
	change(t, `{"spec":{"mysqld":{"thread_stack":"140737488355328","back_log":"78"}}}`)
	degraded := func() *metav1.Condition {
		return meta.FindStatusCondition(current(t).Status.Conditions, v1alpha1.ConditionDegraded)
	}
	waitFor(t, "settings with which mysqld does not start to be told", func() bool {
		is := degraded()
		return is != nil && is.Reason == v1alpha1.ReasonSettingRefused && strings.Contains(is.Message, "thread_stack=140737488355328")
	})
	t.Logf("told: %s", degraded().Message)
	change(t, `{"spec":{"mysqld":{"thread_stack":null}}}`)
	waitFor(t, "the others to be as the spec says", func() bool {
		out := sql(t, `for m in orders-0 orders-1 orders-2; do sql $m.orders.shop.svc "SELECT @@global.long_query_time, @@global.back_log, @@global.thread_stack" || echo none; done`)
		return strings.Count(out, "2.500000\t78\t1048576") == 3 && meta.IsStatusConditionFalse(current(t).Status.Conditions, v1alpha1.ConditionDegraded)
	})
}

// TestMembersAreMonitored: a pod of the cluster reads every member, Prometheus counts the statements that a client sends, and kubectl
// shows the one that was slow.
func TestMembersAreMonitored(t *testing.T) {
	change(t, `{"spec":{"monitoring":{},"mysqld":{"slow_query_log":"ON"}}}`)
	value := func(expr string) float64 {
		v, _, err := watch.Value(t.Context(), expr)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	waitFor(t, "every member to be read", func() bool { return value(`count(mysql_up{namespace="shop",cluster="orders"} == 1)`) == 3 })
	const inserted = `sum(mysql_global_status_commands_total{namespace="shop",cluster="orders",command="insert"} unless on (member) mysql_global_variables_read_only == 1)`
	const statements = 2000
	before := value(inserted)
	sql(t, fmt.Sprintf(`sql orders-primary.shop.svc "CREATE TABLE counted (id INT PRIMARY KEY)"
i=0; while [ $i -lt %d ]; do i=$((i+1)); echo "INSERT INTO counted VALUES ($i);"; done >/tmp/inserts.sql
sql orders-primary.shop.svc "$(cat /tmp/inserts.sql)"
sql orders-primary.shop.svc "DROP TABLE counted; SELECT SLEEP(3), 'on the primary'"
sql orders-replicas.shop.svc "SELECT SLEEP(3), 'on a replica'"`, statements))
	began := time.Now()
	for time.Since(began) < 3*insights.Interval {
		time.Sleep(insights.Interval)
	}
	primary := current(t).Status.Primary
	waitFor(t, "the slow statements in the logs", func() bool {
		out, err := lab.Kubectl(t.Context(), "", "logs", "--namespace", orders.Namespace, "deployment/"+resources.MetricsName(orders.Name))
		if err != nil {
			t.Fatal(err)
		}
		slow := map[string]bool{} // on the primary
		for line := range strings.Lines(out) {
			var e logs.Entry
			if json.Unmarshal([]byte(line), &e) == nil && e.Log == logs.Slow && e.Figures["Query_time"] >= 3 {
				slow[e.Statement] = e.Member == primary
			}
		}
		return slow["SELECT SLEEP(3), 'on the primary'"] && !slow["SELECT SLEEP(3), 'on a replica'"] && len(slow) == 2
	})
	// The prober writes too, once a second.
	if counted := value(inserted) - before; counted < statements || counted > 1.05*statements {
		t.Errorf("Prometheus counts %.0f of %d statements", counted, statements)
	}
}

func Test05StoppedPrimaryComesBackWithItsData(t *testing.T) {
	c := current(t)
	sql(t, `sql orders-primary.shop.svc "INSERT INTO t VALUES (5, 'before the stop')"`)
	var id string
	for _, m := range c.Status.Members {
		if m.Name == c.Status.Primary {
			id = m.InstanceID
		}
	}
	if err := aws(t).StopInstance(t.Context(), string(c.UID), id, ec2.StopPower); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "somebody to notice", func() bool {
		c := current(t)
		return c.Status.Phase != v1alpha1.PhaseReady
	})
	ready(t)
	out := sql(t, `sql orders-primary.shop.svc "SELECT v FROM t WHERE id = 5; INSERT INTO t VALUES (6, 'after the stop')"`)
	if !strings.Contains(out, "before the stop") {
		t.Errorf("an acknowledged commit is gone; the client printed:\n%s", out)
	}
	if found := inventoryOf(t, string(c.UID)); len(found.Volumes) != 3 {
		t.Errorf("%d volumes", len(found.Volumes))
	}
}

// TestMonitoringOutlivesAFailover: the failover of the test before left no gap in what is known of the members.
func TestMonitoringOutlivesAFailover(t *testing.T) {
	gap, err := watch.LongestGap(t.Context(), `mysql_up{namespace="shop",cluster="orders"}`)
	if err != nil {
		t.Fatal(err)
	}
	if gap > 3*insights.Interval {
		t.Errorf("nothing is known of a member for %s", gap)
	}
	change(t, `{"spec":{"monitoring":{"enabled":false}}}`)
	waitFor(t, "the pod to be gone", func() bool {
		var exporter appsv1.Deployment
		return apierrors.IsNotFound(lab.Client.Get(t.Context(), client.ObjectKey{Namespace: orders.Namespace, Name: resources.MetricsName(orders.Name)}, &exporter))
	})
}

func Test06OneMoreMember(t *testing.T) {
	// As kubectl scale does it.
	four := autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	if err := lab.Client.SubResource("scale").Update(t.Context(), current(t), client.WithSubResourceBody(&four)); err != nil {
		t.Fatal(err)
	}
	c := ready(t)
	if len(c.Status.Voters.Names) != 4 || c.Status.Voters.WaitFor != 2 {
		t.Errorf("voters %+v", c.Status.Voters)
	}
}

func Test07AnnotationMovesThePrimary(t *testing.T) {
	before := current(t)
	sql(t, `sql orders-primary.shop.svc "INSERT INTO t VALUES (7, 'before the hand-over')"`)
	to := ""
	for _, m := range before.Status.Members {
		if m.Name != before.Status.Primary {
			to = m.Name
		}
	}
	annotate(t, to)
	waitFor(t, "the switchover", func() bool {
		c := current(t)
		return c.Annotations[v1alpha1.AnnotationSwitchover] == "" && c.Status.Primary == to
	})
	c := ready(t)
	if last := c.Status.LastPromotion; last == nil || last.Kind != "Switchover" || last.From != before.Status.Primary || last.To != to {
		t.Errorf("the status tells of another promotion: %+v", last)
	}
	out := sql(t, `sql orders-primary.shop.svc "SELECT v FROM t WHERE id = 7; INSERT INTO t VALUES (8, 'after the switchover'); SELECT @@hostname"
sql `+before.Status.Primary+`.orders.shop.svc "INSERT INTO t VALUES (9, 'no')" 2>&1 || echo refused`)
	if !strings.Contains(out, "before the hand-over") || !strings.Contains(out, "refused") || !strings.Contains(out, "read-only") {
		t.Errorf("the client printed:\n%s", out)
	}
	annotate(t, "orders-99")
	waitFor(t, "the refusal of a member that is none", func() bool { return current(t).Annotations[v1alpha1.AnnotationSwitchover] == "" })
	if c := ready(t); c.Status.Primary != to {
		t.Errorf("the primary is %s", c.Status.Primary)
	}
}

// annotate asks for another primary.
func annotate(t *testing.T, member string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationSwitchover, member)
	if err := lab.Client.Patch(t.Context(), current(t), client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func Test08HibernatedClusterWakesWithItsData(t *testing.T) {
	sql(t, `sql orders-primary.shop.svc "INSERT INTO t VALUES (10, 'before the sleep')"`)
	before := inventoryOf(t, string(current(t).UID))
	hibernate := func(yes bool) {
		patch := fmt.Sprintf(`{"spec":{"hibernate":%t}}`, yes)
		if err := lab.Client.Patch(t.Context(), current(t), client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	hibernate(true)
	waitFor(t, "the cluster to hibernate", func() bool { return current(t).Status.Phase == v1alpha1.PhaseHibernated })
	asleep := inventoryOf(t, string(current(t).UID))
	for _, in := range asleep.Instances {
		if in.State != inventory.StateTerminated {
			t.Errorf("instance %s is %s", in.ID, in.State)
		}
	}
	if !slices.Equal(volumes(asleep), volumes(before)) {
		t.Errorf("volumes %v became %v", volumes(before), volumes(asleep))
	}
	hibernate(false)
	waitFor(t, "the cluster to wake", func() bool { return current(t).Status.Phase != v1alpha1.PhaseHibernated })
	ready(t)
	out := sql(t, `sql orders-primary.shop.svc "SELECT v FROM t WHERE id = 10; INSERT INTO t VALUES (11, 'after the sleep')"`)
	if !strings.Contains(out, "before the sleep") {
		t.Errorf("an acknowledged commit is gone; the client printed:\n%s", out)
	}
	if awake := inventoryOf(t, string(current(t).UID)); !slices.Equal(volumes(awake), volumes(before)) {
		t.Errorf("volumes %v became %v", volumes(before), volumes(awake))
	}
}

func Test09SpecChangesAreRolledThroughTheMembers(t *testing.T) {
	sql(t, `sql orders-primary.shop.svc "INSERT INTO t VALUES (20, 'before the changes')"`)
	uid := string(current(t).UID)
	stable := func() bool {
		c := current(t)
		progressing := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing)
		return c.Status.ObservedGeneration == c.Generation && c.Status.Phase == v1alpha1.PhaseReady && progressing != nil && progressing.Reason == v1alpha1.ReasonStable
	}
	patch := func(text string) {
		if err := lab.Client.Patch(t.Context(), current(t), client.RawPatch(client.Merge.Type(), []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	running := func() (found []inventory.Instance) {
		for _, in := range inventoryOf(t, uid).Instances {
			if in.State == inventory.StateRunning {
				found = append(found, in)
			}
		}
		return found
	}

	patch(`{"spec":{"replicas":3}}`)
	waitFor(t, "the fourth member to leave", func() bool { return stable() && len(current(t).Status.Members) == 3 })
	c := current(t)
	if len(c.Status.Voters.Names) != 3 || c.Status.Voters.WaitFor != 1 || len(running()) != 3 {
		t.Errorf("voters %+v, %d instances", c.Status.Voters, len(running()))
	}
	// Test05's primary may have been rebuilt, for a commit that nobody acknowledged: a snapshot is kept of that, too.
	found := inventoryOf(t, uid)
	left := slices.DeleteFunc(slices.Clone(found.Snapshots), func(s inventory.Snapshot) bool { return !strings.HasPrefix(s.Tags[awsapi.TagPurpose], "scalein-") })
	if len(left) != 1 || left[0].Member != "orders-3" || len(found.Volumes) != 3 {
		t.Errorf("%+v are left of the member that left, and %d volumes", left, len(found.Volumes))
	}

	size := c.StorageGiB() + 1
	patch(fmt.Sprintf(`{"spec":{"storage":{"size":"%dGi"}}}`, size))
	waitFor(t, "the volumes to grow", func() bool {
		return stable() && !slices.ContainsFunc(inventoryOf(t, uid).Volumes, func(v inventory.Volume) bool { return v.SizeGiB != size })
	})

	before, kept := running(), volumes(inventoryOf(t, uid))
	patch(`{"spec":{"aws":{"instanceType":"m6i.xlarge"}}}`)
	waitFor(t, "every instance to be replaced", func() bool {
		now := running()
		return stable() && len(now) == 3 && !slices.ContainsFunc(now, func(in inventory.Instance) bool {
			return slices.ContainsFunc(before, func(old inventory.Instance) bool { return old.ID == in.ID })
		})
	})
	if now := volumes(inventoryOf(t, uid)); !slices.Equal(now, kept) {
		t.Errorf("volumes %v became %v", kept, now)
	}
	if last := current(t).Status.LastPromotion; last == nil || last.Kind != "Switchover" {
		t.Errorf("the primary was not replaced after a switchover: %+v", last)
	}

	patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRestartedAt, time.Now().UTC().Format(time.RFC3339)))
	asked := time.Now()
	waitFor(t, "every mysqld to be restarted", func() bool {
		out := sql(t, `for m in orders-0 orders-1 orders-2; do sql $m.orders.shop.svc "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'" || echo none; done`)
		restarted := 0
		for _, line := range strings.Fields(out) {
			if up, err := strconv.Atoi(line); err == nil && time.Duration(up)*time.Second < time.Since(asked)+2*time.Second {
				restarted++
			}
		}
		return restarted == 3 && stable()
	})
	out := sql(t, `sql orders-primary.shop.svc "SELECT v FROM t WHERE id = 20; INSERT INTO t VALUES (21, 'after the changes')"`)
	if !strings.Contains(out, "before the changes") {
		t.Errorf("an acknowledged commit is gone; the client printed:\n%s", out)
	}
}

// TestNothingSecretIsTold by what the cluster has been through so far: in objects that hold no secrets, events, the operator's log, the
// instances' consoles and the arguments of every process, those on the instances among them.
func TestNothingSecretIsTold(t *testing.T) {
	ctx, c := t.Context(), current(t)
	namespace := client.InNamespace(c.Namespace)
	var secrets corev1.SecretList
	var configs corev1.ConfigMapList
	var happened eventsv1.EventList
	for _, list := range []client.ObjectList{&secrets, &configs, &happened} {
		if err := lab.Client.List(ctx, list, namespace); err != nil {
			t.Fatal(err)
		}
	}
	told := map[string]string{}
	for name, what := range map[string]any{"the cluster": c, "ConfigMaps": configs, "events": happened} {
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		told[name] = string(text)
	}
	var err error
	if told["the operator's log"], err = lab.OperatorLogs(ctx, 1<<20); err != nil {
		t.Fatal(err)
	}
	machines := inventoryOf(t, string(c.UID)).Instances
	for _, in := range machines {
		if told["console of "+in.ID], err = aws(t).ConsoleOutput(ctx, in.ID); err != nil {
			t.Fatal(err)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range processes {
		if line, err := os.ReadFile(file); err == nil { // it may have ended
			told["arguments"] += string(line) + "\n"
		}
	}
	if !strings.Contains(told["arguments"], "mysqld") || !strings.Contains(told["events"], "PhaseReady") || !strings.Contains(told["the operator's log"], "orders") {
		t.Errorf("what is told is not all here: %d processes, %d events, a log of %d bytes", len(processes), len(happened.Items), len(told["the operator's log"]))
	}
	tried := 0
	for _, secret := range secrets.Items {
		for _, key := range []string{"password", "tls.key", "join.key"} {
			value := secret.Data[key]
			if key == "tls.key" && len(value) > 0 {
				value = bytes.Split(value, []byte("\n"))[1] // what is between the lines that every key has
			}
			for _, form := range []string{string(value), hex.EncodeToString(value), base64.StdEncoding.EncodeToString(value)} {
				for where, text := range told {
					if len(value) > 0 && strings.Contains(text, form) {
						t.Errorf("%s of Secret %s is in %s", key, secret.Name, where)
					}
				}
			}
			if len(value) > 0 {
				tried++
			}
		}
	}
	if tried < 4 { // the authority's key and what members join with, the operator's key, the application's password
		t.Errorf("only %d secrets were looked for", tried)
	}
}

// volumes are the ids of an inventory's volumes, in order.
func volumes(found inventory.Inventory) []string {
	var ids []string
	for _, v := range found.Volumes {
		ids = append(ids, v.ID)
	}
	slices.Sort(ids)
	return ids
}

func Test10ProtectedClusterIsNotDeleted(t *testing.T) {
	c := current(t)
	err := lab.Client.Delete(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "deletionProtection") {
		t.Errorf("deleting a protected cluster: %v", err)
	}
}

// Test11 ends with a cluster that is on its way out and waits for a person; Test12 is that person.
func Test11ProtectedClusterSurvivesTheDeletionOfItsCRD(t *testing.T) {
	c := current(t)
	before := inventoryOf(t, string(c.UID))
	if _, err := lab.Kubectl(t.Context(), "", "delete", "crd", crd, "--wait=false"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the condition that says how to go on", func() bool { return saysHowToGoOn(current(t)) })
	sql(t, `sql orders-primary.shop.svc "INSERT INTO t VALUES (12, 'without a CRD')"`)
	// Its primary is replaced as ever.
	id := ""
	for _, m := range current(t).Status.Members {
		if m.Name == current(t).Status.Primary {
			id = m.InstanceID
		}
	}
	if err := aws(t).StopInstance(t.Context(), string(current(t).UID), id, ec2.StopPower); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "somebody to notice", func() bool { return current(t).Status.Phase != v1alpha1.PhaseReady })
	ready(t)
	out := sql(t, `sql orders-primary.shop.svc "SELECT v FROM t WHERE id = 12; INSERT INTO t VALUES (13, 'still without')"`)
	if !strings.Contains(out, "without a CRD") {
		t.Errorf("the client printed:\n%s", out)
	}
	untouched(t, before, string(c.UID))
}

// Test12 leaves two snapshots: the final one, and that of the member which left in Test09.
func Test12DeletionLeavesNothingButTheFinalSnapshots(t *testing.T) {
	c := current(t)
	if err := lab.Delete(t.Context(), orders, changeTimeout); err != nil {
		t.Fatal(err)
	}
	found := inventoryOf(t, string(c.UID))
	for _, in := range found.Instances {
		if in.State != inventory.StateTerminated {
			t.Errorf("instance %s is %s", in.ID, in.State)
		}
	}
	if len(found.Volumes) != 0 || len(found.SecurityGroups) != 0 || len(found.Snapshots) != 2 {
		t.Errorf("left: %d volumes, %d security groups, %d snapshots", len(found.Volumes), len(found.SecurityGroups), len(found.Snapshots))
	}
}

// waitFor polls until done or fails the test.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	waitUpTo(t, changeTimeout, orders, what, done)
}

// waitUpTo waits until something is done, and says how a cluster is when it is not done in time.
func waitUpTo(t *testing.T, limit time.Duration, cluster client.ObjectKey, what string, done func() bool) {
	t.Helper()
	waitEvery(t, time.Second, limit, cluster, what, done)
}

// waitEvery is waitUpTo with looks as often as a scenario needs that must not come too late.
func waitEvery(t *testing.T, pause, limit time.Duration, cluster client.ObjectKey, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			var c v1alpha1.MySQLCluster
			if err := lab.Client.Get(t.Context(), cluster, &c); err != nil {
				t.Errorf("read %s: %v", cluster, err)
			}
			t.Fatalf("waited in vain for %s\n%s", what, conditions(&c))
		case <-time.After(pause):
		}
	}
}
