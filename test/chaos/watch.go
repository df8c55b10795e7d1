package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/deploy"
)

// rewatch is the pause before a watch that ended is begun again: the API server may be what the fault is about.
const rewatch = 200 * time.Millisecond

// Sight is one thing that the operator let be seen in Kubernetes.
type Sight struct {
	At time.Time
	// Kind is event, status, promotion or endpoints.
	Kind, Text string
	// Reason of an event.
	Reason string
	// Took is how long a promotion took, by the operator's account.
	Took time.Duration
}

// watcher collects what the operator lets be seen of a cluster, with the time at which a client sees it.
type watcher struct {
	lab    *deploy.Lab
	key    client.ObjectKey
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	sights []Sight
	// what was seen last
	status, endpoints string
	promotion         *v1alpha1.PromotionStatus
	events            map[types.UID]int32
}

// watchCluster begins to watch, until stop.
func watchCluster(lab *deploy.Lab, key client.ObjectKey) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{lab: lab, key: key, cancel: cancel, events: map[types.UID]int32{}}
	for _, list := range []client.ObjectList{&v1alpha1.MySQLClusterList{}, &discoveryv1.EndpointSliceList{}, &eventsv1.EventList{}} {
		w.tasks.Go(func() { w.follow(ctx, list) })
	}
	return w
}

func (w *watcher) stop() {
	w.cancel()
	w.tasks.Wait()
}

// follow watches objects of one kind in the cluster's namespace, again and again.
func (w *watcher) follow(ctx context.Context, list client.ObjectList) {
	for ctx.Err() == nil {
		if stream, err := w.lab.Client.Watch(ctx, list, client.InNamespace(w.key.Namespace)); err == nil {
			for happening := range stream.ResultChan() {
				if happening.Type == watch.Added || happening.Type == watch.Modified {
					w.see(happening.Object)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatch):
		}
	}
}

// see notes what is new about an object.
func (w *watcher) see(object any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := object.(type) {
	case *v1alpha1.MySQLCluster:
		if o.Name != w.key.Name {
			return
		}
		if text := statusLine(o); text != w.status {
			w.status = text
			w.note(Sight{Kind: "status", Text: text})
		}
		if p := o.Status.LastPromotion; p != nil && (w.promotion == nil || *p != *w.promotion) {
			w.promotion = p
			took, _ := time.ParseDuration(p.Total) // one that cannot be read took no time, and excuses nothing
			w.note(Sight{Kind: "promotion", Text: fmt.Sprintf("%s from %s to %s in %s", p.Kind, dash(p.From), p.To, p.Total), Took: took})
		}
	case *discoveryv1.EndpointSlice:
		if text := endpointsLine(o); o.Labels[discoveryv1.LabelServiceName] == w.key.Name+"-primary" && text != w.endpoints {
			w.endpoints = text
			w.note(Sight{Kind: "endpoints", Text: text})
		}
	case *eventsv1.Event:
		times := int32(1)
		if o.Series != nil {
			times = o.Series.Count
		}
		if o.Regarding.Name == w.key.Name && w.events[o.UID] < times {
			w.events[o.UID] = times
			w.note(Sight{Kind: "event", Reason: o.Reason, Text: o.Reason + ": " + o.Note})
		}
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
