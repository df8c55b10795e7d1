//go:build e2e

package olm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

func Test01CatalogAndSubscriptionInstallTheOperator(t *testing.T) {
	subscribe(t)
	csv, err := manager.WaitForCSV(t.Context(), client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(first)}, installLimit)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is %s", csv.Name, csv.Status.Phase)
	// A second pod takes over where the first one's node is lost.
	if pods, err := lab.OperatorPods(t.Context()); err != nil || len(pods) != 2 {
		t.Errorf("OLM runs %d pods, %v", len(pods), err)
	}
	var webhooks admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := manager.Client.List(t.Context(), &webhooks, client.MatchingLabels{"olm.owner": csv.Name}); err != nil {
		t.Fatal(err)
	}
	if len(webhooks.Items) != len(csv.Spec.WebhookDefinitions) {
		t.Errorf("OLM made %d webhook configurations of %d definitions", len(webhooks.Items), len(csv.Spec.WebhookDefinitions))
	}
	for _, configuration := range webhooks.Items {
		for _, webhook := range configuration.Webhooks {
			if len(webhook.ClientConfig.CABundle) == 0 {
				t.Errorf("webhook %s has no CA of OLM's", webhook.Name)
			}
		}
	}
}

func Test02ClusterReachesReadyUnderOLMsPermissions(t *testing.T) {
	if err := lab.AllowLab(t.Context(), orders.Namespace, scorecardNamespace); err != nil {
		t.Fatal(err)
	}
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = orders.Namespace, orders.Name
	cluster.Spec.Database = &v1alpha1.DatabaseSpec{Name: "app"}
	if err := lab.Apply(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.WaitReady(t.Context(), orders, readyLimit, nil); err != nil {
		t.Fatal(err)
	}
	sql(t, `sql orders-primary.shop.svc "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40)); INSERT INTO t (v) VALUES ('under OLM')"`)
}

func Test03WebhookServesWithOLMsCertificate(t *testing.T) {
	err := lab.Client.Delete(t.Context(), current(t))
	if err == nil || !strings.Contains(err.Error(), "deletionProtection") {
		t.Errorf("deleting a protected cluster: %v", err)
	}
	one := current(t).DeepCopy()
	warned, err := lab.Kubectl(t.Context(), fmt.Sprintf(`{"apiVersion":"mysql.alx.ke/v1alpha1","kind":"MySQLCluster","metadata":{"name":"orders","namespace":"shop"},"spec":{"storage":{"deletionPolicy":"Delete"},"replicas":%d}}`, one.ReplicaCount()),
		"apply", "--server-side", "--field-manager=somebody", "--dry-run=server", "--warnings-as-errors", "-f", "-")
	if err == nil {
		t.Errorf("nobody warned of a policy that keeps nothing: %s", warned)
	}
}

// scorecardNamespace is that of config/scorecard/access.
const scorecardNamespace = "nairobi-mysql-scorecard"

func Test04Scorecard(t *testing.T) {
	if _, err := lab.Kubectl(t.Context(), "", "apply", "--server-side", "-k", lab.Root+"/config/scorecard/access"); err != nil {
		t.Fatal(err)
	}
	results := scorecard(t, "suite in (basic,olm,default)")
	if len(results) != 11 {
		t.Errorf("%d results of 6 built-in tests and 5 of our own", len(results))
	}
}

// scorecard runs the tests of a selector on the first release's bundle and fails with each that does.
func scorecard(t *testing.T, selector string) []v1alpha3.Test {
	t.Helper()
	out, err := manager.SDK(t.Context(), t.TempDir(), "scorecard", bundles[first], "--namespace="+scorecardNamespace, "--service-account=scorecard",
		"--selector="+selector, "--wait-time=10m", "--output=json", "--pod-security=restricted", "--storage-image="+olm.UnpackImage, "--untar-image="+olm.UnpackImage)
	begin := strings.Index(out, "{")
	if begin < 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	var list v1alpha3.TestList
	if err := json.NewDecoder(strings.NewReader(out[begin:])).Decode(&list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range list.Items {
		for _, result := range test.Status.Results {
			t.Logf("%s: %s", result.Name, result.State)
			if result.State != v1alpha3.PassState {
				t.Errorf("%s: %s %v %v\n%s", result.Name, result.State, result.Errors, result.Suggestions, result.Log)
			}
		}
		if len(test.Status.Results) == 0 {
			t.Errorf("%v has no result", test.Spec)
		}
	}
	return list.Items
}

func Test05ScorecardWalksAClusterThroughItsLife(t *testing.T) {
	cluster, err := lab.Sample()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace, cluster.Name = scorecardNamespace, "walker"
	cluster.Spec.Replicas = ptr.To[int32](1)
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "MySQLCluster", "metadata": map[string]any{"name": "walker"}, "spec": cluster.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/cluster.yaml"
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Kubectl(t.Context(), "", "create", "configmap", scorecardNamespace, "--namespace="+scorecardNamespace, "--from-file="+file); err != nil {
		t.Fatal(err)
	}
	if results := scorecard(t, "suite=aws"); len(results) != 1 {
		t.Errorf("%d results", len(results))
	}
}

// Test06AuthorityIsPutBack deletes the Secret that the cluster's identity rests on.
func Test06AuthorityIsPutBack(t *testing.T) {
	key := client.ObjectKey{Namespace: orders.Namespace, Name: orders.Name + "-ca"}
	var before corev1.Secret
	if err := lab.Client.Get(t.Context(), key, &before); err != nil {
		t.Fatal(err)
	}
	if err := lab.Client.Delete(t.Context(), before.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the authority to be back", func() bool {
		var now corev1.Secret
		err := lab.Client.Get(t.Context(), key, &now)
		return err == nil && now.UID != before.UID && now.DeletionTimestamp.IsZero() && reflect.DeepEqual(now.Data, before.Data)
	})
}

// Test06bStrangersEndpointsAreDropped: what Kubernetes found for a selector that somebody gave a Service stays when the selector goes.
func Test06bStrangersEndpointsAreDropped(t *testing.T) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: orders.Namespace, Name: orders.Name + "-primary"}
	if err := lab.Client.Get(t.Context(), key, &service); err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	slice.Namespace, slice.GenerateName, slice.Labels = key.Namespace, key.Name+"-", maps.Clone(service.Labels)
	slice.Labels[discoveryv1.LabelServiceName], slice.Labels[discoveryv1.LabelManagedBy] = key.Name, "endpointslice-controller.k8s.io"
	if err := lab.Client.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	service.Spec.Selector = map[string]string{"app": "somebody"}
	if err := lab.Client.Update(t.Context(), &service); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the Service to lead to nobody else", func() bool {
		err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(slice), &discoveryv1.EndpointSlice{})
		return lab.Client.Get(t.Context(), key, &service) == nil && len(service.Spec.Selector) == 0 && apierrors.IsNotFound(err)
	})
}

