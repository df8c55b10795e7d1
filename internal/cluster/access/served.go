package access

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
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// A cluster must be deletable after its namespace has lost the leave to use a role. But a role that was never lent to it is not
// taken on because somebody makes a cluster that names it, writes records as if it had begun, and deletes it: the records are in
// his own namespace. So the operator marks what it serves, before it makes anything, with what nobody else can write.

const (
	// servedKey is the key of ServedKeySecret, servedKeyBytes the length of what it holds: that of the hash.
	servedKey      = "key"
	servedKeyBytes = sha256.Size
)

// UnlessServed returns why a cluster whose account the policy does not allow may not go on with it, or nil when it may: to be
// taken down, or because nobody can tell what the policy allows at the moment. The operator's own identity is lent to nobody
// by that: all that is asked of it is what carries the cluster's UID, and nothing else is changed.
func (r *Access) UnlessServed(ctx context.Context, s *pass.Pass) (*engine.Problem, error) {
	role := s.Cluster.Spec.AWS.RoleARN
	if !s.Deleting() && (!s.Access.Unread || s.Records().Account == "") {
		return &engine.Problem{Reason: v1alpha1.ReasonNotPermitted, Message: s.Access.Violations[0].Message, After: engine.AfterPerson}, nil
	}
	if role == "" {
		return nil, nil
	}
	have := s.Cluster.Annotations[v1alpha1.AnnotationServed]
	if have != "" {
		want, err := r.servedMark(ctx, s)
		if err != nil || hmac.Equal([]byte(have), []byte(want)) {
			return nil, err
		}
	}
	return &engine.Problem{Reason: v1alpha1.ReasonNotPermitted, After: engine.AfterPerson, Message: fmt.Sprintf(
		"namespace %s may not have the operator assume %s, and nothing proves that this cluster was ever served with it (annotation %s): nothing is looked for in AWS. Have the administrator list the role in ConfigMap %s until the cluster is gone; or, if it has nothing in AWS, set the annotation %s=true",
		s.Cluster.Namespace, role, v1alpha1.AnnotationServed, v1alpha1.PolicyConfigMap, v1alpha1.AnnotationAbandonCloudResources)}, nil
}

// recordServed marks a cluster as one that is served with the role of its spec. Of one that has begun already nothing waits for it.
func (r *Access) recordServed(ctx context.Context, s *pass.Pass) error {
	if s.Access.Cloud == nil || s.Access.Refused || s.Deleting() || s.Cluster.Spec.AWS.RoleARN == "" || s.Cluster.Spec.AWS.CredentialsSecretRef != nil {
		return nil
	}
	err := r.markServed(ctx, s)
	if err != nil && s.Records().Account != "" {
		s.Result.Problems = append(s.Result.Problems, pass.AsProblem(err))
		return nil
	}
	return err
}

func (r *Access) markServed(ctx context.Context, s *pass.Pass) error {
	mark, err := r.servedMark(ctx, s)
	if err != nil || s.Cluster.Annotations[v1alpha1.AnnotationServed] == mark {
		return err
	}
	before := s.Cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.Cluster.ObjectMeta, v1alpha1.AnnotationServed, mark)
	if err := r.Client.Patch(ctx, s.Cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("mark the cluster as served: %w", err)
	}
	return nil
}

// servedMark is the value of AnnotationServed for a cluster as it is.
func (r *Access) servedMark(ctx context.Context, s *pass.Pass) (string, error) {
	key, err := r.servedKey(ctx)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "v1\n%s\n%s", s.UID(), s.Cluster.Spec.AWS.RoleARN)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// servedKey reads the key, or makes it. The cache is not believed about its absence, and one that is there is never replaced.
func (r *Access) servedKey(ctx context.Context) ([]byte, error) {
	name := client.ObjectKey{Namespace: r.Config.SystemNamespace, Name: v1alpha1.ServedKeySecret}
	var secret corev1.Secret
	err := r.Client.Get(ctx, name, &secret)
	if apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, name, &secret)
	}
	if apierrors.IsNotFound(err) {
		err = r.makeServedKey(ctx, &secret)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s of the operator's namespace: %w", name.Name, err)
	}
	key := secret.Data[servedKey]
	if len(key) < servedKeyBytes {
		return nil, &engine.Problem{Reason: v1alpha1.ReasonForeignResource, After: engine.AfterPerson,
			Message: fmt.Sprintf("Secret %s/%s holds no key of %d bytes; delete it, and the operator makes another", name.Namespace, name.Name, servedKeyBytes)}
	}
	return key, nil
}

// makeServedKey makes the key, unless another process was faster: then it reads that one's in the next pass.
func (r *Access) makeServedKey(ctx context.Context, secret *corev1.Secret) error {
	key := make([]byte, servedKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	*secret = corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Config.SystemNamespace, Name: v1alpha1.ServedKeySecret,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.FieldManager}},
		Type: corev1.SecretTypeOpaque, Immutable: ptr.To(true), Data: map[string][]byte{servedKey: key},
	}
	return r.Client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManager))
}
