package leader

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// TestOnlyARenewedLeaseOfAnotherCounts: one that nobody renews is that of an installation which is gone.
func TestOnlyARenewedLeaseOfAnotherCounts(t *testing.T) {
	ctx, now := t.Context(), clocktesting.NewFakePassiveClock(time.Now())
	leases := fake.NewClientset().CoordinationV1()
	var heard []string
	others := &installations{leases: leases, own: "system", clock: now, reviews: allowing(now), changed: func(i Installation) { heard = append(heard, i.Namespace) }}
	expect := func(when string, want bool) {
		t.Helper()
		found, err := others.live(ctx)
		if err != nil || (found != nil) != want {
			t.Fatalf("%s: %v, %v", when, found, err)
		}
	}
	place := func(namespace string, spec coordination.LeaseSpec) *coordination.Lease {
		t.Helper()
		lease, err := leases.Leases(namespace).Create(ctx, &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: namespace, ResourceVersion: "1"}, Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	place("system", coordination.LeaseSpec{HolderIdentity: ptr.To("us"), LeaseDurationSeconds: ptr.To[int32](15)})
	expect("our own", false)
	place("free", coordination.LeaseSpec{HolderIdentity: ptr.To(""), LeaseDurationSeconds: ptr.To[int32](15)})
	expect("one that is released", false)
	other := place("olm", coordination.LeaseSpec{HolderIdentity: ptr.To("them"), LeaseDurationSeconds: ptr.To[int32](15)})
	expect("a new one", true)
	now.SetTime(now.Now().Add(14 * time.Second))
	expect("one that may still be renewed", true)
	now.SetTime(now.Now().Add(time.Second))
	expect("one that was not renewed", false)
	other.ResourceVersion = "2"
	if _, err := leases.Leases("olm").Update(ctx, other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("one that is renewed again", true)
	if len(heard) != 3 || heard[0] != "olm" || heard[1] != "" || heard[2] != "olm" {
		t.Errorf("it was reported that these lead: %q", heard)
	}
}

// allowing are reviews that find every lease to be an installation's.
func allowing(clock clock.PassiveClock) *reviews {
	return &reviews{clock: clock, answers: map[account]answer{}, ask: func(_ context.Context, review *authorizationv1.SubjectAccessReview) error {
		review.Status.Allowed = true
		return nil
	}}
}

// TestALeaseOfNoInstallationIsIgnored: whoever edits a namespace may create a lease with the operator's name in it.
func TestALeaseOfNoInstallationIsIgnored(t *testing.T) {
	ctx, now := t.Context(), clocktesting.NewFakePassiveClock(time.Now())
	leases := fake.NewClientset().CoordinationV1()
	var asked []string
	var failure error
	judged := &reviews{clock: now, answers: map[account]answer{}, ask: func(_ context.Context, review *authorizationv1.SubjectAccessReview) error {
		asked = append(asked, review.Spec.User)
		review.Status.Allowed = strings.HasPrefix(review.Spec.User, "system:serviceaccount:olm:")
		return failure
	}}
	var ignored []string
	others := &installations{leases: leases, own: "system", clock: now, reviews: judged, ignored: func(i Installation) { ignored = append(ignored, i.Namespace) }}
	inner := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: LeaseName}, Client: signed{leases, "operator"}, LockConfig: resourcelock.ResourceLockConfig{Identity: "us"}}
	lock := &onlyOne{Interface: inner, others: others}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now.Now())}
	place := func(namespace string, annotations map[string]string) {
		t.Helper()
		lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName, Namespace: namespace, ResourceVersion: "1", Annotations: annotations},
			Spec: coordination.LeaseSpec{HolderIdentity: ptr.To("them"), LeaseDurationSeconds: ptr.To[int32](math.MaxInt32)}}
		if _, err := leases.Leases(namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	place("shop", nil)
	if err := lock.Create(ctx, record); err != nil {
		t.Fatalf("it does not lead beside a lease of no installation: %v", err)
	}
	for range 3 {
		if err := lock.Update(ctx, record); err != nil {
			t.Fatalf("it does not go on beside a lease of no installation: %v", err)
		}
	}
	if want := []string{"system:serviceaccount:shop:" + DefaultServiceAccount}; !slices.Equal(asked, want) || !slices.Equal(ignored, []string{"shop"}) {
		t.Errorf("asked about %q; ignored %q", asked, ignored)
	}
	now.SetTime(now.Now().Add(answersLast))
	failure = apierrors.NewTimeoutError("too slow", 1)
	if err := lock.Update(ctx, record); err != nil {
		t.Errorf("a leader does not go on while a review fails: %v", err)
	}
	others.hold(time.Time{})
	if _, _, err := lock.Get(ctx); err == nil {
		t.Error("it would begin to lead although a review fails")
	}
	failure = apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", nil)
	if err := lock.Update(ctx, record); !errors.Is(err, ErrOtherInstallation) {
		t.Errorf("it goes on although it may not ask about another's lease: %v", err)
	}
	failure = nil
	now.SetTime(now.Now().Add(answersLast))
	place("olm", map[string]string{v1alpha1.AnnotationServiceAccount: "manager"})
	if err := lock.Update(ctx, record); !errors.Is(err, ErrOtherInstallation) || asked[len(asked)-1] != "system:serviceaccount:olm:manager" {
		t.Errorf("beside another installation: %v; asked about %q", err, asked)
	}
	if seen, _, err := lock.Get(ctx); err != nil || seen.HolderIdentity != "them" || seen.LeaseDurationSeconds > 15 {
		t.Errorf("the election waits for %+v, %v", seen, err)
	}
	now.SetTime(now.Now().Add(Duration))
	if err := lock.Update(ctx, record); err != nil {
		t.Errorf("a lease that is not renewed counts for longer than ours would: %v", err)
	}
	own, err := leases.Leases("system").Get(ctx, LeaseName, metav1.GetOptions{})
	if err != nil || own.Annotations[v1alpha1.AnnotationServiceAccount] != "operator" {
		t.Errorf("our own lease is %+v, %v", own, err)
	}
}

