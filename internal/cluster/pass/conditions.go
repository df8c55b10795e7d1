package pass

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Conditions sets conditions of a cluster for its present generation.
type Conditions struct{ Cluster *v1alpha1.MySQLCluster }

// Set sets a condition for the present generation.
func (c Conditions) Set(kind string, status metav1.ConditionStatus, reason, message string) {
	const longest = 32768 // metav1.Condition
	if len(message) > longest {
		message = message[:longest]
	}
	meta.SetStatusCondition(&c.Cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: c.Cluster.Generation,
	})
}
