package controllers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/awsapi"
	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"

	corev1 "k8s.io/api/core/v1"

	discoveryv1 "k8s.io/api/discovery/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// destructive are the calls that take something away.
var destructive = []string{"StopInstances", "TerminateInstances", "ModifyInstanceAttribute", "DeleteVolume", "DetachVolume", "DeleteSecurityGroup", "DeleteSnapshot"}

// spared fails the test when a call since the proxy's log was emptied took something away, or when one of the things that
// were there is no more. Where a primary was fenced its instance may have been stopped for that: nothing is lost by it, and it is
// started again.
func (w *world) spared(before left, fenced bool) {
	w.t.Helper()
	for _, action := range w.changes() {
		if slices.Contains(destructive, action) && (action != "StopInstances" || !fenced) {
			w.t.Errorf("%s was called for a cluster that is protected", action)
		}
	}
	after := w.left()
	for _, pair := range [][2][]string{
		{idsOf(before.instances, ""), idsOf(after.instances, "")}, {idsOf(before.volumes, ""), idsOf(after.volumes, "")}, {before.groups, after.groups},
	} {
		for _, id := range pair[0] {
			if !slices.Contains(pair[1], id) {
				w.t.Errorf("%s was there before the deletion of the protected cluster and is not any more", id)
			}
		}
	}
}

func protected(c *v1alpha1.MySQLCluster) { c.Spec.DeletionProtection = ptr.To(true) }

func (w *world) protect(on bool) {
	w.t.Helper()
	w.change(func(c *v1alpha1.MySQLCluster) { c.Spec.DeletionProtection = ptr.To(on) })
}

// saysProtected says whether the conditions tell that the cluster was deleted, stays, and what to do about it.
func (w *world) saysProtected() bool {
	return w.conditionHas(v1alpha1.ConditionDegraded, "True/", "spec.deletionProtection")()
}

// ways are how a cluster can come to be deleted, and what goes on doing so while passes run.
var ways = map[string]func(w *world) (again func()){
	"by name": func(w *world) func() { w.delete(); return func() {} },
	"with its namespace": func(w *world) func() {
		must(w.t, w.client.Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}}))
		w.emptyNamespace()
		return w.emptyNamespace
	},
}

// emptyNamespace does what the namespace controller does, which is not part of this API server: it deletes everything in a
// namespace that is being deleted, again and again.
func (w *world) emptyNamespace() {
	w.t.Helper()
	ctx, in := w.t.Context(), client.InNamespace(w.cluster.Namespace)
	for _, kind := range []client.Object{
		&corev1.Secret{}, &corev1.ConfigMap{}, &discoveryv1.EndpointSlice{}, &corev1.Service{}, &corev1.ServiceAccount{}, &v1alpha1.MySQLCluster{},
	} {
		must(w.t, w.client.DeleteAllOf(ctx, kind, in))
	}
}

// TestDeletionOfAProtectedCluster deletes a protected cluster in the phases that need no server. It keeps running: whatever
// happens to its instances is repaired, and nothing in AWS is deleted until somebody lifts the protection.
func TestDeletionOfAProtectedCluster(t *testing.T) {
	t.Parallel()
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseProvisioning, v1alpha1.PhaseEC2Ready} {
		for way, begin := range ways {
			t.Run(string(phase)+", "+way, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, protected)
				o := w.newOperator(nil)
				w.drive(o, patience, w.phaseIs(phase))
				w.drive(o, patience, func() bool { return len(w.left().volumes) == members })
				before := w.left()
				w.proxy.ResetCalls()
				again := begin(w)
				w.drive(o, patience, func() bool { again(); return w.saysProtected() })
				for range 10 {
					w.follow(o, 1)
					again()
				}
				w.spared(before, false)
				w.stillServed(again)
				w.protect(false)
				w.drive(w.newOperator(nil), patience, func() bool { again(); return w.gone() })
				w.nothing(0)
				w.nothingHeld()
			})
		}
	}
}

