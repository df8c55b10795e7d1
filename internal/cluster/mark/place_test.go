package mark

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

func bucket(name string) v1alpha1.BackupDestination {
	return v1alpha1.BackupDestination{S3: &v1alpha1.S3Destination{Bucket: name}}
}

// TestAPlaceIsTheOperatorsWord for one MySQLBackup, as long as its key is there.
func TestAPlaceIsTheOperatorsWord(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "1"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).Build()
	m := Marker{Client: c, Reader: c, Namespace: "system"}
	if err := m.SetPlace(t.Context(), b, v1alpha1.ObjectStoreSource{Destination: bucket("ours"), Path: "shop/orders/uid"}); err != nil {
		t.Fatal(err)
	}
	written := b.Annotations[v1alpha1.AnnotationPlace]
	for name, row := range map[string]struct {
		uid, annotation string
		proven          bool
	}{
		"its own":                  {"1", written, true},
		"none":                     {"1", "", false},
		"without a mark":           {"1", strings.SplitN(written, " ", 2)[1], false},
		"another text":             {"1", strings.Replace(written, "ours", "theirs", 1), false},
		"that of another backup":   {"2", written, false},
		"an empty mark of nothing": {"1", " ", false},
	} {
		have := &v1alpha1.MySQLBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: types.UID(row.uid), Annotations: map[string]string{v1alpha1.AnnotationPlace: row.annotation}}}
		place, err := m.PlaceOf(t.Context(), have)
		if err != nil || (place != nil) != row.proven || row.proven && (place.Destination.S3.Bucket != "ours" || place.Path != "shop/orders/uid") {
			t.Errorf("%s: %+v, %v", name, place, err)
		}
	}
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: v1alpha1.ServedKeySecret}}); err != nil {
		t.Fatal(err)
	}
	if place, err := m.PlaceOf(t.Context(), b); err != nil || place != nil {
		t.Errorf("with another key: %+v, %v", place, err)
	}
}
