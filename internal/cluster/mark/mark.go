// Package mark proves that the operator itself wrote what is kept where others may write too.
package mark

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

const (
	// keyName is the key of ServedKeySecret, keyBytes the length of what it holds: that of the hash.
	keyName  = "key"
	keyBytes = sha256.Size
)

// Marker makes marks with the key in the operator's namespace.
type Marker struct {
	// Client reads the key from a cache and makes it. Reader reads past the cache.
	Client client.Client
	Reader client.Reader
	// Namespace is the operator's own.
	Namespace string
}

// Of returns the mark of a text: its HMAC, in hexadecimal digits.
func (m Marker) Of(ctx context.Context, text string) (string, error) {
	key, err := m.key(ctx)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// key reads the key, or makes it. The cache is not believed about its absence, and one that is there is never replaced.
func (m Marker) key(ctx context.Context) ([]byte, error) {
	name := client.ObjectKey{Namespace: m.Namespace, Name: v1alpha1.ServedKeySecret}
	var secret corev1.Secret
	err := m.Client.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		err = m.Reader.Get(ctx, name, &secret)
	}
	if apierrors.IsNotFound(err) {
		err = m.makeKey(ctx, &secret)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s of the operator's namespace: %w", name.Name, err)
	}
	key := secret.Data[keyName]
	if len(key) < keyBytes {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson,
			Message: fmt.Sprintf("Secret %s/%s holds no key of %d bytes; delete it, and the operator makes another", name.Namespace, name.Name, keyBytes)}
	}
	return key, nil
}

// makeKey makes the key, unless another process was faster: then the next call reads that one's.
func (m Marker) makeKey(ctx context.Context, secret *corev1.Secret) error {
	key := make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	*secret = corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: v1alpha1.ServedKeySecret,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}},
		Type: corev1.SecretTypeOpaque, Immutable: ptr.To(true), Data: map[string][]byte{keyName: key},
	}
	return m.Client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManager))
}
