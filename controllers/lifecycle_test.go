package controllers

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/release"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func TestMachinesComeUpAndGoAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.oneOfEach(3)
	led := func() int {
		var slice discoveryv1.EndpointSlice
		if !w.exists("orders", &slice) {
			t.Fatal("there is no EndpointSlice")
		}
		return len(slice.Endpoints)
	}
	s := w.seen(o)
	must(t, o.identities.Identify(t.Context(), s))
	s.Plan = topology.Plan{Primary: "orders-0", Members: []topology.View{{Name: "orders-0", Address: "10.0.0.1", InService: true, Role: v1alpha1.RolePrimary}}}
	must(t, o.publisher.Publish(t.Context(), s))
	if led() != 1 {
		t.Errorf("clients are led to %d members", led())
	}
	w.delete()
	w.drive(o, patience, w.gone)
	w.nothing(0) // never initialised: there is nothing to take a snapshot of
	if led() != 0 {
		t.Errorf("clients are led to the addresses of %d terminated instances", led())
	}
}

func TestDeletionInEveryStepLeavesNothing(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		t.Run(fmt.Sprintf("after %d passes", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.follow(w.newOperator(nil), n)
			w.delete()
			w.drive(w.newOperator(nil), patience, w.gone)
			w.nothing(0)
		})
	}
}

func TestProtectedClusterKeepsRunningWhenDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { *c.Spec.DeletionProtection = true })
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.delete()
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "DeletionProtected", "spec.deletionProtection"))
	w.passes(o, 5)
	w.oneOfEach(3)
	w.change(func(c *v1alpha1.MySQLCluster) { *c.Spec.DeletionProtection = false })
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

func TestWithoutPolicyNothingIsTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.policy("namespaces: {}\n")
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "True/NotPermitted"))
	w.passes(o, 5)
	if calls := w.proxy.Counts(); len(calls) != 0 {
		t.Errorf("a tenant without leave caused AWS calls: %v", calls)
	}
	w.policy("namespaces:\n  \"*\":\n    operatorCredentials: true\n    images: [\"*\"]\n    subnets: [\"*\"]\n")
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
}

func TestMissingCredentialsAreWaitedForByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "aws"}
	})
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "CredentialsMissing", "Secret aws"))
	if ready := w.condition(v1alpha1.ConditionReady); !strings.Contains(ready, ": no member is ready; waiting for Secret aws") {
		t.Errorf("before there is a plan: %s", ready)
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = w.cluster.Namespace, "aws"
	secret.StringData = map[string]string{"accessKeyID": "lab", "secretAccessKey": "lab"}
	must(t, w.client.Create(w.t.Context(), secret))
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	// The Secret must outlive a hasty deletion: without it nothing in EC2 could be removed.
	must(t, w.client.Delete(w.t.Context(), secret))
	w.delete()
	w.drive(w.newOperator(nil), patience, w.gone)
	w.nothing(0)
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the user's Secret is still held: %v", err)
	}
}

func TestUnknownSubnetIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { c.Spec.AWS.SubnetIDs[1] = "subnet-0123456789abcdef0" })
	w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionDegraded, "subnet-0123456789abcdef0"))
	c, _ := w.get()
	if m := c.Status.Members[0].Message; !strings.Contains(m, "subnet-0123456789abcdef0") || !strings.Contains(w.condition(v1alpha1.ConditionProgressing), "subnet-0123456789abcdef0") {
		t.Errorf("the member says %q, Progressing %q", m, w.condition(v1alpha1.ConditionProgressing))
	}
	w.nothing(0)
}

func TestLostRecordsAreRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	cm := &corev1.ConfigMap{}
	cm.Namespace, cm.Name = w.cluster.Namespace, w.cluster.Name+"-members"
	must(t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(cm), cm))
	must(t, w.client.Delete(w.t.Context(), cm))
	w.passes(o, 3)
	must(t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(cm), cm)) // held by the finalizer
	before := cm.DeepCopy()
	cm.Finalizers = nil
	must(t, w.client.Patch(w.t.Context(), cm, client.MergeFrom(before)))
	w.drive(o, patience, func() bool {
		return w.exists(cm.Name, cm) && cm.UID != before.UID && strings.Contains(cm.Data["members.json"], "rebuiltAt")
	})
	w.passes(o, 10)
	w.oneOfEach(3)
}

func TestChildrenArePutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	for _, name := range []string{"orders-primary", "orders-replicas", "orders"} {
		service := &corev1.Service{}
		service.Namespace, service.Name = w.cluster.Namespace, name
		must(t, w.client.Delete(w.t.Context(), service))
		w.drive(o, patience, func() bool { return w.client.Get(w.t.Context(), client.ObjectKeyFromObject(service), service) == nil })
		slice := &discoveryv1.EndpointSlice{}
		slice.Namespace, slice.Name = w.cluster.Namespace, name
		must(t, w.client.Delete(w.t.Context(), slice))
		w.drive(o, patience, func() bool { return w.client.Get(w.t.Context(), client.ObjectKeyFromObject(slice), slice) == nil })
	}
	for _, name := range []string{"orders-ca", "orders-operator-tls", "orders-app"} {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = w.cluster.Namespace, name
		must(t, w.client.Get(w.t.Context(), client.ObjectKeyFromObject(secret), secret))
		before := secret.DeepCopy()
		must(t, w.client.Delete(w.t.Context(), secret))
		var after corev1.Secret
		w.drive(o, patience, func() bool {
			after = corev1.Secret{}
			return w.client.Get(w.t.Context(), client.ObjectKeyFromObject(secret), &after) == nil && after.UID != before.UID && after.DeletionTimestamp.IsZero()
		})
		if name == "orders-ca" && string(after.Data["tls.key"]) != string(before.Data["tls.key"]) {
			t.Error("the certificate authority was exchanged for another one")
		}
	}
}

