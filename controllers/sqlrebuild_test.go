package controllers

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestReplicaThatKeepsCrashingIsRebuilt: each read of its damaged pages ends mysqld, which is reported and costs its vote. A person has
// it rebuilt: once, with a snapshot taken before, also by an operator that starts in the middle. Nobody is rebuilt who must not be.
func TestReplicaThatKeepsCrashingIsRebuilt(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	ask := func(member string) {
		w.world.change(func(c *v1alpha1.MySQLCluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationRebuild, member)
		})
	}
	answered := func() bool {
		c, _ := w.get()
		return c.Annotations[v1alpha1.AnnotationRebuild] == ""
	}
	c, _ := w.get()
	primary, replica := c.Status.Primary, "orders-1"
	if primary == replica {
		replica = "orders-2"
	}
	var clones atomic.Int32
	count := func(op, phase string) error {
		if op == "clone/clone" && phase == "before" {
			clones.Add(1)
		}
		return nil
	}
	o := w.newSQLOperator(&operator{}, count)
	for member, why := range map[string]string{primary: "is the primary; switch over to another member first", "payments-1": "is no member of this cluster"} {
		ask(member)
		w.drive(o, sqlPatience, answered)
		if said := eventsOf(o); !strings.Contains(said, "RebuildRefused") || !strings.Contains(said, why) {
			t.Errorf("of %s events tell: %s", member, said)
		}
	}
	if clones.Load() > 0 {
		t.Error("something was cloned all the same")
	}
	w.damage(o, primary, replica)
	crashing := w.conditionHas(v1alpha1.ConditionDegraded, "MemberCrashing", "mysqld of "+replica+" has crashed repeatedly", "page corruption")
	for tries := 0; !crashing() && tries < 6; tries++ {
		w.crash(o, replica)
	}
	w.drive(o, sqlPatience, func() bool { return crashing() && w.voters() == 2 })
	w.passes(o, 5)
	if w.voters() != 2 {
		t.Error("it got its vote back although it is unstable")
	}
	ask(replica)
	w.drive(o, sqlPatience, func() bool { return clones.Load() > 0 })
	o.kill()
	next := w.newSQLOperator(&operator{}, count)
	w.drive(next, sqlPatience, func() bool { return answered() && w.unsettled() == "" })
	if said := eventsOf(next); !strings.Contains(said, "MemberRebuilt") || !strings.Contains(said, "Rebuilt "+replica) {
		t.Errorf("events tell: %s", said)
	}
	before := clones.Load()
	if w.passes(next, 3); clones.Load() != before {
		t.Errorf("it was cloned again, %d times in all", clones.Load())
	}
	if w.drive(next, sqlPatience, w.conditionHas(v1alpha1.ConditionDegraded, "False/")); w.voters() != 3 {
		t.Errorf("%d members vote", w.voters())
	}
	c, _ = w.get()
	if c.Status.QuarantineSnapshots != 1 || c.Status.Primary != primary {
		t.Errorf("%d snapshots are kept, the primary is %s", c.Status.QuarantineSnapshots, c.Status.Primary)
	}
}

// eventsOf is what an operator told in events since it was asked last.
func eventsOf(o *operator) string {
	var said []string
	recorder, _ := o.Events.(*events.FakeRecorder)
	for len(recorder.Events) > 0 {
		said = append(said, <-recorder.Events)
	}
	return strings.Join(said, "\n")
}

// voters is how many members vote, as status says.
func (w *sqlWorld) voters() int {
	c, _ := w.get()
	if c.Status.Voters == nil {
		return 0
	}
	return len(c.Status.Voters.Names)
}

// server is the one of a member.
func (w *sqlWorld) server(member string) *mysqld.Server {
	w.t.Helper()
	for _, s := range w.running() {
		if s.Name == member {
			return s
		}
	}
	w.t.Fatalf("%s does not run", member)
	return nil
}

// damage makes a table, and damages its pages on a replica's disk while its mysqld is down.
func (w *sqlWorld) damage(o *operator, primary, replica string) {
	t, ctx, s := w.t, w.t.Context(), w.server(replica)
	t.Helper()
	_, err := w.server(primary).SQL(ctx, `CREATE DATABASE crash; CREATE TABLE crash.t (id INT PRIMARY KEY, filler VARBINARY(4000));
		INSERT INTO crash.t SELECT seq, REPEAT('x', 4000) FROM (WITH RECURSIVE s (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < 100) SELECT seq FROM s) AS numbers`)
	must(t, err)
	w.drive(o, sqlPatience, func() bool {
		n, err := s.SQL(ctx, "SELECT COUNT(*) FROM crash.t")
		return err == nil && strings.TrimSpace(n) == "100"
	})
	_, _ = s.SQL(ctx, "SET GLOBAL innodb_fast_shutdown = 0; SHUTDOWN") // so that everything is in the file
	for deadline := time.Now().Add(sqlPatience); s.Running() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	s.Kill()
	file := filepath.Join(filepath.Dir(filepath.Dir(s.Socket())), "volume", "data", "crash", "t.ibd")
	data, err := os.ReadFile(file)
	must(t, err)
	const pageSize = 16 << 10
	for at := 5 * pageSize; at+pageSize <= len(data); at += pageSize {
		copy(data[at+200:], bytes.Repeat([]byte{0xab}, 4000))
	}
	must(t, os.WriteFile(file, data, 0o600))
	must(t, s.Boot(ctx))
	w.drive(o, sqlPatience, func() bool { return w.unsettled() == "" })
}

// crash reads the damaged pages, and starts mysqld again as systemd does.
func (w *sqlWorld) crash(o *operator, replica string) {
	t, ctx, s := w.t, w.t.Context(), w.server(replica)
	t.Helper()
	_, err := s.SQL(ctx, "SELECT SUM(LENGTH(filler)) FROM crash.t")
	for deadline := time.Now().Add(sqlPatience); s.Running() && time.Now().Before(deadline); { // the client loses it before it has ended
		time.Sleep(20 * time.Millisecond)
	}
	if s.Running() {
		t.Errorf("mysqld reads damaged pages and goes on; the client was told %v", err)
	}
	s.Kill()
	must(t, s.Boot(ctx))
	w.passes(o, 3)
}
