package controllers

import (
	"fmt"
	"strings"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

func TestMachinesComeUpAndGoAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.oneOfEach(3)
	w.delete()
	w.drive(o, patience, w.gone)
	w.nothing(0) // never initialised: there is nothing to take a snapshot of
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
