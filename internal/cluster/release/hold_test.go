package release

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// written keeps the records that were written last.
type written struct {
	engine.RecordStore
	records topology.ClusterRecord
}

func (w *written) Write(_ context.Context, _ string, records topology.ClusterRecord) (string, error) {
	w.records = records
	return "2", nil
}

type lock struct{ sync.Mutex }

func (l *lock) Lock(context.Context) { l.Mutex.Lock() }

// TestASecretThatCannotBeReleasedHoldsNothingUp: RBAC or a webhook refuses the change of one that the spec named before. The pass goes
// further, status says it, the others are released, and that one stays in the records until it is.
func TestASecretThatCannotBeReleasedHoldsNothingUp(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refuses := true
	patch := func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		if refuses && obj.GetName() == "refused" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "refused", nil)
		}
		return c.Patch(ctx, obj, patch, opts...)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{Patch: patch})
	for _, name := range []string{"refused", "released", "present"} {
		builder.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Finalizers: []string{v1alpha1.Finalizer}}})
	}
	clock, store := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), &written{}
	ports := &pass.Ports{Client: builder.Build(), Clock: clock}
	ports.Reader = ports.Client
	r := &Releaser{Ports: ports, Objects: &objects.Objects{Ports: ports}}
	cluster := &v1alpha1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid-1"}}
	cluster.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "present"}
	cache := pass.NewCache("uid-1")
	held := []string{"refused", "released", "present"}
	hold := func() []string {
		t.Helper()
		s := &pass.Pass{Cluster: cluster, Cache: cache, Log: logr.Discard(), Stored: engine.Recorder{Store: store, Memory: engine.NewRecordMemory(&lock{})}}
		s.SetRecords(topology.ClusterRecord{Held: held})
		s.Access.Cloud, s.Observed.CloudReachable = &ec2.Cloud{}, true
		if err := r.Hold(t.Context(), s); err != nil {
			t.Errorf("the pass ends: %v", err)
		}
		if said := len(s.Result.InTheWay) > 0; said != refuses {
			t.Errorf("status says: %v", s.Result.InTheWay)
		}
		held = s.Records().Held
		return held
	}
	if got := hold(); !slices.Equal(got, []string{"refused", "present"}) || !slices.Equal(store.records.Held, got) {
		t.Errorf("the records have %v", got)
	}
	hold() // while it is not asked again
	refuses = false
	clock.SetTime(clock.Now().Add(objects.RefusalPauseMost))
	if got := hold(); !slices.Equal(got, []string{"present"}) {
		t.Errorf("the records have %v", got)
	}
	for _, name := range []string{"refused", "released", "present"} {
		var secret corev1.Secret
		if err := ports.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &secret); err != nil {
			t.Fatal(err)
		}
		if held := len(secret.Finalizers) > 0; held != (name == "present") {
			t.Errorf("Secret %s is held: %v", name, held)
		}
	}
}