// TestChangedChildrenArePutBack: what somebody else says of them would send clients elsewhere, or lock the operator out.
func TestChangedChildrenArePutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, backedUp)
	images := &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	o := w.newOperator(nil)
	o.Images = images
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	var service, before corev1.Service
	key := client.ObjectKey{Namespace: w.cluster.Namespace, Name: "orders-primary"}
	must(t, w.client.Get(t.Context(), key, &service))
	service.DeepCopyInto(&before)
	service.Spec.Selector, service.Spec.ExternalIPs, service.Spec.PublishNotReadyAddresses = map[string]string{"app": "mine"}, []string{"192.0.2.7"}, true
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "mine", Port: 80})
	service.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	must(t, w.client.Update(t.Context(), &service, client.FieldOwner("somebody")))
	w.drive(o, patience, func() bool {
		must(t, w.client.Get(t.Context(), key, &service))
		return equality.Semantic.DeepEqual(service.Spec, before.Spec)
	})
	found := discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}}}}
	found.Namespace, found.Name, found.Labels = w.cluster.Namespace, "orders-primary-x7n2k", maps.Clone(service.Labels)
	found.Labels[discoveryv1.LabelServiceName], found.Labels[discoveryv1.LabelManagedBy] = service.Name, "endpointslice-controller.k8s.io"
	mirrored := found.DeepCopy()
	mirrored.Name, mirrored.Labels[discoveryv1.LabelManagedBy] = "orders-primary-q8z4v", "endpointslicemirroring-controller.k8s.io"
	other := found.DeepCopy() // of a Service that somebody made after the cluster's
	other.Name, other.Labels[discoveryv1.LabelServiceName] = "orders-external-b3d5c", "orders-external"
	endpoints := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Endpoints"}}
	endpoints.SetNamespace(found.Namespace)
	endpoints.SetName(service.Name)
	must(t, w.client.Create(t.Context(), endpoints))
	for _, slice := range []*discoveryv1.EndpointSlice{&found, mirrored, other} {
		slice.ResourceVersion, slice.UID = "", ""
		must(t, w.client.Create(t.Context(), slice))
	}
	w.drive(o, patience, func() bool {
		return !w.exists(found.Name, &found) && !w.exists(mirrored.Name, mirrored) && !w.exists(service.Name, endpoints)
	})
	if !w.exists(other.Name, other) {
		t.Error("another Service has lost its endpoints")
	}
	for name, key := range map[string]string{"orders-operator-tls": "tls.key", "orders-backup-tls": "tls.crt", "orders-ca": "tls.key"} {
		var secret corev1.Secret
		at := client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}
		must(t, w.client.Get(t.Context(), at, &secret))
		if secret.Data[key] == nil {
			t.Fatalf("%s holds %v", name, slices.Collect(maps.Keys(secret.Data)))
		}
		ca := secret.DeepCopy()
		secret.Data[key] = []byte("broken")
		must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
		w.drive(o, patience, func() bool {
			must(t, w.client.Get(t.Context(), at, &secret))
			return string(secret.Data[key]) != "broken"
		})
		if name == "orders-ca" && !maps.EqualFunc(secret.Data, ca.Data, bytes.Equal) {
			t.Error("the certificate authority is another one")
		}
	}
	// An authority that is whole, and another one.
	var secret corev1.Secret
	at := client.ObjectKey{Namespace: w.cluster.Namespace, Name: "orders-ca"}
	must(t, w.client.Get(t.Context(), at, &secret))
	ours := secret.DeepCopy()
	for _, uid := range []string{string(w.cluster.UID), "another-cluster"} {
		other, err := pki.NewAuthority(uid, w.cluster.Name, time.Now())
		must(t, err)
		must(t, w.client.Get(t.Context(), at, &secret))
		secret.Data = map[string][]byte{"tls.crt": other.CertificatePEM(), "tls.key": other.KeyPEM(), "join.key": other.JoinKey()}
		must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
		w.drive(o, patience, func() bool {
			must(t, w.client.Get(t.Context(), at, &secret))
			return maps.EqualFunc(secret.Data, ours.Data, bytes.Equal)
		})
	}
	foreign, err := pki.NewAuthority("another-cluster", "another", time.Now())
	must(t, err)
	secret.Data["tls.crt"], secret.Data["tls.key"] = foreign.CertificatePEM(), foreign.KeyPEM()
	must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
	o = w.newOperator(nil)
	o.Images = images
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "orders-ca", "another-cluster", "restore it from a backup"))
	// Deleted, and held by somebody else's finalizer.
	must(t, w.client.Get(t.Context(), at, &secret))
	secret.Data = ours.Data
	secret.Finalizers = append(secret.Finalizers, "example.com/hold")
	must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "False/"))
	must(t, w.client.Delete(t.Context(), &secret))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "ForeignResource", "orders-ca", "example.com/hold"))
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if result, err := w.pass(o); err != nil || result.RequeueAfter < time.Second {
		t.Errorf("the next pass comes after %s, %v", result.RequeueAfter, err)
	}
	must(t, w.client.Get(t.Context(), at, &secret))
	secret.Finalizers = nil
	must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
	w.drive(o, patience, func() bool {
		return w.exists("orders-ca", &secret) && secret.DeletionTimestamp.IsZero() && maps.EqualFunc(secret.Data, ours.Data, bytes.Equal) && !w.exists("orders-ca-kept", &corev1.Secret{})
	})
	must(t, w.client.Get(t.Context(), at, &secret))
	secret.Data["tls.key"] = []byte("broken")
	must(t, w.client.Update(t.Context(), &secret, client.FieldOwner("somebody")))
	// An operator that has never seen it otherwise.
	o = w.newOperator(nil)
	o.Images = images
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "orders-ca", "restore it from a backup"))
}

func TestStatusIsNeverReadToDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	before := c.DeepCopy()
	c.Status = v1alpha1.MySQLClusterStatus{}
	must(t, w.client.Status().Patch(w.t.Context(), c, client.MergeFrom(before)))
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.oneOfEach(3)
}

// TestSchedulesSleepWithTheCluster, and longer: when they go on Kubernetes starts at once what they missed, and here is no primary yet.
func TestSchedulesSleepWithTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, backedUp)
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	suspended := func(want bool) func() bool {
		return func() bool {
			for _, name := range []string{"orders-daily", "orders-hourly", resources.VerifyName("orders")} {
				var cron batchv1.CronJob
				must(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &cron))
				if *cron.Spec.Suspend != want || cron.Spec.StartingDeadlineSeconds != nil {
					return false
				}
			}
			return true
		}
	}
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if !suspended(false)() {
		t.Error("a schedule is suspended")
	}
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Hibernate = true })
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseHibernated))
	if !suspended(true)() {
		t.Error("a schedule is not suspended")
	}
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.Hibernate = false })
	o = w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionBackupHealthy, v1alpha1.ReasonBackupsPaused))
	if !suspended(true)() {
		t.Error("a schedule goes on without a primary")
	}
}

