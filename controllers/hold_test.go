package controllers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/backup/task"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/moto/proxy"
)

// held says whether a Secret carries our finalizer; a Secret that is gone does not.
func (w *world) held(name string) bool {
	w.t.Helper()
	var s corev1.Secret
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: name}, &s)
	if apierrors.IsNotFound(err) {
		return false
	}
	must(w.t, err)
	return controllerutil.ContainsFinalizer(&s, v1alpha1.Finalizer)
}

func (w *world) refer(name string) {
	w.t.Helper()
	w.change(func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = nil
		if name != "" {
			c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: name}
		}
	})
}

// newHolder is a cluster whose credentials are in Secret one; Secret two is there too.
func newHolder(t *testing.T) *world {
	t.Helper()
	w := newHomeWorld(t, func(c *v1alpha1.MySQLCluster) {
		c.Spec.AWS.CredentialsSecretRef = &v1alpha1.LocalSecretReference{Name: "one"}
	})
	w.secret("one", homeKeys())
	w.secret("two", homeKeys())
	return w
}

func TestSecretFinalizerIsRemovedWhenTheSuccessorWorks(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"another Secret": "two", "the operator's own identity": ""} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newHolder(t)
				o := w.newOperator(nil)
				w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
				if !w.held("one") || w.held("two") {
					t.Fatal("not the right Secret is held")
				}
				w.refer(to)
				if restart {
					o = w.newOperator(nil) // the change was made while the operator was down
				}
				w.drive(o, patience, func() bool { return !w.held("one") })
				if w.held("two") != (to == "two") {
					t.Errorf("Secret two is held: %v", w.held("two"))
				}
				must(t, w.client.Delete(t.Context(), w.cluster))
				w.drive(w.newOperator(nil), patience, w.gone)
				w.nothing(0)
				if w.held("one") || w.held("two") {
					t.Error("a Secret is held for a cluster that is gone")
				}
			})
		}
	}
}

// A successor that does not exist, does not work or leads elsewhere leaves the Secret held that may have to be gone back to.
func TestSecretIsHeldUntilItsSuccessorWorks(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		data map[string]string
		says string
	}{
		"not there":       {nil, "CredentialsMissing"},
		"incomplete":      {map[string]string{task.KeyAccessKeyID: "x"}, "CredentialsMissing"},
		"a file":          {map[string]string{task.KeyAccessKeyID: "[default]\naws_access_key_id = AKIA", task.KeySecretAccessKey: "x"}, "CredentialsInvalid"},
		"another account": {otherKeys(t), "WrongAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newHolder(t)
			w.drive(w.newOperator(nil), patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
			if bad.data != nil {
				w.secret("three", bad.data)
			}
			w.refer("three")
			o := w.newOperator(nil)
			w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/"+bad.says))
			for range 5 {
				_, _ = w.pass(o)
			}
			if !w.held("one") || w.held("three") {
				t.Errorf("held: one %v, three %v; want one only", w.held("one"), w.held("three"))
			}
			w.refer("two")
			w.drive(o, patience, func() bool { return !w.held("one") && w.held("two") })
			// Given up, nothing stays held.
			w.refer("three")
			must(t, w.client.Delete(t.Context(), w.cluster))
			w.abandon()
			w.drive(w.newOperator(nil), patience, w.gone)
			if w.held("one") || w.held("two") || w.held("three") {
				t.Error("a Secret is held for a cluster that is gone")
			}
		})
	}
}

// STS knows the successor's key, but EC2 does not take it yet.
func TestSecretIsHeldWhileEC2RefusesItsSuccessor(t *testing.T) {
	t.Parallel()
	w := newHolder(t)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	_, err := w.proxy.Add(proxy.Rule{Kind: proxy.Fail, Code: "AuthFailure"})
	must(t, err)
	w.secret("two", otherHomeKeys())
	w.refer("two")
	w.drive(o, patience, w.conditionHas(v1alpha1.ConditionCloudReachable, "False/CredentialsInvalid"))
	for range 5 {
		_, _ = w.pass(o)
	}
	if !w.held("one") {
		t.Error("Secret one was let go before its successor worked")
	}
	w.proxy.Clear()
	w.drive(o, patience, func() bool { return !w.held("one") && w.held("two") })
}

