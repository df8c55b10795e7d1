package manager

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// TestSlimTakesNothingElse: what is kept of an object is all of it but who set which field.
func TestSlimTakesNothingElse(t *testing.T) {
	who := []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: metav1.ManagedFieldsOperationApply}}
	controller := true
	for name, want := range map[string]*corev1.Secret{
		"full": {
			ObjectMeta: metav1.ObjectMeta{
				Name: "orders-ca", Namespace: "shop", UID: "1", Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "2", Controller: &controller}, {Kind: "Node"}},
			},
			Data: map[string][]byte{"key": []byte("value")},
		},
		"bare":           {},
		"without owners": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			object := want.DeepCopy()
			object.ManagedFields = who
			got, err := slim(object)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("it became\n%+v\nand was\n%+v (%v)", got, want, err)
			}
		})
	}
	gone := cache.DeletedFinalStateUnknown{Key: "shop/orders-ca"}
	if got, err := slim(gone); err != nil || got != gone {
		t.Errorf("of one that is gone it makes %+v (%v)", got, err)
	}
}
