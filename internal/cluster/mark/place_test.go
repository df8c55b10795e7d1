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

func TestSamePlace(t *testing.T) {
	s3 := func(change func(*v1alpha1.S3Destination)) *v1alpha1.BackupDestination {
		d := bucket("my-backups")
		change(d.S3)
		return &d
	}
	claim := func(name string) *v1alpha1.BackupDestination {
		return &v1alpha1.BackupDestination{PersistentVolumeClaim: &v1alpha1.ClaimDestination{ClaimName: name}}
	}
	plain := s3(func(*v1alpha1.S3Destination) {})
	for name, row := range map[string]struct {
		other *v1alpha1.BackupDestination
		of    *v1alpha1.BackupDestination
		want  bool
	}{
		"nothing":           {nil, nil, false},
		"nothing reported":  {plain, nil, false},
		"the same":          {plain, s3(func(*v1alpha1.S3Destination) {}), true},
		"other credentials": {plain, s3(func(d *v1alpha1.S3Destination) { d.RoleARN = "arn" }), true},
		"another bucket":    {plain, s3(func(d *v1alpha1.S3Destination) { d.Bucket = "theirs" }), false},
		"another endpoint":  {plain, s3(func(d *v1alpha1.S3Destination) { d.Endpoint = "http://theirs" }), false},
		"another prefix":    {plain, s3(func(d *v1alpha1.S3Destination) { d.Prefix = "theirs" }), false},
		"a claim":           {plain, claim("nas"), false},
		"the same claim":    {claim("nas"), claim("nas"), true},
		"another claim":     {claim("nas"), claim("theirs"), false},
		"neither":           {&v1alpha1.BackupDestination{}, &v1alpha1.BackupDestination{}, false},
	} {
		if got := SamePlace(row.other, row.of); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
