package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// DefaultServiceAccount is the ServiceAccount in the operator's manifests. A lease without AnnotationServiceAccount is judged by it.
const DefaultServiceAccount = "nairobi-mysql-controller-manager"

const (
	// answersLast is how long the answer to a review is used.
	answersLast = 10 * time.Second
	// reviewTimeout limits all reviews of one look at the leases. It leaves time to renew our own.
	reviewTimeout = 3 * time.Second
)

// Review asks the API server to judge review, and fills in its status.
type Review func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error

// OfInstallation says whether a lease belongs to an installation of the operator: whether the ServiceAccount that it names, in the
// lease's own namespace, may write the status of every MySQLCluster. Whoever edits a namespace may create a lease of this name in it.
// Only who may act as such a ServiceAccount is an operator. Where reviews are forbidden, every lease counts.
func OfInstallation(ctx context.Context, ask Review, lease *coordination.Lease) (bool, error) {
	account := lease.Annotations[v1alpha1.AnnotationServiceAccount]
	if account == "" {
		account = DefaultServiceAccount
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + lease.Namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + lease.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Resource: "mysqlclusters", Subresource: "status", Verb: "patch",
		},
	}}
	switch err := ask(ctx, review); {
	case apierrors.IsForbidden(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("review what ServiceAccount %s of namespace %s may do: %w", account, lease.Namespace, err)
	}
	return review.Status.Allowed, nil
}

// reviews keeps the answers of OfInstallation for a short while: leases are looked at with each renewal, and before each session.
type reviews struct {
	ask   Review
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[account]answer
}

// account is what a lease is judged by.
type account struct{ namespace, name string }

type answer struct {
	allowed bool
	until   time.Time
}

// reviewsOf asks the API server of a client.
func reviewsOf(access authorizationclient.SubjectAccessReviewsGetter, clock clock.PassiveClock) *reviews {
	ask := func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error {
		answered, err := access.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil {
			review.Status = answered.Status
		}
		return err
	}
	return &reviews{ask: ask, clock: clock, answers: map[account]answer{}}
}

// ofInstallation is OfInstallation, with answers that are at most answersLast old.
func (r *reviews) ofInstallation(ctx context.Context, lease *coordination.Lease) (bool, error) {
	key := account{lease.Namespace, lease.Annotations[v1alpha1.AnnotationServiceAccount]}
	if kept, ok := r.kept(key); ok {
		return kept.allowed, nil
	}
	allowed, err := OfInstallation(ctx, r.ask, lease)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[key] = answer{allowed: allowed, until: r.clock.Now().Add(answersLast)}
	return allowed, nil
}

// kept returns the answer that is known, and removes those that are too old.
func (r *reviews) kept(key account) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for known, a := range r.answers {
		if !now.Before(a.until) {
			delete(r.answers, known)
		}
	}
	a, ok := r.answers[key]
	return a, ok
}

// signed writes the ServiceAccount of this process into each lease that it writes.
type signed struct {
	coordinationv1.LeasesGetter
	account string
}

func (s signed) Leases(namespace string) coordinationv1.LeaseInterface {
	return signedLeases{s.LeasesGetter.Leases(namespace), s.account}
}

type signedLeases struct {
	coordinationv1.LeaseInterface
	account string
}

func (s signedLeases) Create(ctx context.Context, lease *coordination.Lease, o metav1.CreateOptions) (*coordination.Lease, error) {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationServiceAccount, s.account)
	return s.LeaseInterface.Create(ctx, lease, o)
}

func (s signedLeases) Update(ctx context.Context, lease *coordination.Lease, o metav1.UpdateOptions) (*coordination.Lease, error) {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationServiceAccount, s.account)
	return s.LeaseInterface.Update(ctx, lease, o)
}
