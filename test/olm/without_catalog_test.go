//go:build e2e

package olm_test

import (
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

// Test12OperatorSDKInstallsAndUpgrades does the same by operator-sdk's own commands, with a cluster of one member.
func Test12OperatorSDKInstallsAndUpgrades(t *testing.T) {
	internet(t)
	if err := manager.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: subscription.Namespace}}); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--namespace=" + subscription.Namespace, "--timeout=5m", "--security-context-config=restricted"}
	out, err := manager.SDK(t.Context(), t.TempDir(), append([]string{"run", "bundle", olm.BundleImage(first), "--install-mode=AllNamespaces"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	configure(t)
	if err := lab.AllowLab(t.Context(), orders.Namespace); err != nil {
		t.Fatal(err)
	}
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = orders.Namespace, orders.Name
	cluster.Spec.Replicas = ptr.To[int32](1)
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	if err := lab.Apply(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.WaitReady(t.Context(), orders, readyLimit, nil); err != nil {
		t.Fatal(err)
	}
	before, w := stand(t, orders), watch(t, orders)
	out, err = manager.SDK(t.Context(), t.TempDir(), append([]string{"run", "bundle-upgrade", olm.BundleImage(second)}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	hasLooked(t, second)
	w.end(t)
	adopted(t, second)
	before.same(t, stand(t, orders))
	if err := lab.Delete(t.Context(), orders, changeLimit); err != nil {
		t.Fatal(err)
	}
	if out, err = manager.SDK(t.Context(), t.TempDir(), "cleanup", olm.Package, "--namespace="+subscription.Namespace, "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	kubectl(t, ofOLM...)
	nothingIsLeft(t)
}

// configure points the operator of `operator-sdk run bundle` at the lab: its Subscription has another name.
func configure(t *testing.T) {
	t.Helper()
	var subscriptions operatorsv1alpha1.SubscriptionList
	if err := manager.Client.List(t.Context(), &subscriptions, client.InNamespace(subscription.Namespace)); err != nil || len(subscriptions.Items) != 1 {
		t.Fatalf("%d Subscriptions, %v", len(subscriptions.Items), err)
	}
	one := subscriptions.Items[0].DeepCopy()
	one.Spec.Config = &operatorsv1alpha1.SubscriptionConfig{Env: labEnv()}
	if err := manager.Client.Patch(t.Context(), one, client.MergeFrom(&subscriptions.Items[0])); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "OLM to roll the configuration out", func() bool {
		pods, err := lab.OperatorPods(t.Context())
		if err != nil || len(pods) == 0 {
			return false
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(pod.Spec.Containers[0].Env, func(env corev1.EnvVar) bool { return env.Name == "AWS_ENDPOINT_URL" }) {
				return false
			}
		}
		return lab.WaitForOperator(t.Context()) == nil
	})
}
