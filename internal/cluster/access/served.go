package access

import (
	"context"
	"crypto/hmac"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
)

// A cluster must be deletable after its namespace has lost the leave to use a role. But a role that was never lent to it is not
// taken on because somebody makes a cluster that names it, writes records as if it had begun, and deletes it: the records are in
// his own namespace. So the operator marks what it serves, before it makes anything, with what nobody else can write.

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
	return r.Marker().Of(ctx, fmt.Sprintf("v1\n%s\n%s", s.UID(), s.Cluster.Spec.AWS.RoleARN))
}
