package v1alpha1_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

const (
	webhookReady = 60 * time.Second
	webhookPoll  = 100 * time.Millisecond
	operatorUser = "system:serviceaccount:" + v1alpha1.SystemNamespace + ":nairobi-mysql-controller-manager"
)

// TestWebhookAsShipped installs the webhook and the operator's roles from config/, before and after the webhook runs with
// a certificate that it made itself, with the rights of the operator's own service account.
func TestWebhookAsShipped(t *testing.T) {
	api(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	heard := &warnings{}
	config := rest.CopyConfig(server.config)
	config.WarningHandlerWithContext = heard
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	install(t, admin, port)

	t.Run("without the operator a cluster is made, and none is deleted", func(t *testing.T) {
		object := cluster(t, "alone", set("deletionProtection", false))
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		const refused = `failed calling webhook "protection.mysqlcluster.mysql.alx.ke"`
		eventually(t, "the API server has noticed that there is a webhook", func() error {
			if err := admin.Delete(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), refused) {
				return fmt.Errorf("deleted without the webhook: %w", err)
			}
			return nil
		})
		if err := admin.Update(t.Context(), object); err != nil {
			t.Errorf("an update waits for the webhook: %v", err)
		}
	})

	operator := rest.CopyConfig(config)
	operator.Impersonate = rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	run(t, operator, scheme, port, t.TempDir(), webhook.CertificatesSelf)
	// It learns of the certificate by a watch, and until then it passes over a webhook that may be passed over.
	eventually(t, "the API server calls the webhook", func() error {
		heard.forget()
		if err := admin.Create(t.Context(), cluster(t, "called", set("replicas", int64(2))), client.DryRunAll); err != nil {
			return err
		}
		if !heard.has("replicas: 2") {
			return fmt.Errorf("warned of nothing but: %s", heard)
		}
		return nil
	})

	t.Run("what is unwise is warned of", func(t *testing.T) {
		heard.forget()
		object := cluster(t, "pair", set("replicas", int64(2)))
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		heard.want(t, "replicas: 2 with durability Lossless: after the loss of one member writes wait")
		heard.want(t, "will not be served: spec.aws: namespace default may not use the operator's own AWS credentials")
		heard.forget()
		apply(t, object, set("aws.clientCIDRs", []any{"0.0.0.0/0"}))
		if err := admin.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		heard.want(t, "aws.clientCIDRs: 0.0.0.0/0 lets whoever has a route")
		if heard.has("replicas: 2") {
			t.Error("what was warned of before is repeated")
		}
	})

	t.Run("what the policy allows is not warned of", func(t *testing.T) {
		rules := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.PolicyConfigMap},
			Data:       map[string]string{"policy.yaml": `{namespaces: {"*": {operatorCredentials: true, subnets: ["*"]}}}`},
		}
		if err := admin.Create(t.Context(), rules); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the policy is heeded", func() error {
			heard.forget()
			if err := admin.Create(t.Context(), cluster(t, "allowed"), client.DryRunAll); err != nil {
				return err
			}
			if heard.has("will not be served") {
				return fmt.Errorf("still warned: %s", heard)
			}
			return nil
		})
	})

	t.Run("a protected cluster is not deleted, and the way on is told", func(t *testing.T) {
		object := cluster(t, "pair")
		err := admin.Delete(t.Context(), object)
		if err == nil || !strings.Contains(err.Error(), `kubectl patch mysqlclusters.mysql.alx.ke pair --namespace default --type merge --patch '{"spec":{"deletionProtection":false}}'`) {
			t.Fatalf("deleted, or without a way on: %v", err)
		}
		if err := admin.Patch(t.Context(), object, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"deletionProtection":false}}`))); err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("with the operator the first cluster can be deleted", func(t *testing.T) {
		if err := admin.Delete(t.Context(), cluster(t, "alone")); err != nil {
			t.Fatal(err)
		}
	})
}

// install applies the shipped roles and webhook. The Service leads to this process instead of to pods.
func install(t *testing.T, admin client.Client, port int32) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}
	if err := admin.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: webhook.ServiceName},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	objects := []client.Object{service}
	for _, file := range []string{"rbac/role.yaml", "rbac/role_binding.yaml", "webhook-certificates/role.yaml", "webhook-certificates/role_binding.yaml", "webhook/manifests.yaml"} {
		objects = append(objects, shipped(t, file)...)
	}
	for _, object := range objects {
		if hook, ok := object.(*unstructured.Unstructured); ok && hook.GetKind() == "ValidatingWebhookConfiguration" {
			var typed admissionv1.ValidatingWebhookConfiguration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(hook.Object, &typed); err != nil {
				t.Fatal(err)
			}
			for i := range typed.Webhooks {
				typed.Webhooks[i].ClientConfig.Service.Port = &port
			}
			object = &typed
		}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", object.GetName(), err)
		}
		t.Cleanup(func() {
			if err := admin.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
}

func shipped(t *testing.T, file string) []client.Object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, document := range strings.Split(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.Object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// TestWebhookWithMountedCertificate is what OLM and cert-manager do: the files are there before the operator is.
func TestWebhookWithMountedCertificate(t *testing.T) {
	api(t)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, server.config, scheme, freePort(t), folder, webhook.CertificatesExternal)
}

// run starts a manager with nothing but the webhook and waits until it is ready.
func run(t *testing.T, config *rest.Config, scheme *runtime.Scheme, port int32, folder, certificates string) {
	t.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer:          ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "localhost", Port: int(port), CertDir: folder}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ready, err := webhook.SetUp(mgr, webhook.Options{Certificates: certificates, Namespace: v1alpha1.SystemNamespace, CertDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	if ready(&http.Request{}) == nil {
		t.Error("ready before it has begun")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	eventually(t, "the webhook serves", func() error { return ready(&http.Request{}) })
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), webhookPoll, webhookReady, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("wait until %s: %v", what, last)
	}
}

func freePort(t *testing.T) int32 {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listens on %v", listener.Addr())
	}
	return int32(address.Port) //nolint:gosec // a port
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = nil
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.said, "\n")
}

func (w *warnings) has(text string) bool { return strings.Contains(w.String(), text) }

func (w *warnings) want(t *testing.T, text string) {
	t.Helper()
	if !w.has(text) {
		t.Errorf("not warned of %q, but of:\n%s", text, w)
	}
}

var _ rest.WarningHandlerWithContext = (*warnings)(nil)