// TestAStatusThatIsTakenAwayWakesTheCluster: a cluster that is Ready looks only every half a minute.
func TestAStatusThatIsTakenAwayWakesTheCluster(t *testing.T) {
	t.Parallel()
	ready := &v1alpha1.MySQLCluster{Status: v1alpha1.MySQLClusterStatus{Phase: v1alpha1.PhaseReady}}
	waiting := &v1alpha1.MySQLCluster{Status: v1alpha1.MySQLClusterStatus{Phase: v1alpha1.PhaseReplicating}}
	for after, wakes := range map[*v1alpha1.MySQLCluster]bool{{}: true, waiting: false, ready: false} {
		if got := (statusEmptied{}).Update(event.UpdateEvent{ObjectOld: ready, ObjectNew: after}); got != wakes {
			t.Errorf("%q wakes it: %v", after.Status.Phase, got)
		}
	}
}

func TestFaultsOfEC2(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]proxy.Rule{
		"throttling":           {{Kind: proxy.Fail, Code: "RequestLimitExceeded", Probability: 0.4}},
		"lost answers":         {{Kind: proxy.Lose, Actions: []string{"RunInstances", "CreateVolume", "AttachVolume", "CreateSecurityGroup"}, Probability: 0.5}},
		"no capacity at first": {{Kind: proxy.NoCapacity, Zone: "us-east-1b", Count: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			for _, rule := range rules {
				_, err := w.proxy.Add(rule)
				must(t, err)
			}
			o := w.newOperator(nil)
			w.drive(o, 3*patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			w.oneOfEach(3)
			w.delete()
			w.drive(o, patience, w.gone)
			w.nothing(0)
			w.bounded(2 * busyCallsAMinute) // each may be tried twice
		})
	}
}

func TestDeniedActionIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	_, err := w.proxy.Add(proxy.Deny("RunInstances"))
	must(t, err)
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "ec2:RunInstances"))
	w.proxy.ResetCalls()
	w.passes(o, 20)
	if n := w.proxy.Counts()["RunInstances"]; n > 2 {
		t.Errorf("a denied call was tried %d times in 20 passes", n)
	}
	w.nothing(0)
}

// abandon gives up on deleting what the cluster has in EC2.
func (w *world) abandon() {
	w.t.Helper()
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationAbandonCloudResources: "true"}
	})
}

func TestDeadCredentialsCanBeAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "AuthFailure"})
	must(t, err)
	w.delete()
	dead := w.newOperator(nil)
	w.drive(dead, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "CredentialsInvalid"))
	w.abandon()
	w.drive(dead, patience, w.gone)
	w.proxy.Clear()
	if l := w.left(); len(l.instances) != 3 {
		t.Errorf("abandoned instances were touched: %+v", l)
	}
}

// TestDeniedDeletionCanBeAbandoned: EC2 answers, and denies one call.
func TestDeniedDeletionCanBeAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	_, err := w.proxy.Add(proxy.Deny("DeleteVolume"))
	must(t, err)
	w.delete()
	o := w.newOperator(nil)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, "ec2:DeleteVolume"))
	w.abandon()
	w.drive(o, patience, w.gone)
	w.proxy.Clear()
	if l := w.left(); len(l.volumes) != 3 {
		t.Errorf("abandoned volumes were touched: %+v", l)
	}
}

// TestThrottledDeletionIsNotAbandoned at once: what ends by itself leaks nothing.
func TestThrottledDeletionIsNotAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.abandon()
	_, err := w.proxy.Add(proxy.Rule{Actions: []string{"TerminateInstances"}, Kind: proxy.Fail, Code: "RequestLimitExceeded"})
	must(t, err)
	w.delete()
	o := w.newOperator(nil)
	w.passes(o, 20)
	if w.gone() {
		t.Fatal("the cluster was let go with everything that is in EC2, because of a throttled call")
	}
	w.proxy.Clear()
	w.passes(o, 1)
	// The deletion is old by now, the trouble is not.
	w.wait(release.AbandonPatience + time.Minute)
	_, err = w.proxy.Add(proxy.Rule{Actions: []string{"DeleteVolume", "DeleteSecurityGroup"}, Kind: proxy.Fail, Code: "RequestLimitExceeded"})
	must(t, err)
	w.passes(o, 20)
	if w.gone() {
		t.Fatal("the cluster was let go with everything that is in EC2, because of a call that was throttled late")
	}
	w.proxy.Clear()
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

