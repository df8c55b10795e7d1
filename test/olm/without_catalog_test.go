//go:build e2e

package olm_test

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/kube"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

// tlsRegistry serves the lab's registry over TLS, which operator-sdk insists on, and returns its host and port.
func tlsRegistry(t *testing.T) string {
	t.Helper()
	target, err := url.Parse("http://" + kube.Registry)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", kube.HostAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
	}})
	server.Listener.Close()
	server.Listener, server.TLS = listener, &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.ReadHeaderTimeout = 10 * time.Second
	server.StartTLS()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// Test10OperatorSDKInstallsAndUpgrades does the same by operator-sdk's own commands, with a cluster of one member.
func Test10OperatorSDKInstallsAndUpgrades(t *testing.T) {
	registry := tlsRegistry(t)
	image := func(version string) string { return registry + strings.TrimPrefix(olm.BundleImage(version), "ghcr.io") }
	if err := manager.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: subscription.Namespace}}); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--namespace=" + subscription.Namespace, "--skip-tls-verify", "--timeout=5m", "--security-context-config=restricted"}
	out, err := manager.SDK(t.Context(), t.TempDir(), append([]string{"run", "bundle", image(first), "--install-mode=AllNamespaces"}, flags...)...)
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
	out, err = manager.SDK(t.Context(), t.TempDir(), append([]string{"run", "bundle-upgrade", image(second)}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	adopted(t, second)
	w.end(t)
	before.same(t, stand(t, orders))
	if err := lab.Delete(t.Context(), orders, changeLimit); err != nil {
		t.Fatal(err)
	}
	if out, err = manager.SDK(t.Context(), t.TempDir(), "cleanup", olm.Package, "--namespace="+subscription.Namespace, "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	if _, err := lab.Kubectl(t.Context(), "", "delete", "namespace", subscription.Namespace, "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	nothingIsLeft(t)
}

// configure points the operator of `operator-sdk run bundle` at the lab: its Subscription has another name.
func configure(t *testing.T) {
	t.Helper()
	var subscriptions operatorsv1alpha1.SubscriptionList
	if err := manager.Client.List(t.Context(), &subscriptions, client.InNamespace(subscription.Namespace)); err != nil || len(subscriptions.Items) != 1 {
		t.Fatalf("%d Subscriptions, %v", len(subscriptions.Items), err)
	}
	one := &subscriptions.Items[0]
	one.Spec.Config = &operatorsv1alpha1.SubscriptionConfig{Env: labEnv()}
	if err := manager.Client.Update(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "OLM to roll the configuration out", func() bool {
		pods, err := lab.OperatorPods(t.Context())
		if err != nil || len(pods) != 1 {
			return false
		}
		for _, env := range pods[0].Spec.Containers[0].Env {
			if env.Name == "AWS_ENDPOINT_URL" {
				return lab.WaitForOperator(t.Context()) == nil
			}
		}
		return false
	})
}
