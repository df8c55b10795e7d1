package bench

import (
	"context"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/test/bench/child"
)

// meter counts what one operator does. What is done on behalf of a reconcile is told from what goes on beside it (watches,
// sweeps, leases, events) by the reconcile's id, which controller-runtime puts into the context.
type meter struct {
	mu sync.Mutex
	// laps are the reconciles that ended.
	laps []lap
	// first is when each cluster was first taken up.
	first map[types.NamespacedName]time.Time
	// reads are the reads that reconciles asked for; live is how many of them, by place, went to the API server.
	reads int
	live  map[string]int
	// writes and calls are what reconciles wrote to Kubernetes and asked of AWS, by place; changes are the statements
	// that changed something on a member.
	writes, calls, changes map[string]int
	// besideKubernetes and besideAWS are the requests that no reconcile made, by what they are.
	besideKubernetes, besideAWS map[string]int
}

// lap is one reconcile.
type lap struct{ began, ended time.Time }

func newMeter() *meter {
	m := &meter{}
	m.reset()
	return m
}

// reset begins to count anew.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.laps, m.reads = nil, 0
	m.first = map[types.NamespacedName]time.Time{}
	for _, counts := range []*map[string]int{&m.live, &m.writes, &m.calls, &m.changes, &m.besideKubernetes, &m.besideAWS} {
		*counts = map[string]int{}
	}
}

// read runs f while nobody counts.
func (m *meter) read(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *meter) add(counts *map[string]int, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	(*counts)[what]++
}

func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// reconciling says whether a reconcile is what a context belongs to.
func reconciling(ctx context.Context) bool { return controller.ReconcileIDFromContext(ctx) != "" }

// stopwatch is the operator's clock. Reconcile takes its own time with it: it asks how long ago it began when it ends.
type stopwatch struct {
	clock.RealClock
	meter *meter
}

// Since implements clock.PassiveClock.
func (s *stopwatch) Since(began time.Time) time.Duration {
	now := s.Now()
	if child.EndsReconcile() {
		s.meter.mu.Lock()
		s.meter.laps = append(s.meter.laps, lap{began, now})
		s.meter.mu.Unlock()
	}
	return now.Sub(began)
}

// countingClient counts the reads that reconciles ask the manager's client for.
type countingClient struct {
	client.Client
	meter *meter
}

// Get implements client.Client.
func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.meter.asked(ctx, key, obj)
	return c.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (c *countingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.meter.asked(ctx, client.ObjectKey{}, nil)
	return c.Client.List(ctx, list, opts...)
}

// countingReader counts the reads that reconciles ask the uncached reader for.
type countingReader struct {
	client.Reader
	meter *meter
}

// Get implements client.Reader.
func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.meter.asked(ctx, key, nil)
	return c.Reader.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c *countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.meter.asked(ctx, client.ObjectKey{}, nil)
	return c.Reader.List(ctx, list, opts...)
}

func (m *meter) asked(ctx context.Context, key client.ObjectKey, obj client.Object) {
	if !reconciling(ctx) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if _, ok := obj.(*v1alpha1.MySQLCluster); ok && m.first[key].IsZero() {
		m.first[key] = time.Now()
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kubernetes counts the requests that reach the API server.
func (m *meter) kubernetes(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		what := r.Method + " " + kindOf(r.URL.Path)
		switch {
		case !reconciling(r.Context()):
			if r.URL.Query().Get("watch") != "" {
				what = "WATCH " + kindOf(r.URL.Path)
			}
			m.add(&m.besideKubernetes, what)
		case r.Method == http.MethodGet:
			m.add(&m.live, what+place())
		default:
			m.add(&m.writes, what+place())
		}
		return next.RoundTrip(r)
	})
}

// aws counts the calls to AWS.
func (m *meter) aws(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if reconciling(r.Context()) {
			m.add(&m.calls, awsmiddleware.GetOperationName(r.Context())+place())
		} else {
			m.add(&m.besideAWS, awsmiddleware.GetOperationName(r.Context()))
		}
		return next.RoundTrip(r)
	})
}

// changed counts a changing statement. It has the signature of mysql.Options.Hook.
func (m *meter) changed(op, phase string) error {
	if phase == "before" {
		m.add(&m.changes, op+place())
	}
	return nil
}

// kindOf finds the resource in a path of the API server, with its subresource.
func kindOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = append([]string{parts[i+2]}, parts[min(len(parts), i+4):]...)
		return strings.Join(parts, "/")
	}
	return parts[len(parts)-1]
}

// place names the line of the controllers that the caller's work was asked from, innermost first; empty when none was.
func place() string {
	const module = "github.com/alx-ke/nairobi-mysql-operator/"
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, module+"controllers.") {
			return " (controllers/" + filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line) + ")"
		}
		if !more {
			return ""
		}
	}
}

// durations are the lengths of laps, sorted.
func durations(laps []lap) []time.Duration {
	all := make([]time.Duration, len(laps))
	for i, l := range laps {
		all[i] = l.ended.Sub(l.began)
	}
	slices.Sort(all)
	return all
}
