package kstatus

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestTheDocumentedExpressions evaluates those that docs/gitops.md has for Flux.
func TestTheDocumentedExpressions(t *testing.T) {
	document, err := os.ReadFile("../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(spec:\n  healthCheckExprs:.*?)```").FindSubmatch(document)
	if block == nil {
		t.Fatal("docs/gitops.md has no healthCheckExprs")
	}
	var k struct {
		Spec struct {
			HealthCheckExprs []struct{ Failed, Current string } `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(block[1], &k); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.Variable("status", cel.DynType), cel.Variable("metadata", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	is := func(expression string, c *v1alpha1.MySQLCluster) bool {
		t.Helper()
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		if err != nil {
			t.Fatal(err)
		}
		result, _, err := program.Eval(map[string]any{"status": content["status"], "metadata": content["metadata"]})
		if err != nil {
			t.Fatal(err)
		}
		return result.Value() == true
	}
	cluster := func(phase v1alpha1.Phase, rollout bool, isTrue ...string) *v1alpha1.MySQLCluster {
		c := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		c.Status.ObservedGeneration, c.Status.Phase = 2, phase
		if rollout {
			c.Status.Rollout = &v1alpha1.RolloutStatus{}
		}
		for _, kind := range append(isTrue, v1alpha1.ConditionCloudReachable) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		return c
	}
	unseen := cluster(v1alpha1.PhaseReady, false, "Ready", "Available")
	unseen.Generation = 3
	for name, row := range map[string]struct {
		c               *v1alpha1.MySQLCluster
		failed, current bool
	}{
		"Ready":                      {cluster(v1alpha1.PhaseReady, false, "Ready", "Available"), false, true},
		"not seen":                   {unseen, false, false},
		"a rollout that waits":       {cluster(v1alpha1.PhaseReady, true, "Ready", "Available", "Reconciling"), false, false},
		"a repair":                   {cluster(v1alpha1.PhaseRepairing, false, "Available", "Reconciling"), false, true},
		"a repair during a rollout":  {cluster(v1alpha1.PhaseRepairing, true, "Available", "Reconciling"), false, false},
		"a repair without writes":    {cluster(v1alpha1.PhaseRepairing, false, "Reconciling"), false, false},
		"hibernated":                 {cluster(v1alpha1.PhaseHibernated, false), false, true},
		"stalled":                    {cluster(v1alpha1.PhaseProvisioning, false, "Stalled"), true, false},
		"a new cluster":              {cluster(v1alpha1.PhaseProvisioning, false, "Reconciling"), false, false},
		"a new cluster, not started": {cluster(v1alpha1.PhaseProvisioning, false), false, false},
	} {
		e := k.Spec.HealthCheckExprs[0]
		if failed, current := is(e.Failed, row.c), is(e.Current, row.c); failed != row.failed || current != row.current {
			t.Errorf("%s: failed %v, current %v", name, failed, current)
		}
	}
}
