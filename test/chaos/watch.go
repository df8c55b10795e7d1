package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/leader"
	"github.com/alx-ke/nairobi-mysql-operator/test/kstatus"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// rewatch is the pause before a watch that ended is begun again: the API server may be what the fault is about.
const rewatch = 200 * time.Millisecond

// Kinds of a Sight.
const (
	kindEvent     = "event"
	kindStatus    = "status"
	kindCondition = "condition"
	kindPromotion = "promotion"
	kindEndpoints = "endpoints"
)

// Sight is one thing that the operator let be seen in Kubernetes.
type Sight struct {
	At time.Time
	// Kind is one of the constants above.
	Kind, Text string
	// Reason of an event, and whether it is a Warning.
	Reason  string
	Warning bool
	// promotion is what status says of the last promotion; nil of anything else.
	promotion *promotion
	// Took is how long a promotion took, by the operator's account.
	Took time.Duration
	// Steps are the times of its steps.
	Steps string
}

// watcher collects what the operator lets be seen of a cluster, with the time at which a client sees it.
type watcher struct {
	lab    *deploy.Lab
	key    client.ObjectKey
	ledger *Ledger
	// judge gets the claims of the status and the renewals of the lease, with the ledger's times.
	judge  *statusJudge
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	sights []Sight
	// what was seen last
	status, endpoints string
	conditions        map[string]condition
	// asleep is true of a cluster that is meant to hibernate, until it is available again: that nothing is wrong with it says
	// nothing of its writes.
	asleep    bool
	promotion promotion
	renewed   metav1.MicroTime
	events    map[types.UID]int32
	// statuses checks each status as Flux reads it; misread is what it found last.
	statuses kstatus.Checker
	misread  string
}

// watchCluster begins to watch, until stop.
func watchCluster(lab *deploy.Lab, key client.ObjectKey, ledger *Ledger, judge *statusJudge) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{lab: lab, key: key, ledger: ledger, judge: judge, cancel: cancel, events: map[types.UID]int32{}}
	clusters := &unstructured.UnstructuredList{}
	clusters.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MySQLClusterList"))
	for _, list := range []client.ObjectList{clusters, &discoveryv1.EndpointSliceList{}, &eventsv1.EventList{}} {
		w.tasks.Go(func() { w.follow(ctx, list, key.Namespace) })
	}
	w.tasks.Go(func() { w.follow(ctx, &coordinationv1.LeaseList{}, v1alpha1.SystemNamespace) })
	return w
}

func (w *watcher) stop() {
	w.cancel()
	w.tasks.Wait()
}

// follow watches objects of one kind in a namespace, again and again.
func (w *watcher) follow(ctx context.Context, list client.ObjectList, namespace string) {
	for ctx.Err() == nil {
		if stream, err := w.lab.Client.Watch(ctx, list, client.InNamespace(namespace)); err == nil {
			ended := context.AfterFunc(ctx, stream.Stop)
			for happening := range stream.ResultChan() {
				if happening.Type == watch.Added || happening.Type == watch.Modified {
					w.see(happening.Object)
				}
			}
			ended()
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatch):
		}
	}
}

// see records what is new about an object.
func (w *watcher) see(object any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := object.(type) {
	case *unstructured.Unstructured:
		if o.GetName() == w.key.Name {
			w.seeCluster(o)
		}
	case *coordinationv1.Lease:
		if o.Name == leader.LeaseName && o.Spec.RenewTime != nil && !o.Spec.RenewTime.Equal(&w.renewed) && o.Spec.HolderIdentity != nil {
			w.renewed = *o.Spec.RenewTime
			w.judge.renewal(w.ledger.now(), *o.Spec.HolderIdentity)
		}
	case *discoveryv1.EndpointSlice:
		if text := endpointsLine(o); o.Labels[discoveryv1.LabelServiceName] == w.key.Name+"-primary" && text != w.endpoints {
			w.endpoints = text
			w.note(Sight{Kind: kindEndpoints, Text: text})
		}
	case *eventsv1.Event:
		times := int32(1)
		if o.Series != nil {
			times = o.Series.Count
		}
		if o.Regarding.Name == w.key.Name && w.events[o.UID] < times {
			w.events[o.UID] = times
			w.note(Sight{Kind: kindEvent, Reason: o.Reason, Text: o.Reason + ": " + o.Note, Warning: o.Type == corev1.EventTypeWarning})
		}
	}
}

// seeCluster records what is new about the cluster's status. Call it with the lock held.
func (w *watcher) seeCluster(o *unstructured.Unstructured) {
	conditions := conditionsOf(o)
	available, healthy := claims(conditions)
	if asleep, _, _ := unstructured.NestedBool(o.Object, "spec", "hibernate"); asleep || available {
		w.asleep = asleep
	}
	w.judge.status(w.ledger.now(), available, healthy && !w.asleep)
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded} {
		if c := conditions[kind]; c != w.conditions[kind] {
			w.note(Sight{Kind: kindCondition, Text: c.String()})
		}
	}
	w.conditions = conditions
	var c v1alpha1.MySQLCluster
	// What these types cannot hold is left out of the story; the judge has had it.
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err == nil {
		if text := statusLine(&c); text != w.status {
			w.status = text
			w.note(Sight{Kind: kindStatus, Text: text})
		}
		if wrong := w.statuses.Check(&c); wrong != w.misread {
			if w.misread = wrong; wrong != "" {
				w.judge.add(Lie{Claim: claimKstatus, Reason: wrong, From: w.ledger.now(), Until: w.ledger.now()})
			}
		}
	}
	if p := promotionOf(o); p != w.promotion && p.To != "" {
		w.promotion = p
		took, _ := time.ParseDuration(p.Total) // one that cannot be read took no time, and excuses nothing
		text := fmt.Sprintf("%s from %s to %s in %s", p.Kind, dash(p.From), p.To, p.Total)
		if p.Uncovered != "" {
			text += ", uncovered: " + p.Uncovered
		}
		w.note(Sight{Kind: kindPromotion, Text: text, Took: took, Steps: p.Steps, promotion: &p})
	}
}

func (w *watcher) note(s Sight) {
	s.At = time.Now()
	w.sights = append(w.sights, s)
}

// since returns what was seen at or after a time.
func (w *watcher) since(at time.Time) []Sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []Sight
	for _, s := range w.sights {
		if !s.At.Before(at) {
			found = append(found, s)
		}
	}
	return found
}

// statusLine is a status in a line.
func statusLine(c *v1alpha1.MySQLCluster) string {
	text := fmt.Sprintf("%s, primary %s", c.Status.Phase, dash(c.Status.Primary))
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAvailable, v1alpha1.ConditionDegraded} {
		if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil && found.Status == metav1.ConditionTrue {
			text += ", " + kind
		}
	}
	for _, m := range c.Status.Members {
		text += fmt.Sprintf("; %s %s", m.Name[strings.LastIndex(m.Name, "-")+1:], m.Phase)
		if m.Message != "" {
			text += " (" + m.Message + ")"
		}
	}
	return text
}

func endpointsLine(s *discoveryv1.EndpointSlice) string {
	var addresses []string
	for _, e := range s.Endpoints {
		addresses = append(addresses, e.Addresses...)
	}
	return "primary at " + dash(strings.Join(addresses, " "))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
