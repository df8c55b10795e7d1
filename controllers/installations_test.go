package controllers

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
)

// secondNamespace is where another installation of the operator is.
const secondNamespace = "second-installation"

// installSecond gives the operator the grants of its Role in secondNamespace as well, as a second installation has them, and the
// ServiceAccount there those of the ClusterRole.
func installSecond(t *testing.T) {
	t.Helper()
	must(t, kube.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secondNamespace}}))
	for file, object := range map[string]client.Object{"role.yaml": &rbacv1.Role{}, "role_binding.yaml": &rbacv1.RoleBinding{}} {
		text, err := os.ReadFile(filepath.Join("..", "config", "rbac", file))
		must(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			if strings.Contains(document, "\nkind: Role\n") || strings.Contains(document, "\nkind: RoleBinding\n") {
				must(t, yaml.Unmarshal([]byte(document), object))
			}
		}
		object.SetNamespace(secondNamespace)
		must(t, kube.Create(t.Context(), object))
		if role, is := object.(*rbacv1.Role); is {
			t.Cleanup(func() { must(t, client.IgnoreNotFound(kube.Delete(context.WithoutCancel(t.Context()), role))) })
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: secondNamespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nairobi-mysql-manager-role"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: secondNamespace, Name: leader.DefaultServiceAccount}}}
	must(t, kube.Create(t.Context(), binding))
	t.Cleanup(func() { must(t, kube.Delete(context.WithoutCancel(t.Context()), binding)) })
	for _, granted := range shared.granted {
		for _, question := range granted.Reviews(secondNamespace) {
			must(t, allowed(t.Context(), kube, question))
		}
	}
}

// installation is the election of one pod of an installation.
type installation struct {
	lock *leader.Lock
	led  chan struct{}
	stop func()
}

func elects(t *testing.T, namespace string) *installation {
	t.Helper()
	lock, err := leader.New(shared.config, namespace, leader.DefaultServiceAccount, true, clock.RealClock{})
	must(t, err)
	i := &installation{lock: lock, led: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock.Interface(), LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(i.led) }, OnStoppedLeading: func() {}},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { elector.Run(ctx) })
	i.stop = func() { cancel(); running.Wait() }
	t.Cleanup(i.stop)
	return i
}

// TestOneInstallationLeads is not run beside others: TestProcessHasItsGrants leads too.
//
//nolint:paralleltest // see above
func TestOneInstallationLeads(t *testing.T) {
	installSecond(t)
	first := elects(t, v1alpha1.SystemNamespace)
	leads := func(i *installation) {
		t.Helper()
		select {
		case <-i.led:
		case <-time.After(patience):
			t.Fatal("it does not lead")
		}
	}
	leads(first)
	must(t, first.lock.Check(t.Context()))
	squat(t, first)
	second := elects(t, secondNamespace)
	select {
	case <-second.led:
		t.Fatal("two installations lead")
	case <-time.After(5 * time.Second): // longer than a lease
	}
	if err := second.lock.Check(t.Context()); err == nil {
		t.Error("the second installation may write")
	}
	if other := second.lock.OtherInstallation(); other.Namespace != v1alpha1.SystemNamespace {
		t.Errorf("the second installation waits for %+v", other)
	}
	must(t, first.lock.Check(t.Context()))
	first.stop()
	leads(second)
	must(t, second.lock.Check(t.Context()))
	if other := second.lock.OtherInstallation(); other != (leader.Installation{}) {
		t.Errorf("the leader waits for %+v", other)
	}
	second.stop()
	tie(t)
}

// squat creates the lease that an installation would have in a namespace without one.
func squat(t *testing.T, leads *installation) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: leader.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("nobody"), LeaseDurationSeconds: ptr.To[int32](math.MaxInt32)}}
	must(t, kube.Create(t.Context(), lease))
	t.Cleanup(func() { must(t, kube.Delete(context.WithoutCancel(t.Context()), lease)) })
	time.Sleep(time.Second) // several renewals
	must(t, leads.lock.Check(t.Context()))
}

// tie has two installations take their leases after both saw that nobody leads.
func tie(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var locks []resourcelock.Interface
	for _, namespace := range []string{v1alpha1.SystemNamespace, secondNamespace} {
		lock, err := leader.New(shared.config, namespace, leader.DefaultServiceAccount, true, clock.RealClock{})
		must(t, err)
		record, _, err := lock.Interface().Get(ctx)
		must(t, err)
		if record.HolderIdentity != "" {
			t.Fatalf("%s still leads", record.HolderIdentity)
		}
		locks = append(locks, lock.Interface())
	}
	record := func(l resourcelock.Interface) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 60, RenewTime: metav1.Now(), AcquireTime: metav1.Now()}
	}
	must(t, locks[0].Update(ctx, record(locks[0])))
	if err := locks[1].Update(ctx, record(locks[1])); !errors.Is(err, leader.ErrOtherInstallation) {
		t.Errorf("the second of two that saw nobody: %v", err)
	}
	var lease coordinationv1.Lease
	must(t, kube.Get(ctx, client.ObjectKey{Namespace: secondNamespace, Name: leader.LeaseName}, &lease))
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("%q keeps a lease with which it does not lead", *lease.Spec.HolderIdentity)
	}
	must(t, locks[0].Update(ctx, record(locks[0])))
	free := record(locks[0])
	free.HolderIdentity = ""
	must(t, locks[0].Update(ctx, free))
}