// Test07UpgradeableIsFalseWhileThePrimaryMoves has the primary moved, and watches what OLM is told.
func Test07UpgradeableIsFalseWhileThePrimaryMoves(t *testing.T) {
	hasLooked(t, first)
	to := ""
	for _, m := range current(t).Status.Members {
		if m.Name != current(t).Status.Primary {
			to = m.Name
		}
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationSwitchover, to)
	if err := lab.Client.Patch(t.Context(), current(t), client.RawPatch(client.Merge.Type(), []byte(patch))); err != nil {
		t.Fatal(err)
	}
	refusals := map[string]int{}
	deadline := time.Now().Add(changeLimit)
	for current(t).Status.Primary != to || upgradeable(t, first).Status != metav1.ConditionTrue {
		if c := upgradeable(t, first); c.Status == metav1.ConditionFalse {
			refusals[c.Reason+": "+c.Message]++
		}
		if time.Now().After(deadline) {
			t.Fatalf("the primary is %s, OLM is told %+v", current(t).Status.Primary, upgradeable(t, first))
		}
		time.Sleep(100 * time.Millisecond)
	}
	if len(refusals) == 0 || refusals["SwitchoverInProgress: shop/orders: the primary is to hand over to "+to] == 0 {
		t.Errorf("OLM was told %v", refusals)
	}
	t.Logf("OLM was told %v", refusals)
}
