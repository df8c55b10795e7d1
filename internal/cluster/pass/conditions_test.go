package pass

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestNoConditionIsTooLong: the API server refuses a status with a longer message in it.
func TestNoConditionIsTooLong(t *testing.T) {
	var cluster v1alpha1.MySQLCluster
	Conditions{&cluster}.Set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHealthy, "x"+strings.Repeat("ü", longestMessage))
	message := cluster.Status.Conditions[0].Message
	if len(message) > longestMessage || len(message) < longestMessage-3 || !utf8.ValidString(message) || !strings.HasSuffix(message, "ü…") {
		t.Errorf("the message has %d bytes and ends with %q", len(message), message[len(message)-10:])
	}
}