// TestALeaderStopsBesideAnother: it takes no lease back that counts, and does not give its own back while its workers still run.
func TestALeaderStopsBesideAnother(t *testing.T) {
	ctx, now := t.Context(), clocktesting.NewFakePassiveClock(time.Now())
	leases := fake.NewClientset().CoordinationV1()
	inner := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: LeaseName}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: "us"}}
	lock := &onlyOne{Interface: inner, others: &installations{leases: leases, own: "system", clock: now, reviews: allowing(now)}}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15, RenewTime: metav1.Now()}
	if err := lock.Create(ctx, record); err != nil {
		t.Fatal(err)
	}
	other := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName}, Spec: coordination.LeaseSpec{HolderIdentity: ptr.To("them"), LeaseDurationSeconds: ptr.To[int32](15)}}
	if _, err := leases.Leases("olm").Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := lock.Update(ctx, record); !errors.Is(err, ErrOtherInstallation) {
		t.Errorf("a renewal beside another leader: %v", err)
	}
	if seen := holder(ctx, t, inner); seen != "us" {
		t.Errorf("the lease of a leader whose workers run is held by %q", seen)
	}
	if seen, _, err := lock.Get(ctx); err != nil || seen.HolderIdentity != "them" {
		t.Errorf("the election waits for %+v, %v", seen, err)
	}
	looked := &Lock{looked: inner, clock: now, others: lock.others}
	if err := looked.Check(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("whoever asks is answered %v", err)
	}
}

func holder(ctx context.Context, t *testing.T, lock resourcelock.Interface) string {
	t.Helper()
	record, _, err := lock.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

// TestALeaderGoesOnWhileTheListFails as long as its own lease is renewed without a gap. Nobody begins to lead, or leads again after a
// gap, without having seen that no other does.
func TestALeaderGoesOnWhileTheListFails(t *testing.T) {
	ctx, now := t.Context(), clocktesting.NewFakePassiveClock(time.Now())
	client := fake.NewClientset()
	var failure error
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return failure != nil, nil, failure })
	leases := client.CoordinationV1()
	inner := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: LeaseName}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: "us"}}
	lock := &onlyOne{Interface: inner, others: &installations{leases: leases, own: "system", clock: now, reviews: allowing(now)}}
	looked := &Lock{looked: inner, clock: now, others: lock.others}
	record := func() resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now.Now())}
	}
	renew := func(when string, after time.Duration, want bool) {
		t.Helper()
		now.SetTime(now.Now().Add(after))
		if err := lock.Update(ctx, record()); (err == nil) != want {
			t.Errorf("%s: a renewal: %v", when, err)
		}
		if err := looked.Check(ctx); (err == nil) != want {
			t.Errorf("%s: whoever asks is answered %v", when, err)
		}
		if _, _, err := lock.Get(ctx); (err == nil) != want {
			t.Errorf("%s: the election reads the lease: %v", when, err)
		}
	}
	failure = apierrors.NewTimeoutError("too slow", 1)
	if err := lock.Create(ctx, record()); err == nil {
		t.Error("it leads, and has not seen that no other does")
	}
	renew("it has not seen that no other leads", 2*time.Second, false)
	failure = nil
	renew("the list is answered", 2*time.Second, true)
	failure = apierrors.NewTimeoutError("too slow", 1)
	renew("the list fails", 2*time.Second, true)
	renew("and for longer than a lease lasts", 14*time.Second, true)
	renew("it was paused for longer than its lease lasts", 15*time.Second, false)
	failure = nil
	renew("the list is answered again", 2*time.Second, true)
	failure = apierrors.NewTimeoutError("too slow", 1)
	if err := lock.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	renew("it gave the lease back", time.Second, false)
}

// TestWhoMayNotListLeadsAlone, and says so once.
func TestWhoMayNotListLeadsAlone(t *testing.T) {
	ctx, now := t.Context(), clocktesting.NewFakePassiveClock(time.Now())
	client := fake.NewClientset()
	denies := true
	client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return denies, nil, apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, LeaseName, nil)
	})
	leases, said := client.CoordinationV1(), 0
	inner := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: LeaseName}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: "us"}}
	looked := &Lock{looked: inner, clock: now, others: &installations{leases: leases, own: "system", clock: now, reviews: allowing(now)}}
	looked.OnDenied(func(error) { said++ })
	lock := &onlyOne{Interface: inner, others: looked.others}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(now.Now())}
	if err := lock.Create(ctx, record); err != nil {
		t.Errorf("it does not lead: %v", err)
	}
	if err := looked.Check(ctx); err != nil || said != 1 {
		t.Errorf("whoever asks is answered %v; it was said %d times", err, said)
	}
	denies = false
	if err := lock.Update(ctx, record); err != nil {
		t.Fatal(err)
	}
	denies = true
	if err := looked.Check(ctx); err != nil || said != 2 {
		t.Errorf("it is denied once more: %v; it was said %d times", err, said)
	}
}
