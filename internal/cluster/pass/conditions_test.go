package pass

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestEveryConditionIsKept: of a type that is not listed the operator would remove its own condition.
func TestEveryConditionIsKept(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/constants.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is && strings.HasPrefix(v.Names[0].Name, "Condition") {
			if value, is := v.Values[0].(*ast.BasicLit); is {
				types = append(types, strings.Trim(value.Value, `"`))
			}
		}
		return true
	})
	slices.Sort(types)
	if listed := slices.Sorted(slices.Values(v1alpha1.ClusterConditions)); len(types) == 0 || !slices.Equal(listed, types) {
		t.Errorf("the types are %v, and listed are %v", types, listed)
	}
}

// TestNoConditionIsTooLong: the API server refuses a status with a longer message in it.
func TestNoConditionIsTooLong(t *testing.T) {
	var cluster v1alpha1.MySQLCluster
	Conditions{&cluster}.Set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHealthy, "x"+strings.Repeat("ü", longestMessage))
	message := cluster.Status.Conditions[0].Message
	if len(message) > longestMessage || len(message) < longestMessage-3 || !utf8.ValidString(message) || !strings.HasSuffix(message, "ü…") {
		t.Errorf("the message has %d bytes and ends with %q", len(message), message[len(message)-10:])
	}
}