// newHolders is newHolder with a second cluster that names the same Secret, both up as far as they come without mysqld.
func newHolders(t *testing.T) (w, other *world, o *operator) {
	t.Helper()
	w = newHolder(t)
	second := w.cluster.DeepCopy()
	second.ObjectMeta = v1alpha1.MySQLCluster{}.ObjectMeta
	second.Namespace, second.Name = w.cluster.Namespace, "stock"
	must(t, w.client.Create(t.Context(), second))
	beside := *w
	other, o = &beside, w.newOperator(nil)
	other.cluster = second
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	other.drive(o, patience, other.phaseIs(v1alpha1.PhaseEC2Ready))
	return w, other, o
}

func TestSecretOfTwoClustersIsHeldForBoth(t *testing.T) {
	t.Parallel()
	w, other, o := newHolders(t)
	w.refer("two")
	w.drive(o, patience, func() bool { return w.held("two") })
	for range 5 {
		_, _ = w.pass(o)
	}
	if !w.held("one") {
		t.Error("Secret one was let go although the second cluster needs it")
	}
	must(t, w.client.Delete(t.Context(), w.cluster))
	w.drive(o, patience, w.gone)
	if !w.held("one") || w.held("two") {
		t.Errorf("held: one %v, two %v; want one only", w.held("one"), w.held("two"))
	}
	must(t, w.client.Delete(t.Context(), other.cluster))
	other.drive(o, patience, other.gone)
	if w.held("one") {
		t.Error("Secret one is held for nobody")
	}
}

// The operator dies, or is refused, between writing down that it will hold a Secret and holding it.
func TestHoldingIsWrittenDownFirst(t *testing.T) {
	t.Parallel()
	w := newHolder(t)
	o := w.newOperator(nil)
	refused := &refusing{Client: o.Client, what: "one"}
	refused.on.Store(true)
	o.Client = refused
	cm := &corev1.ConfigMap{}
	w.drive(o, patience, func() bool {
		return w.exists("orders-members", cm) && strings.Contains(cm.Data["members.json"], `"held":["one"]`)
	})
	w.passes(o, 5)
	if !w.exists("orders-members", cm) || !strings.Contains(cm.Data["members.json"], `"held":["one"]`) || w.held("one") {
		t.Errorf("the Secret is held: %v; the records say %s", w.held("one"), cm.Data["members.json"])
	}
	w.nothing(0) // whose deletion would need the Secret
	refused.on.Store(false)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	if !w.held("one") {
		t.Error("the Secret is not held")
	}
}

// refusing is a client that may not patch one object.
type refusing struct {
	client.Client
	what string
	on   atomic.Bool
}

// Patch implements client.Client.
func (r *refusing) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if r.on.Load() && obj.GetName() == r.what {
		return errors.New("refused")
	}
	return r.Client.Patch(ctx, obj, patch, opts...)
}

// patching is a client whose patches of clusters go through a hook first.
type patching struct {
	client.Client
	hook func(*v1alpha1.MySQLCluster) error
}

// Patch implements client.Client.
func (p patching) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if c, ok := obj.(*v1alpha1.MySQLCluster); ok {
		if err := p.hook(c); err != nil {
			return err
		}
	}
	return p.Client.Patch(ctx, obj, patch, opts...)
}

