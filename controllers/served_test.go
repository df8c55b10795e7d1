package controllers

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	homeRole = "arn:aws:iam::" + homeAccount + ":role/nairobi-mysql-tenant"

	ownIdentityOnly = "namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n"
	nobody          = "namespaces: {}\n"
)

// assumed counts how often a role was taken on since the proxy's log was emptied.
func (w *world) assumed() int { return w.proxy.Counts()["AssumeRole"] }

// A namespace that was never given a role makes a cluster that names it, writes records as if it had begun, and deletes it.
func TestDeletionTakesOnNoRoleThatWasNeverLent(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{
		"without a mark":    "",
		"with a forged one": strings.Repeat("ab", 32),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
				c.Spec.AWS.RoleARN = homeRole
				if mark != "" {
					c.Annotations = map[string]string{v1alpha1.AnnotationServed: mark}
				}
			})
			w.policy(ownIdentityOnly)
			w.remembered(w.newOperator(nil))
			w.forge(func(r *topology.ClusterRecord) {
				r.Account, r.Bootstrapped = homeAccount, "orders-0"
				r.Members["orders-0"] = topology.MemberRecord{Instance: 1, Volume: 1, VolumeID: "vol-00000000000000001"}
			})
			w.delete()
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonNotPermitted, homeRole, "until the cluster is gone", v1alpha1.AnnotationAbandonCloudResources))
			w.follow(o, 5)
			if w.gone() || w.total() != 0 {
				t.Errorf("gone %v, and AWS was called: %v", w.gone(), w.proxy.Counts())
			}
			w.change(func(c *v1alpha1.MySQLCluster) {
				c.Annotations = map[string]string{v1alpha1.AnnotationAbandonCloudResources: "true", v1alpha1.AnnotationServed: mark}
			})
			w.drive(o, patience, w.gone)
			if w.total() != 0 {
				t.Errorf("AWS was called: %v", w.proxy.Counts())
			}
		})
	}
}

// The administrator withdraws what he granted, and the cluster that was served until then is deleted: also after its records
// were lost, and by an operator that has never seen it.
func TestWithdrawnGrantKeepsNoClusterFromBeingDeleted(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]struct {
		role   string
		policy string
		lose   bool
	}{
		"a role":                          {role: homeRole, policy: anyAccount},
		"a role, and the records":         {role: homeRole, policy: anyAccount, lose: true},
		"the operator's identity":         {policy: anyAccount},
		"the same, and the records, both": {policy: anyAccount, lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = scenario.role })
			w.policy(scenario.policy)
			w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			w.policy(nobody)
			w.proxy.ResetCalls()
			calls := &scissors{} // of this one alone: what the one before has under way may end later
			calls.operator = w.newOperator(func(next http.RoundTripper) http.RoundTripper { calls.next = next; return calls })
			w.drive(calls.operator, patience, w.conditionHas(v1alpha1.ConditionDegraded, v1alpha1.ReasonNotPermitted))
			if made := calls.sent(); len(made) != 0 {
				t.Errorf("AWS was called for a cluster that nobody deletes: %v", made)
			}
			if scenario.lose {
				cm, _ := w.records()
				cm.Finalizers = nil
				must(t, w.client.Update(t.Context(), cm))
				must(t, w.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: cm.ObjectMeta}))
			}
			w.delete()
			w.drive(w.newOperator(nil), patience, w.gone)
			snapshots := 0
			if scenario.lose {
				snapshots = 3 // nobody knows any more that the volumes were still empty
			}
			w.nothing(snapshots)
			if made := w.changes(); slices.Contains(made, "RunInstances") || slices.Contains(made, "CreateVolume") {
				t.Errorf("on the way out there were %v", made)
			}
			if scenario.role == "" && w.assumed() != 0 {
				t.Errorf("%d roles were taken on", w.assumed())
			}
		})
	}
}

// A mark is good for the cluster and the role that it was made for.
func TestMarkIsGoodForOneClusterAndOneRole(t *testing.T) {
	t.Parallel()
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = homeRole })
	w.policy(anyAccount)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	served, _ := w.get()
	mark := served.Annotations[v1alpha1.AnnotationServed]
	if mark == "" {
		t.Fatal("the cluster is not marked")
	}
	var key corev1.Secret
	must(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: w.system, Name: v1alpha1.ServedKeySecret}, &key))
	judge := func(change func(*v1alpha1.MySQLCluster)) *engine.Problem {
		t.Helper()
		c := served.DeepCopy()
		change(c)
		now := c.CreationTimestamp
		c.DeletionTimestamp = &now
		p, err := w.newOperator(nil).access.UnlessServed(t.Context(), &pass.Pass{Cluster: c})
		must(t, err)
		return p
	}
	if p := judge(func(*v1alpha1.MySQLCluster) {}); p != nil {
		t.Errorf("its own: %v", p)
	}
	if p := judge(func(c *v1alpha1.MySQLCluster) { c.UID = "another" }); p == nil {
		t.Error("another cluster's mark is taken")
	}
	if p := judge(func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.RoleARN = otherRole }); p == nil {
		t.Error("another role's mark is taken")
	}
	must(t, w.client.Delete(t.Context(), &key))
	w.drive(w.newOperator(nil), patience, func() bool { // the next pass of a cluster that is allowed marks it anew
		c, _ := w.get()
		return c.Annotations[v1alpha1.AnnotationServed] != mark
	})
}
