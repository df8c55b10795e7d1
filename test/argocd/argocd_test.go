package argocd

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// asleep is a cluster that hibernates, up one that is Ready.
func asleep() *v1alpha1.MySQLCluster {
	return &v1alpha1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", Generation: 2},
		Spec:       v1alpha1.MySQLClusterSpec{Hibernate: true},
		Status:     v1alpha1.MySQLClusterStatus{ObservedGeneration: 2, Phase: v1alpha1.PhaseHibernated},
	}
}

func up() *v1alpha1.MySQLCluster {
	c := asleep()
	c.Spec.Hibernate, c.Status.Phase = false, v1alpha1.PhaseReady
	c.Status.Members = []v1alpha1.MemberStatus{
		{Name: "orders-0", Phase: v1alpha1.PhaseReady, Role: v1alpha1.RolePrimary, Voter: true},
		{Name: "orders-1", Phase: v1alpha1.PhaseProvisioning, Role: v1alpha1.RoleReplica},
		{Name: "orders-2", Phase: v1alpha1.PhaseReady, Role: v1alpha1.RoleReplica, Voter: true},
	}
	return c
}

// TestActions: what is offered for a cluster, and what each action changes.
func TestActions(t *testing.T) {
	scripts, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	offers := func(c *v1alpha1.MySQLCluster, want ...string) {
		t.Helper()
		offered, err := scripts.Offered(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(offered) != len(scripts.actions.Definitions) {
			t.Errorf("%d actions are offered, and %d defined", len(offered), len(scripts.actions.Definitions))
		}
		for _, action := range scripts.actions.Definitions {
			wanted := false
			for _, name := range want {
				wanted = wanted || name == action.Name
			}
			if offered[action.Name] != wanted {
				t.Errorf("%s is offered: %v", action.Name, offered[action.Name])
			}
		}
	}
	take := func(action string, c *v1alpha1.MySQLCluster) *v1alpha1.MySQLCluster {
		t.Helper()
		changed, err := scripts.Take(action, c)
		if err != nil {
			t.Fatal(err)
		}
		if changed.Name != c.Name || changed.Status.Phase != c.Status.Phase {
			t.Errorf("%s makes it %+v", action, changed)
		}
		return changed
	}
	whole := up()
	whole.Status.Members[1].Phase = v1alpha1.PhaseReady
	offers(up(), "switchover", "rebuild", "restart", "renew-certificates", "hibernate")
	offers(whole, "switchover", "restart", "renew-certificates", "hibernate")
	offers(asleep(), "wake")
	for action, annotation := range map[string]string{"switchover": v1alpha1.AnnotationSwitchover, "rebuild": v1alpha1.AnnotationRebuild} {
		want := map[string]string{"switchover": "orders-2", "rebuild": "orders-1"}[action]
		if got := take(action, up()).Annotations[annotation]; got != want {
			t.Errorf("%s names %q, want %q", action, got, want)
		}
	}
	for action, annotation := range map[string]string{"restart": v1alpha1.AnnotationRestartedAt, "renew-certificates": v1alpha1.AnnotationCertificatesRenewedAt} {
		got := take(action, up()).Annotations[annotation]
		if at, err := time.Parse(time.RFC3339, got); err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("%s names %q: %v", action, got, err)
		}
	}
	if !take("hibernate", up()).Spec.Hibernate || take("wake", asleep()).Spec.Hibernate {
		t.Error("hibernate and wake do not change spec.hibernate")
	}
}
