package mark

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// PlaceOf returns the place in AnnotationPlace of a backup; nil when there is none, or when the operator did not write it.
func (m Marker) PlaceOf(ctx context.Context, b *v1alpha1.MySQLBackup) (*v1alpha1.ObjectStoreSource, error) {
	have, text, found := strings.Cut(b.Annotations[v1alpha1.AnnotationPlace], " ")
	if !found {
		return nil, nil
	}
	want, err := m.ofPlace(ctx, b, text)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(have), []byte(want)) {
		return nil, nil
	}
	var place v1alpha1.ObjectStoreSource
	if err := json.Unmarshal([]byte(text), &place); err != nil {
		return nil, fmt.Errorf("read the place of MySQLBackup %s: %w", b.Name, err)
	}
	return &place, nil
}

// SetPlace writes AnnotationPlace of a backup, unless it says so already. A backup that is gone needs none.
func (m Marker) SetPlace(ctx context.Context, b *v1alpha1.MySQLBackup, place v1alpha1.ObjectStoreSource) error {
	text, err := json.Marshal(place)
	if err != nil {
		return fmt.Errorf("write the place of MySQLBackup %s: %w", b.Name, err)
	}
	mark, err := m.ofPlace(ctx, b, string(text))
	if err != nil {
		return err
	}
	value := mark + " " + string(text)
	if b.Annotations[v1alpha1.AnnotationPlace] == value {
		return nil
	}
	before := b.DeepCopy()
	metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.AnnotationPlace, value)
	if err := m.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the place of MySQLBackup %s: %w", b.Name, err)
	}
	return nil
}

// ofPlace is good for one MySQLBackup: a copy of the annotation on another proves nothing.
func (m Marker) ofPlace(ctx context.Context, b *v1alpha1.MySQLBackup, text string) (string, error) {
	return m.Of(ctx, fmt.Sprintf("place v1\n%s\n%s", b.UID, text))
}