// stillServed stops an instance of a protected cluster that is on its way out, and expects a new operator to start it again.
func (w *world) stillServed(again func()) {
	w.t.Helper()
	o := w.newOperator(nil)
	w.drive(o, patience, func() bool { again(); return w.machinesUp() })
	l := w.left()
	w.stopInstance(l.instances[0].id)
	w.wait(time.Minute)
	w.drive(o, patience, func() bool { again(); return w.machinesUp() })
	w.oneOfEach(members)
}

// TestBackupsEndWithTheNamespace: the cluster goes on, and says that it is backed up no more.
func TestBackupsEndWithTheNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *v1alpha1.MySQLCluster) { protected(c); backedUp(c) })
	o := w.newOperator(nil)
	o.Images = &pass.Images{Own: "operator:1", Client: pass.DefaultClientImage}
	w.drive(o, patience, w.machinesUp)
	must(t, w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}}))
	w.emptyNamespace()
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionBackupHealthy, "False/"+v1alpha1.ReasonDeletionProtected, "no backup is taken any more"))
}

// TestDeletedCRDDeletesNoDatabase deletes the CRD, and with it every cluster, on an API server of its own.
func TestDeletedCRDDeletesNoDatabase(t *testing.T) {
	t.Parallel()
	server, err := startAPIServer()
	must(t, err)
	t.Cleanup(func() {
		for _, wrong := range server.end(nil) {
			t.Error(wrong)
		}
	})
	w := makeWorld(&world{t: t, server: server, clock: clocktesting.NewFakePassiveClock(time.Now())}, protected)
	o := w.newOperator(nil)
	w.drive(o, patience, w.machinesUp)
	before := w.left()
	w.proxy.ResetCalls()
	crd := &unstructured.Unstructured{}
	crd.SetName("mysqlclusters." + v1alpha1.GroupVersion.Group)
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	must(t, w.client.Delete(t.Context(), crd))
	w.drive(o, patience, w.saysProtected)
	w.follow(o, 10)
	w.spared(before, false)
	w.stillServed(func() {})
	w.protect(false)
	// The last cluster takes its kind with it: what is gone then is the CRD.
	w.drive(w.newOperator(nil), patience, func() bool {
		var c v1alpha1.MySQLCluster
		return w.client.Get(t.Context(), client.ObjectKeyFromObject(w.cluster), &c) != nil
	})
	w.nothing(0)
	w.nothingHeld()
}

// TestDeletionIsCalledOff protects a cluster whose deletion is under way. It must come up again on the same volumes, and
// its next deletion take new snapshots: the old ones lack what was written since.
func TestDeletionIsCalledOff(t *testing.T) {
	t.Parallel()
	for name, reached := range map[string]func(w *world) bool{
		"when it has begun":              func(w *world) bool { _, records := w.records(); return records.FinalChosen },
		"while instances stop":           func(w *world) bool { return anyIs(w.left().instances, inventory.StateStopping, inventory.StateStopped) },
		"when snapshots are under way":   func(w *world) bool { return len(w.left().snapshots) > 0 },
		"when snapshots are complete":    func(w *world) bool { return allAre(w.left().snapshots, members, inventory.SnapshotCompleted) },
		"when the first instance is off": func(w *world) bool { return len(w.left().instances) < members },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.newOperator(nil)
			w.drive(o, patience, w.machinesUp)
			w.initialised()
			volumes := w.dataVolumes()
			w.wait(time.Hour)
			w.delete()
			w.drive(o, patience, func() bool { return reached(w) })
			w.protect(true)
			w.drive(o, patience, func() bool { return w.machinesUp() && w.saysProtected() })
			if now := w.dataVolumes(); !slices.Equal(now, volumes) {
				t.Errorf("the members had the volumes %v, and have %v", volumes, now)
			}
			if _, records := w.records(); records.FinalChosen || records.FinalAt != 0 || records.FinalVolumes != nil {
				t.Errorf("a deletion that was called off is still remembered: %+v", records)
			}
			old := idsOf(w.left().snapshots, "")
			w.wait(time.Hour)
			w.protect(false)
			w.drive(w.newOperator(nil), patience, w.gone)
			w.onlySnapshots(volumes, old)
		})
	}
}