func TestVolumeWithoutItsTagIsNeitherReplacedNorForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	volume := c.Status.Members[0].VolumeID
	_, err := w.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{volume}, Tags: []types.Tag{{Key: ptr.To(v1alpha1.TagClusterUID)}}})
	must(t, err)
	// An operator that never saw the volume with its tag.
	w.drive(w.newOperator(nil), patience, w.conditionHas(v1alpha1.ConditionDegraded, volume, "has lost the tag"))
	if l := w.left(); len(byMember(l.volumes)) != 3 || len(l.instances) != 3 {
		t.Errorf("want the two other volumes and three instances, there are %+v", l)
	}
}

// ahead is a clock that is ahead of the real one.
type ahead time.Duration

func (a ahead) Now() time.Time                  { return time.Now().Add(time.Duration(a)) }
func (a ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

// TestTagsArePutBack, all of the operator's own, by one that never saw them where that can be known.
func TestTagsArePutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	volume, instance := c.Status.Members[1].VolumeID, c.Status.Members[1].InstanceID
	tagsOf := func(id string) map[string]string {
		tags := map[string]string{}
		found, err := w.account.api.DescribeTags(t.Context(), &awsec2.DescribeTagsInput{Filters: []types.Filter{{Name: ptr.To("resource-id"), Values: []string{id}}}})
		must(t, err)
		for _, tag := range found.Tags {
			tags[*tag.Key] = *tag.Value
		}
		return tags
	}
	before := map[string]map[string]string{volume: tagsOf(volume), instance: tagsOf(instance)}
	lose := func(tags ...string) {
		var keys []types.Tag
		for _, tag := range tags {
			keys = append(keys, types.Tag{Key: ptr.To(tag)})
		}
		_, err := w.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{volume, instance}, Tags: keys})
		must(t, err)
	}
	back := func() bool {
		return maps.Equal(tagsOf(volume), before[volume]) && maps.Equal(tagsOf(instance), before[instance])
	}
	own := []string{v1alpha1.TagMember, v1alpha1.TagIncarnation, v1alpha1.TagNamespace, v1alpha1.TagCluster, v1alpha1.TagName}
	lose(append(own, v1alpha1.TagTemplateHash, v1alpha1.TagImage)...)
	w.drive(o, patience, back)
	lose(own...)
	w.drive(w.newOperator(nil), patience, back)
	w.oneOfEach(3)
	lose(v1alpha1.TagTemplateHash)
	o = w.newOperator(nil)
	o.Clock = ahead(observe.TagsShown)
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, instance, v1alpha1.TagTemplateHash, "Put the tag back"))
}

// TestASecurityGroupWithoutItsTagIsNotLeftBehind by a deletion: nothing else knows of it.
func TestASecurityGroupWithoutItsTagIsNotLeftBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	group := *w.group().GroupId
	tag := []types.Tag{{Key: ptr.To(v1alpha1.TagClusterUID), Value: ptr.To(string(w.cluster.UID))}}
	_, err := w.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: []string{group}, Tags: tag})
	must(t, err)
	w.delete()
	o := w.newOperator(nil)
	w.drive(o, patience, func() bool { l := w.left(); return len(l.instances)+len(l.volumes) == 0 })
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionDegraded, group, "has lost the tag"))
	_, err = w.account.api.CreateTags(t.Context(), &awsec2.CreateTagsInput{Resources: []string{group}, Tags: tag})
	must(t, err)
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

func TestMemberTagIsPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	c, _ := w.get()
	member := []types.Tag{{Key: ptr.To(v1alpha1.TagMember)}}
	ids := []string{c.Status.Members[1].VolumeID, c.Status.Members[1].InstanceID}
	_, err := w.account.api.DeleteTags(t.Context(), &awsec2.DeleteTagsInput{Resources: ids, Tags: member})
	must(t, err)
	w.drive(w.newOperator(nil), patience, func() bool {
		l := w.left()
		return byMember(l.volumes)["orders-1"] == 1 && byMember(l.instances)["orders-1"] == 1
	})
	w.oneOfEach(3)
}
