package pass

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/text"
)

// Conditions sets conditions of a cluster for its present generation.
type Conditions struct{ Cluster *v1alpha1.MySQLCluster }

// KeepTypes returns the conditions of the given types, and removes all others from the list.
func KeepTypes(conditions []metav1.Condition, types []string) []metav1.Condition {
	return slices.DeleteFunc(conditions, func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
}

// longestMessage is how long the message of a condition may be, in bytes. The API server takes 32768; a thousand statuses are kept in memory,
// and servers and AWS have a say in what the messages cite.
const longestMessage = 4096

// Set sets a condition for the present generation.
func (c Conditions) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.Cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Shorten(message, longestMessage), ObservedGeneration: c.Cluster.Generation,
	})
}
