// Package v1alpha1 is the contract between a user and the operator: the types of the API group
// mysql.alx.ke, their validation, and the constants (phases, conditions, reasons, tags, annotations)
// that appear in front of a user.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=mysql.alx.ke
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "mysql.alx.ke", Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion by the name that generated code knows it by.
var SchemeGroupVersion = GroupVersion

// SchemeBuilder collects the functions that add this package's kinds to a scheme.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MySQLCluster{}, &MySQLClusterList{}, &MySQLBackup{}, &MySQLBackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