// TestSecretOfTwoClustersThatEndTogetherIsLetGo: each sees the other end, and none comes back for it.
func TestSecretOfTwoClustersThatEndTogetherIsLetGo(t *testing.T) {
	t.Parallel()
	w, other, o := newHolders(t)
	// The first that is about to end waits a while for the second to come as far.
	ending := make(chan struct{}, 2)
	o.Client = patching{o.Client, func(c *v1alpha1.MySQLCluster) error {
		if !c.DeletionTimestamp.IsZero() && len(c.Finalizers) == 0 {
			ending <- struct{}{}
			for until := time.Now().Add(3 * time.Second); len(ending) < 2 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
				continue
			}
		}
		return nil
	}}
	must(t, w.client.Delete(t.Context(), w.cluster))
	must(t, w.client.Delete(t.Context(), other.cluster))
	for deadline := time.Now().Add(patience); !w.gone() || !other.gone(); {
		if time.Now().After(deadline) {
			t.Fatalf("they are not gone:\n%s\n%s", w.describe(), other.describe())
		}
		var passes sync.WaitGroup
		passes.Go(func() { _, _ = w.pass(o) })
		passes.Go(func() { _, _ = other.pass(o) })
		passes.Wait()
		w.wait(time.Second)
	}
	if w.held("one") {
		t.Error("Secret one is held for nobody")
	}
}

// TestADeletionEndsAfterItsSecretIsGone: the operator dies after it has let the Secret go, which vanishes at once, and before the
// cluster could go.
func TestADeletionEndsAfterItsSecretIsGone(t *testing.T) {
	t.Parallel()
	w := newHolder(t)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	o.Client = patching{o.Client, func(c *v1alpha1.MySQLCluster) error {
		if !c.DeletionTimestamp.IsZero() && len(c.Finalizers) == 0 {
			return errors.New("the API server is away")
		}
		return nil
	}}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = w.cluster.Namespace, "one"
	must(t, w.client.Delete(t.Context(), w.cluster))
	must(t, w.client.Delete(t.Context(), secret))
	w.drive(o, patience, func() bool { return !w.exists("one", &corev1.Secret{}) })
	if w.gone() {
		t.Fatal("the cluster is gone already")
	}
	o = w.newOperator(nil)
	w.drive(o, patience, w.gone)
	w.nothing(0)
}

// TestReleasedIsNotBelievedOfOneWithCredentials: only who has lost its Secret meanwhile ends without a word of EC2.
func TestReleasedIsNotBelievedOfOneWithCredentials(t *testing.T) {
	t.Parallel()
	w := newHolder(t)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.change(func(c *v1alpha1.MySQLCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationReleased, "true")
	})
	must(t, w.client.Delete(t.Context(), w.cluster))
	w.drive(w.newOperator(nil), patience, w.gone)
	w.nothing(0)
}

// TestReleasedOfAnotherClusterIsNotBelieved: the annotation came with a manifest that was read from a cluster which was going, or from a
// release that wrote true. Its own Secret is not there: what it has in EC2 is left to nobody, and the status names both ways out.
func TestReleasedOfAnotherClusterIsNotBelieved(t *testing.T) {
	for _, value := range []string{"7d1c3e4f-0123-4567-89ab-0123456789ab", "true"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			releasedIsNotBelieved(t, value)
		})
	}
}

func releasedIsNotBelieved(t *testing.T, value string) {
	t.Helper()
	w := newHolder(t)
	o := w.newOperator(nil)
	w.drive(o, patience, w.phaseIs(v1alpha1.PhaseEC2Ready))
	w.change(func(c *v1alpha1.MySQLCluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationReleased, value)
		c.Spec.AWS.CredentialsSecretRef.Name = "missing"
	})
	must(t, w.client.Delete(t.Context(), w.cluster))
	for range 10 {
		_, _ = w.pass(o)
		w.wait(time.Second)
	}
	if w.gone() {
		t.Error("the cluster is gone, and its instances run on")
	}
	for _, way := range []string{"Secret missing", "Create it again", v1alpha1.AnnotationAbandonCloudResources + "=true"} {
		if ready := w.condition(v1alpha1.ConditionReady); !strings.Contains(ready, way) {
			t.Errorf("Ready is %q, which does not say %q", ready, way)
		}
	}
	w.secret("missing", homeKeys())
	w.drive(o, patience, w.gone)
	w.nothing(0)
}
