// Package resources builds the Kubernetes objects that a MySQLCluster owns: pure functions from the cluster and what is
// known of its members to apply configurations, which the controller applies by server-side apply. The same input always
// gives the same output, in the same order, so that a steady cluster causes no writes.
package resources

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// Values of the label v1alpha1.LabelComponent: which of the cluster's objects this is.
const (
	ComponentPrimary     = "primary"
	ComponentReplicas    = "replicas"
	ComponentHeadless    = "headless"
	ComponentCA          = "ca"
	ComponentOperatorTLS = "operator-tls"
	ComponentApp         = "app"
	ComponentMembers     = "members"
)

const (
	// applicationName is the value of app.kubernetes.io/name.
	applicationName = "mysql"
	// ownerKind is the kind that owns all that is built here.
	ownerKind = "MySQLCluster"
)

// Names are the names of the objects that belong to a cluster. EndpointSlices are named as their Services.
type Names struct {
	// Primary, Replicas and Headless are the Services.
	Primary, Replicas, Headless string
	// CA, OperatorTLS and App are the Secrets of the certificate authority, of the operator's login and of the application's owner.
	CA, OperatorTLS, App string
	// Members is the ConfigMap with the records.
	Members string
	// BackupAccount is the ServiceAccount of the backup pods, with its Role and RoleBinding; BackupTLS the Secret with their certificate.
	BackupAccount, BackupTLS string
	// Recovery is the Job that restores, and the ConfigMap in which its pod reports.
	Recovery string
}

// NamesOf returns the names of the objects of a cluster of this name.
func NamesOf(cluster string) Names {
	return Names{
		Primary: cluster + "-primary", Replicas: cluster + "-replicas", Headless: cluster,
		CA: cluster + "-ca", OperatorTLS: cluster + "-operator-tls", App: cluster + "-app",
		Members:       cluster + "-members",
		BackupAccount: cluster + "-backup", BackupTLS: cluster + "-backup-tls", Recovery: cluster + "-recovery",
	}
}

// Labels returns the labels of one of the cluster's objects.
func Labels(c *v1alpha1.MySQLCluster, component string) map[string]string {
	return map[string]string{
		v1alpha1.LabelCluster:   c.Name,
		v1alpha1.LabelComponent: component,
		v1alpha1.LabelManagedBy: v1alpha1.FieldManager,
		v1alpha1.LabelName:      applicationName,
		v1alpha1.LabelInstance:  c.Name,
	}
}

// mark tells of which cluster an object is also when its owner was taken off it, as by a deletion with --cascade=orphan.
func mark(c *v1alpha1.MySQLCluster) map[string]string {
	return map[string]string{v1alpha1.AnnotationClusterUID: string(c.UID)}
}

// object is what can be marked as a cluster's.
type object[T any] interface {
	WithLabels(map[string]string) T
	WithAnnotations(map[string]string) T
	WithOwnerReferences(...*metav1ac.OwnerReferenceApplyConfiguration) T
}

// ours gives an object the labels of a component, the mark and the owner.
func ours[T object[T]](o T, c *v1alpha1.MySQLCluster, component string) T {
	return o.WithLabels(Labels(c, component)).WithAnnotations(mark(c)).WithOwnerReferences(owner(c))
}

// owner returns the reference that makes the cluster the one controller of an object, so that garbage collection removes
// it with the cluster. It is written by hand because an object from a cache may lack its kind.
func owner(c *v1alpha1.MySQLCluster) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind(ownerKind).
		WithName(c.Name).
		WithUID(c.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