// onlySnapshots fails the test unless the account holds nothing but the old snapshots and one new one of each volume.
func (w *world) onlySnapshots(volumes, old []string) {
	w.t.Helper()
	l := w.left()
	var of []string
	for _, s := range l.snapshots {
		if !slices.Contains(old, s.id) && s.state == inventory.SnapshotCompleted {
			of = append(of, s.of)
		}
	}
	slices.Sort(of)
	if len(l.instances)+len(l.volumes)+len(l.groups) != 0 || !slices.Equal(of, volumes) || len(l.snapshots) != len(volumes)+len(old) {
		w.t.Errorf("want nothing left but the snapshots %v and a new one of each of %v; there are %+v", old, volumes, l)
	}
	w.nothingHeld()
}

func anyIs(things []thing, states ...string) bool {
	return slices.ContainsFunc(things, func(one thing) bool { return slices.Contains(states, one.state) })
}

func allAre(things []thing, count int, state string) bool {
	return len(things) == count && !slices.ContainsFunc(things, func(one thing) bool { return one.state != state })
}

// TestForeignSnapshotsAreNotTakenForTheFinalOne deletes a cluster of whose volume there are snapshots already, which are
// more or less like the final one. None of them is believed to be it, and none is deleted.
func TestForeignSnapshotsAreNotTakenForTheFinalOne(t *testing.T) {
	t.Parallel()
	for name, tags := range map[string]func(w *world, final string) map[string]string{
		"somebody's, without tags": func(*world, string) map[string]string { return nil },
		"somebody's, called final": func(_ *world, final string) map[string]string {
			return map[string]string{"Name": "final", awsapi.TagPurpose: final}
		},
		"another cluster's": func(_ *world, final string) map[string]string {
			return map[string]string{v1alpha1.TagClusterUID: "00000000-0000-4000-8000-000000000000", awsapi.TagPurpose: final}
		},
		"of this cluster for another purpose": func(w *world, _ string) map[string]string {
			return map[string]string{v1alpha1.TagClusterUID: string(w.cluster.UID), v1alpha1.TagMember: "orders-0", awsapi.TagPurpose: "backup"}
		},
		"of this cluster without a purpose": func(w *world, _ string) map[string]string {
			return map[string]string{v1alpha1.TagClusterUID: string(w.cluster.UID), v1alpha1.TagMember: "orders-0"}
		},
		"the final one of an earlier deletion": func(w *world, final string) map[string]string {
			return map[string]string{v1alpha1.TagClusterUID: string(w.cluster.UID), v1alpha1.TagMember: "orders-0", awsapi.TagPurpose: earlier(w.t, final)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			o := w.newOperator(nil)
			w.drive(o, patience, w.machinesUp)
			w.initialised()
			volumes := w.dataVolumes()
			w.delete()
			w.drive(o, patience, func() bool { _, records := w.records(); return records.FinalChosen })
			_, records := w.records()
			id := w.snapshot(idsOf(w.left().volumes, "orders-0")[0], tags(w, finalPurpose(records)))
			w.drive(w.newOperator(nil), patience, w.gone)
			if !w.snapshotExists(id) {
				t.Error("the snapshot was deleted")
			}
			var old []string
			if slices.Contains(idsOf(w.left().snapshots, ""), id) {
				old = append(old, id)
			}
			w.onlySnapshots(volumes, old)
		})
	}
}

// finalPurpose is how the operator marks the snapshots of the deletion that is under way.
func finalPurpose(records topology.ClusterRecord) string {
	return fmt.Sprintf("final-%d", records.FinalAt)
}

// earlier is the mark of a deletion that was begun an hour before.
func earlier(t *testing.T, final string) string {
	t.Helper()
	at, err := strconv.ParseInt(strings.TrimPrefix(final, "final-"), 10, 64)
	must(t, err)
	return fmt.Sprintf("final-%d", at-3600)
}
