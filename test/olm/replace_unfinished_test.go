//go:build e2e

package olm_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/olm"
)

// Test08bAnUpgradeWaitsForAFailover publishes a release while the cluster has no primary. OLM keeps the old operator, which alone can
// bring the primary back, and installs the new one once it has.
func Test08bAnUpgradeWaitsForAFailover(t *testing.T) {
	hasLooked(t, second)
	// The primary and one of its replicas hang: the other one knows who votes, and cannot be promoted alone.
	instances := []string{}
	for _, m := range current(t).Status.Members {
		if m.Role == v1alpha1.RolePrimary || len(instances) == 0 {
			instances = append(instances, m.InstanceID)
		}
	}
	if len(instances) < 2 {
		instances = append(instances, current(t).Status.Members[1].InstanceID)
	}
	// The operator powers frozen instances off and on, which wakes them.
	freezing, wake := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for freezing.Err() == nil {
			for _, id := range instances {
				_ = fault(freezing, "freeze", id) // one that is off cannot be frozen
			}
			time.Sleep(time.Second)
		}
	})
	t.Cleanup(func() {
		wake()
		done.Wait()
		for _, id := range instances {
			_ = fault(context.WithoutCancel(t.Context()), "thaw", id) // one that was powered off is not frozen
		}
	})
	waitFor(t, "OLM to be told of the failover", func() bool {
		c := upgradeable(t, second)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "FailoverInProgress"
	})

	publish(t, third)
	waiting := operatorsv1alpha1.ClusterServiceVersion{}
	key := client.ObjectKey{Namespace: subscription.Namespace, Name: olm.CSVName(third)}
	waitFor(t, "OLM to wait with the new release", func() bool {
		err := manager.Client.Get(t.Context(), key, &waiting)
		return err == nil && waiting.Status.Phase == operatorsv1alpha1.CSVPhasePending && waiting.Status.Reason == operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable
	})
	if c := waiting.Status.Message; !strings.Contains(c, "shop/orders") {
		t.Errorf("OLM does not say which cluster it waits for: %q", c)
	}
	time.Sleep(20 * time.Second) // several of OLM's looks
	if err := manager.Client.Get(t.Context(), key, &waiting); err != nil || waiting.Status.Phase != operatorsv1alpha1.CSVPhasePending {
		t.Errorf("while the failover went on the new release became %s, %v", waiting.Status.Phase, err)
	}
	pods, err := lab.OperatorPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if image := pod.Spec.Containers[0].Image; image != images[second] {
			t.Errorf("pod %s runs %s while the failover goes on", pod.Name, image)
		}
	}

	wake()
	done.Wait()
	for _, id := range instances {
		_ = fault(t.Context(), "thaw", id) // one that was powered off is not frozen
	}
	if _, err := lab.WaitReady(t.Context(), orders, readyLimit, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.WaitForCSV(t.Context(), key, installLimit); err != nil {
		t.Fatal(err)
	}
	hasLooked(t, third)
	if _, err := lab.WaitReady(t.Context(), orders, readyLimit, nil); err != nil {
		t.Fatal(err)
	}
	adopted(t, third)
}

// fault has the lab do something to an instance.
func fault(ctx context.Context, name, instance string) error {
	address := "http://" + cloud.ControlAddress + "/faults/" + name + "?" + url.Values{"instance": {instance}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
