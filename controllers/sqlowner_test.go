package controllers

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestAnOwnerThatIsThereAlready: when spec.database is added later, an account of its owner's name keeps what it has until a person hands it
// over. Nothing else waits for that. Its privileges follow partial_revokes.
func TestAnOwnerThatIsThereAlready(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	w := newSQLWorld(t, farm, func(c *v1alpha1.MySQLCluster) { c.Spec.Replicas, c.Spec.Database = ptr.To[int32](1), nil })
	o := w.newSQLOperator(&operator{}, nil)
	w.drive(o, sqlPatience, w.phaseIs(v1alpha1.PhaseReady))
	ask := func(query string) string {
		text, err := w.running()[0].SQL(t.Context(), query+";\n")
		must(t, err)
		return strings.TrimSpace(text)
	}
	ask("CREATE USER app IDENTIFIED BY 'theirs' ACCOUNT LOCK; SELECT 1")
	const account = "SELECT CONCAT(account_locked, HEX(authentication_string)) FROM mysql.user WHERE User = 'app' AND Host = '%'"
	before := ask(account)

	w.world.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Database = &v1alpha1.DatabaseSpec{Name: "web_shop"} })
	refused := w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonForeignResource, "'app'@'%'", "mysql.alx.ke/take-over-account=app")
	w.drive(o, sqlPatience, func() bool { return refused() && w.phaseIs(v1alpha1.PhaseReady)() })
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"max_heap_table_size": "1M"}
	})
	w.drive(o, sqlPatience, func() bool { return ask("SELECT @@GLOBAL.max_heap_table_size") == "1048576" })
	if after := ask(account); after != before || !refused() {
		t.Errorf("the account is %s, and was %s: %s", after, before, w.condition(v1alpha1.ConditionDegraded))
	}

	w.world.change(func(c *v1alpha1.MySQLCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationTakeOverAccount, "app")
	})
	w.drive(o, sqlPatience, func() bool {
		return strings.HasPrefix(ask(account), "N") && w.conditionHas(v1alpha1.ConditionDegraded, "False/")()
	})

	grants := func(database string) bool {
		return strings.Contains(strings.ReplaceAll(ask("SHOW GRANTS FOR app"), `\\`, `\`), "`"+database+"`.*")
	}
	if _, records := w.records(); !grants(`web\_shop`) || !strings.HasSuffix(records.Database, "/owned") {
		t.Errorf("the owner has %s, recorded is %s", ask("SHOW GRANTS FOR app"), records.Database)
	}
	for _, value := range []string{"ON", "OFF"} {
		literal := value == "ON"
		w.world.change(func(c *v1alpha1.MySQLCluster) { c.Spec.MySQLD["partial_revokes"] = value })
		w.drive(o, sqlPatience, func() bool {
			return ask("SELECT @@GLOBAL.partial_revokes") == fmt.Sprint(map[bool]int{true: 1, false: 0}[literal]) && grants("web_shop") == literal
		})
	}
	// An operator of before did not mark accounts: what it recorded is marked now.
	w.changeRecords(func(records *topology.ClusterRecord) { records.Database, _, _ = strings.Cut(records.Database, "/") })
	ask(`ALTER USER app ATTRIBUTE '{"nairobi_mysql": null}'; SELECT 1`)
	w.world.change(func(c *v1alpha1.MySQLCluster) { delete(c.Annotations, v1alpha1.AnnotationTakeOverAccount) })
	w.drive(o, sqlPatience, func() bool {
		return strings.Contains(ask("SELECT User_attributes FROM mysql.user WHERE User = 'app' AND Host = '%'"), string(w.cluster.UID))
	})
}
