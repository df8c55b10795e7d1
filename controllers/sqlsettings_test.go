package controllers

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestSettingsOfARunningServerArePutBack: what somebody changes at run time is set back without a restart, and what mysqld
// makes something else of is left at that.
func TestSettingsOfARunningServerArePutBack(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newTrio(t, farm)
	c, _ := w.get()
	before := c.DeepCopy()
	// mysqld takes as many files as its limit of connections makes it need.
	c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_heap_table_size": "1M", "open_files_limit": "300", "back_log": "101"}
	w.backLog, w.persisted = 101, "back_log,max_heap_table_size,open_files_limit"
	must(t, w.client.Patch(t.Context(), c, client.MergeFrom(before)))
	w.settle(w.life(0, diesBefore).operator)

	answers := func(query string) string {
		var all []string
		for _, s := range w.running() {
			text, err := s.SQL(t.Context(), query+";\n")
			must(t, err)
			all = append(all, strings.TrimSpace(text))
		}
		return strings.Join(all, " ")
	}
	if got := answers("SELECT @@max_heap_table_size"); got != "1048576 1048576 1048576" {
		t.Fatalf("max_heap_table_size is %s", got)
	}
	if got := answers("SELECT @@open_files_limit"); strings.Contains(got, "300 ") {
		t.Fatalf("open_files_limit is %s: this test needs a setting that mysqld changes", got)
	}
	answers("SET GLOBAL max_heap_table_size = 2097152; SELECT 1")
	k := &knife{operator: &operator{}}
	w.newSQLOperator(k.operator, k.hook)
	w.drive(k.operator, sqlPatience, func() bool { return answers("SELECT @@max_heap_table_size") == "1048576 1048576 1048576" })
	w.drive(k.operator, sqlPatience, func() bool { return w.unsettled() == "" })
	count := func(beginning string) (n int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, op := range k.began {
			if strings.HasPrefix(op, beginning) {
				n++
			}
		}
		return n
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		_, _ = w.pass(k.operator)
	}
	if restarts, tries := count("restart"), count("pin/open_files_limit"); restarts > 0 || tries > members {
		t.Errorf("%d restarts, open_files_limit was set %d times: %v", restarts, tries, k.began)
	}

	// A dynamic one that is taken out returns to its default without a restart.
	w.world.change(func(c *v1alpha1.MySQLCluster) { delete(c.Spec.MySQLD, "max_heap_table_size") })
	w.persisted = "back_log,open_files_limit"
	w.drive(k.operator, sqlPatience, func() bool { return answers("SELECT @@max_heap_table_size") == "16777216 16777216 16777216" })
	w.drive(k.operator, sqlPatience, func() bool { return w.unsettled() == "" })
	if restarts := count("restart"); restarts > 0 {
		t.Errorf("%d restarts: %v", restarts, k.began)
	}
	w.settle(k.operator)
	w.end()
}
