package controllers

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestGoodSettingsBesideBadOnes: a value that mysqld does not start with, and a size that the instance has no memory for, are reported.
// They keep neither a static setting from coming into force nor a restart that was asked for from being carried out. The
// server has come up without the settings of its launch, as it does when it cannot start with them.
func TestGoodSettingsBesideBadOnes(t *testing.T) {
	t.Parallel()
	farm, err := mysqld.NewPrivateFarm(t.Context(), t.Output(), moto.VPCCIDR)
	must(t, err)
	t.Cleanup(func() { must(t, farm.Close()) })
	const static, dynamic = "innodb_ft_min_token_size", "max_heap_table_size"
	w := newSQLWorld(t, farm, func(c *v1alpha1.MySQLCluster) {
		c.Spec.Replicas = ptr.To[int32](1)
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"sql_mode": "NO_SUCH_MODE", "innodb_buffer_pool_size": "900G", static: "4", dynamic: "1M"}
	})
	var mu sync.Mutex
	var began []string
	o := w.newSQLOperator(&operator{}, func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		began = append(began, op)
		return nil
	})
	ask := func(query string) string {
		for _, s := range w.running() {
			if text, err := s.SQL(t.Context(), query+";\n"); err == nil {
				return strings.TrimSpace(text)
			}
		}
		return ""
	}
	reported := w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonSettingRefused, "sql_mode=NO_SUCH_MODE", "innodb_buffer_pool_size=900G is more than the 7.2 GiB")
	inForce := func() bool {
		return w.phaseIs(v1alpha1.PhaseReady)() && ask("SELECT CONCAT(@@"+static+", ' ', @@"+dynamic+")") == "4 1048576" && reported()
	}
	w.drive(o, sqlPatience, inForce)
	mu.Lock()
	if slices.ContainsFunc(began, func(op string) bool { return strings.Contains(op, "innodb_buffer_pool_size") }) {
		t.Errorf("mysqld was asked for more memory than there is: %v", began)
	}
	mu.Unlock()

	started := func() time.Time {
		at, err := strconv.ParseInt(ask("SELECT CAST(UNIX_TIMESTAMP() - VARIABLE_VALUE AS SIGNED) FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime'"), 10, 64)
		if err != nil {
			return time.Time{}
		}
		return time.Unix(at, 0)
	}
	time.Sleep(2 * time.Second) // Uptime counts whole seconds
	asked := time.Now().UTC().Truncate(time.Second)
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationRestartedAt, asked.Format(time.RFC3339))
	})
	w.drive(o, sqlPatience, func() bool { return !started().Before(asked) && inForce() })

	// Put right, they are in force, and nothing is reported.
	w.world.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.MySQLD["sql_mode"], c.Spec.MySQLD["innodb_buffer_pool_size"] = "ANSI_QUOTES", "64M"
	})
	w.drive(o, sqlPatience, func() bool {
		return ask("SELECT CONCAT(@@GLOBAL.sql_mode, ' ', @@innodb_buffer_pool_size)") == "ANSI_QUOTES 67108864" && w.conditionHas(v1alpha1.ConditionDegraded, "False/")()
	})
}

// TestAnInstanceTypeThatIsTooSmallIsNotLaunched: a member whose settings need the memory of its instance gets no smaller one, and the
// condition says why; with settings that fit it does.
func TestAnInstanceTypeThatIsTooSmallIsNotLaunched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.InstanceType = "m6i.4xlarge"
		c.Spec.MySQLD = map[string]v1alpha1.PlainValue{"innodb_buffer_pool_size": "40G"}
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	if got := w.machineOf(2).InstanceType; got != "m6i.4xlarge" {
		t.Fatalf("the instance is an %s", got)
	}
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.InstanceType = "m6i.large" })
	w.wait(time.Minute)
	w.damaged()
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonInvalidSpec, "spec.aws.instanceType", "innodb_buffer_pool_size=40G is more than the 7.2 GiB"))
	w.follow(o, 30)
	if in := w.machineOf(2); in != nil {
		t.Errorf("an %s was launched", in.InstanceType)
	}
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.MySQLD["innodb_buffer_pool_size"] = "4G" })
	w.drive(o, patience, func() bool { in := w.machineOf(2); return in != nil && string(in.InstanceType) == "m6i.large" })
}
