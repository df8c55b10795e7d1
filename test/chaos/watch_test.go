package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// seenWithin bounds the wait for the watcher to see something.
const seenWithin = 10 * time.Second

// eventually waits until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(seenWithin); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", seenWithin, what)
		}
	}
}

func TestTheWatcherGivesTheJudgeWhatItSees(t *testing.T) {
	// Without the types of the API the fake client sends what the real one does: JSON.
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	lab := &deploy.Lab{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	ledger, err := NewLedger(t.TempDir() + "/ledger.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ledger.Close() }()
	judge := newStatusJudge()
	key := client.ObjectKey{Namespace: "chaos", Name: "ledger1"}
	w := watchCluster(lab, key, ledger, judge)
	defer w.stop()
	create := func(o client.Object) {
		t.Helper()
		if err := lab.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": key.Namespace, "name": key.Name},
		"status": map[string]any{
			"phase": "Ready",
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "Writable", "message": "writes succeed"},
				map[string]any{"type": "Degraded", "status": "False", "reason": "Healthy", "message": "nothing needs attention"},
			},
			"lastPromotion": map[string]any{"kind": "Failover", "to": "ledger1-1", "at": "2026-11-26T10:00:00Z", "total": "4s", "uncovered": "semi-sync was off"},
		},
	}}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLCluster"))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: leader.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("one"), RenewTime: ptr.To(metav1.NowMicro())},
	}
	event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "e"}, Reason: "Failover", Note: nothingLost, Type: "Warning"}
	event.Regarding.Name = key.Name
	// The fake API server sends what happens after the beginning of a watch: changes are repeated until they are seen.
	create(cluster)
	create(lease)
	create(event)
	touch := func(o client.Object) {
		o.SetLabels(map[string]string{"at": time.Now().Format("150405.000000000")})
		if err := lab.Client.Update(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	state := func(read func()) { judge.mu.Lock(); defer judge.mu.Unlock(); read() }
	claimed := func() (both bool) {
		state(func() { both = judge.claims[0].stands && judge.claims[1].stands })
		return both
	}
	renewed := func() (at time.Duration) {
		state(func() { at = judge.lastRenewal })
		return at
	}
	eventually(t, "the claims of the status", func() bool { touch(cluster); return claimed() })
	eventually(t, "that Flux takes a cluster without a condition Ready for settled", func() bool {
		touch(cluster)
		return slices.ContainsFunc(judge.found(0), func(l Lie) bool { return l.Claim == claimKstatus })
	})
	eventually(t, "a renewal of the lease", func() bool { touch(lease); return judge.leading() })
	eventually(t, "what the event and the status say of the promotion", func() bool { touch(event); return len(statementsOf(w.since(time.Time{}))) == 2 })
	first := renewed()
	touch(lease) // other fields are no renewal
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(time.Second)))
	touch(lease)
	eventually(t, "the next renewal", func() bool { return renewed() > first })
	if story := (&World{watch: w}).Story(time.Time{}); !strings.Contains(story, "Available=True Writable: writes succeed") || !strings.Contains(story, "uncovered: semi-sync was off") {
		t.Errorf("the story lacks a condition, or the promotion:\n%s", story)
	}
}
