package pass

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// OwnedBy says whether an object is the cluster's, by UID: the cluster controls it, or nobody does and it is marked as the cluster's.
func OwnedBy(obj client.Object, c *v1alpha1.MySQLCluster) bool { return OwnerOf(obj) == c.UID }

// OwnerOf returns the UID of what controls an object. A deletion of the cluster with --cascade=orphan takes the owner off each of its
// objects at once, however long the cluster goes on; the mark stays.
func OwnerOf(obj client.Object) types.UID {
	if by := metav1.GetControllerOf(obj); by != nil {
		return by.UID
	}
	return types.UID(obj.GetAnnotations()[v1alpha1.AnnotationClusterUID])
}

// Convert turns an apply configuration into an object, for the one case in which it must be created and not applied.
func Convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
