// Package child is an operator in a process of its own, so that what it uses is the operator's alone. Its program is in
// child/operator and built as the operator's own is, so that it is as large.
package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/manager"
	"github.com/alx-ke/nairobi-mysql-operator/internal/webhook"
)

// Surroundings are what a child is told on its standard input.
type Surroundings struct {
	// Host, CA, Certificate and Key reach the API server.
	Host                 string
	CA, Certificate, Key []byte
	// EC2 is the endpoint of the stub of EC2.
	EC2 string
	// Members says where the stub members listen, by the addresses that EC2 and Kubernetes show of them.
	Members map[string]string
}

// Figures are what a child knows of itself.
type Figures struct {
	// Laps are the lengths of the reconciles that ended since figures were last asked for, sorted.
	Laps []time.Duration
	// Live is the heap that is in use after a collection; Held what the Go runtime holds of the machine's memory.
	Live, Held uint64
	// Stacks, Gaps (between the heap's objects) and Idle (not given back yet) are the larger parts of what is held and not live.
	Stacks, Gaps, Idle uint64
	Goroutines         int
}

// Run is the program of a child: it reads Surroundings from in, says on out by which address its figures are to be had, and ends
// when in does.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	var s Surroundings
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("read what there is around: %w", err)
	}
	logger, err := zap.NewProduction()
	if err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	ctrl.SetLogger(zapr.NewLogger(logger))
	laps := &lapper{}
	all := Options()
	all.Logger, all.AWSEndpoint = zapr.NewLogger(logger), s.EC2
	all.Surroundings = manager.Surroundings{Registry: prometheus.NewRegistry(), Clock: laps, Dial: s.Connect}
	run, err := manager.New(&rest.Config{
		Host: s.Host, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA, CertData: s.Certificate, KeyData: s.Key},
	}, all)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: figuresHandler(laps), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("say where the figures are: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return run.Run(ctx)
}

// ErrNobody says that no stub member has an address.
var ErrNobody = errors.New("no stub member has this address")

// Connect reaches a stub member. It has the signature of mysql.Options.Dial.
func (s *Surroundings) Connect(ctx context.Context, network, address string) (net.Conn, error) {
	at, ok := s.Members[address]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNobody, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, at)
}

// figuresHandler serves a child's figures and its profiles.
func figuresHandler(laps *lapper) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/figures", func(w http.ResponseWriter, _ *http.Request) {
		f := Figures{Laps: laps.take(), Goroutines: runtime.NumGoroutine()}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f.Live, f.Held = m.HeapAlloc, m.Sys-m.HeapReleased
		f.Stacks, f.Gaps, f.Idle = m.StackSys, m.HeapInuse-m.HeapAlloc, m.HeapIdle-m.HeapReleased
		_ = json.NewEncoder(w).Encode(f) // a parent that is gone reads nothing
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}

// lapper is the clock of an operator that takes down nothing but how long its reconciles take.
type lapper struct {
	clock.RealClock
	mu   sync.Mutex
	laps []time.Duration
}

// Since implements clock.PassiveClock.
func (l *lapper) Since(began time.Time) time.Duration {
	now := l.Now()
	if EndsReconcile() {
		l.mu.Lock()
		l.laps = append(l.laps, now.Sub(began))
		l.mu.Unlock()
	}
	return now.Sub(began)
}

// take returns the lengths of the reconciles since it was last called.
func (l *lapper) take() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.laps
	l.laps = nil
	slices.Sort(all)
	return all
}

// EndsReconcile says whether the clock that calls it was asked by Reconcile itself, which does that when it ends.
func EndsReconcile() bool {
	const clockAndThis = 2
	caller, _, _, ok := runtime.Caller(clockAndThis)
	return ok && strings.HasSuffix(runtime.FuncForPC(caller).Name(), ").Reconcile")
}

// Workers is the default of the operator's flag.
const Workers = 16

// Options are the operator's, with the defaults of its flags, but for the webhook and its servers.
func Options() manager.Options {
	return manager.Options{
		Build: manager.Build{Version: "bench"}, Logger: logr.Discard(), Namespace: v1alpha1.SystemNamespace, ClusterDomain: "cluster.local",
		ProbeThroughService: true, Workers: Workers, LeaderElection: true,
		MetricsAddress: "0", ProbeAddress: "0", WebhookCertificates: webhook.CertificatesNone,
	}
}
