package v1alpha1_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// kustomize renders a folder of config/ as `kubectl kustomize` does for a user.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	api(t)
	kubectl := filepath.Join(server.env.ControlPlane.APIServer.Path, "..", "kubectl")
	command := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join("..", "..", "config", folder)) //nolint:gosec // the tests' own kubectl
	var complaints strings.Builder
	command.Stderr = &complaints
	text, err := command.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// TestManifests builds every kustomization and has the API server judge what it knows of it.
func TestManifests(t *testing.T) {
	admin := api(t)
	namespace := &corev1.Namespace{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.Name = v1alpha1.SystemNamespace
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	core, err := client.New(server.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	// Kinds of operators that are not installed here.
	foreign := []string{"Issuer", "Certificate", "ServiceMonitor", "PrometheusRule"}
	for _, folder := range []string{
		"crd", "rbac", "user-roles", "admission", "manager", "webhook", "webhook-certificates", "network-policy", "prometheus", "samples", "default", "olm",
		"overlays/with-certmanager", "overlays/lab", "overlays/custom",
	} {
		t.Run(folder, func(t *testing.T) {
			for _, object := range kustomize(t, folder) {
				if slices.Contains(foreign, object.GetKind()) {
					continue
				}
				if object.GetKind() == "MySQLCluster" || object.GetKind() == "MySQLBackup" {
					object.SetNamespace(metav1.NamespaceDefault)
				}
				apply := client.ApplyConfigurationFromUnstructured(object)
				if err := admin.Apply(t.Context(), apply, client.DryRunAll, client.ForceOwnership, client.FieldOwner("test")); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

func deployment(t *testing.T, folder string) appsv1.Deployment {
	t.Helper()
	for _, object := range kustomize(t, folder) {
		if object.GetKind() == "Deployment" {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &d, true); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("%s has no Deployment", folder)
	return appsv1.Deployment{}
}

func TestDeploymentIsHardened(t *testing.T) {
	d := deployment(t, "default")
	if d.Namespace != v1alpha1.SystemNamespace || d.Name != "nairobi-mysql-controller-manager" {
		t.Errorf("the deployment is %s/%s", d.Namespace, d.Name)
	}
	pod := d.Spec.Template.Spec
	if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || s.RunAsUser != nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context: %+v", s)
	}
	c := pod.Containers[0]
	if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || fmt.Sprint(s.Capabilities.Drop) != "[ALL]" {
		t.Errorf("the container's security context: %+v", s)
	}
	if len(c.Resources.Requests) != 2 || len(c.Resources.Limits) != 2 || c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Error("requests, limits or probes are missing")
	}
	if !strings.HasPrefix(c.Image, "ghcr.io/alx-ke/nairobi-mysql-operator:v") {
		t.Errorf("the image has no version: %s", c.Image)
	}
}

func TestOverlays(t *testing.T) {
	for folder, want := range map[string][]string{
		"default":                   {"--leader-elect", "--webhook-certs=self"},
		"overlays/with-certmanager": {"--leader-elect", "--webhook-certs=external"},
		"overlays/lab":              {"--leader-elect", "--webhook-certs=self", "--aws-endpoint=http://10.77.0.2:4566"},
	} {
		pod := deployment(t, folder).Spec.Template.Spec
		for _, arg := range want {
			if !slices.Contains(pod.Containers[0].Args, arg) {
				t.Errorf("%s lacks %s: %v", folder, arg, pod.Containers[0].Args)
			}
		}
		secret := pod.Volumes[0].Secret != nil
		if mounted := folder == "overlays/with-certmanager"; secret != mounted || pod.Containers[0].VolumeMounts[0].ReadOnly != mounted {
			t.Errorf("%s: the certificate is mounted from a Secret: %v", folder, secret)
		}
	}
}

// TestSettingsComeFromAConfigMap: OLM v1 has no Subscription that could set variables.
func TestSettingsComeFromAConfigMap(t *testing.T) {
	for _, folder := range []string{"default", "olm"} {
		from := deployment(t, folder).Spec.Template.Spec.Containers[0].EnvFrom
		if len(from) != 1 || from[0].ConfigMapRef == nil || from[0].ConfigMapRef.Name != "nairobi-mysql-settings" || !*from[0].ConfigMapRef.Optional {
			t.Errorf("%s takes variables from %+v", folder, from)
		}
	}
}

// TestOLMRunsTwo: a Subscription cannot set their number, and with one a failover waits for minutes after the loss of its node.
func TestOLMRunsTwo(t *testing.T) {
	d := deployment(t, "olm")
	if *d.Spec.Replicas != 2 || d.Spec.Template.Spec.Affinity.PodAntiAffinity == nil || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--leader-elect") {
		t.Errorf("%d pods, with %v and %+v", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Args, d.Spec.Template.Spec.Affinity)
	}
}

// TestValuesHaveAPlace reads what people change in an installation from the overlay that is made for it.
func TestValuesHaveAPlace(t *testing.T) {
	d := deployment(t, "overlays/custom")
	c := d.Spec.Template.Spec.Containers[0]
	if *d.Spec.Replicas != 2 || c.Resources.Limits.Memory().String() != "1Gi" || c.Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("%d replicas with %v", *d.Spec.Replicas, c.Resources)
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "AWS_REGION" && e.Value != "" }) {
		t.Errorf("no region among %v", c.Env)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "overlays", "custom", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"\nimages:\n", "\nreplicas:\n", "components/without-webhook", "components/host-network", "components/without-leader-election", "components/cert-manager"} {
		if !strings.Contains(string(text), place) {
			t.Errorf("the overlay does not show %q", place)
		}
	}
}

// TestBackupPodsGetTheImageOfTheOperator: what replaces the image in an overlay replaces the variable too, from which the operator knows its
// image.
func TestBackupPodsGetTheImageOfTheOperator(t *testing.T) {
	mirrored := overlay(t, "resources: [../overlays/lab]\nimages: [{name: ghcr.io/alx-ke/nairobi-mysql-operator, newName: 'registry.example.com:5000/operator', digest: 'sha256:0123'}]\n")
	for folder, want := range map[string]string{
		"default": "ghcr.io/alx-ke/nairobi-mysql-operator:v", "olm": "ghcr.io/alx-ke/nairobi-mysql-operator:v",
		"overlays/custom": "ghcr.io/alx-ke/nairobi-mysql-operator:v", mirrored: "registry.example.com:5000/operator@sha256:0123",
	} {
		c := deployment(t, folder).Spec.Template.Spec.Containers[0]
		if !strings.HasPrefix(c.Image, want) || !slices.Contains(c.Env, corev1.EnvVar{Name: "RELATED_IMAGE_OPERATOR", Value: c.Image}) {
			t.Errorf("%s runs %s with %v", folder, c.Image, c.Env)
		}
	}
}

// withComponent is a folder of config/ that puts a component on the default, as the overlay custom invites to.
func withComponent(t *testing.T, name string) string {
	t.Helper()
	return overlay(t, "resources: [../default]\ncomponents: [../components/"+name+"]\n")
}

// overlay is a folder of config/ with a kustomization, for the time of the test.
func overlay(t *testing.T, text string) string {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Join("..", "..", "config"), ".test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(folder)
}

// TestComponents puts each component on the default.
func TestComponents(t *testing.T) {
	webhookKinds := []string{"ValidatingWebhookConfiguration"}
	for name, want := range map[string]struct {
		args []string
		gone []string
	}{
		"without-webhook":         {[]string{"--leader-elect", "--webhook-certs=none"}, append(webhookKinds, "Service nairobi-mysql-webhook-service", "ClusterRole nairobi-mysql-webhook-certificates-role")},
		"without-leader-election": {[]string{"--leader-elect=false", "--webhook-certs=self"}, nil},
		"external-certificates":   {[]string{"--leader-elect", "--webhook-certs=external"}, []string{"ClusterRole nairobi-mysql-webhook-certificates-role"}},
	} {
		folder := withComponent(t, name)
		for _, object := range kustomize(t, folder) {
			for _, gone := range want.gone {
				if object.GetKind() == gone || object.GetKind()+" "+object.GetName() == gone {
					t.Errorf("%s leaves %s %s", name, object.GetKind(), object.GetName())
				}
			}
		}
		d := deployment(t, folder)
		if alone := name == "without-leader-election"; alone != (d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType) {
			t.Errorf("%s has the strategy %q", name, d.Spec.Strategy.Type)
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		for _, arg := range want.args {
			if !slices.Contains(args, arg) {
				t.Errorf("%s lacks %s: %v", name, arg, args)
			}
		}
	}
}

// TestHostNetwork: with the component the webhook is served at the node's address, the namespace admits such a pod, and a new one
// takes the node's ports only after the old one ended.
func TestHostNetwork(t *testing.T) {
	folder := withComponent(t, "host-network")
	d := deployment(t, folder)
	pod := d.Spec.Template.Spec
	if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("the pod has host network %v, DNS policy %q", pod.HostNetwork, pod.DNSPolicy)
	}
	if r := d.Spec.Strategy.RollingUpdate; r == nil || r.MaxSurge.IntValue() != 0 || r.MaxUnavailable.IntValue() != 1 {
		t.Errorf("two pods meet on the ports of a node: %+v", d.Spec.Strategy)
	}
	port := pod.Containers[0].Ports[0]
	if port.Name != "webhook" || port.ContainerPort != 9443 {
		t.Errorf("the webhook's port is %+v", port)
	}
	admin := api(t)
	for _, object := range kustomize(t, folder) {
		switch object.GetKind() {
		case "Namespace":
			for _, mode := range []string{"enforce", "warn"} {
				if level := object.GetLabels()["pod-security.kubernetes.io/"+mode]; level != "privileged" {
					t.Errorf("the namespace has the level %q in the mode %s", level, mode)
				}
			}
		case "Deployment":
			object.SetNamespace(metav1.NamespaceDefault)
			apply := client.ApplyConfigurationFromUnstructured(object)
			if err := admin.Apply(t.Context(), apply, client.DryRunAll, client.ForceOwnership, client.FieldOwner("test")); err != nil {
				t.Error(err)
			}
		}
	}
}
