package exporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// DefaultMemberTimeout bounds what a scrape may take on one member. Prometheus waits ten seconds.
	DefaultMemberTimeout = 5 * time.Second
	// shareFor is how long what was read answers other scrapes too: two Prometheus servers cost a member no more than one.
	shareFor = time.Second
	// mostScrapes is how many scrapes are answered at once. All of them wait for one reading.
	mostScrapes = 8
	// idleTimeout keeps connections for longer than any interval between two scrapes.
	idleTimeout = time.Hour
)

// Member is one server that is read.
type Member struct {
	Name     string
	Endpoint mysql.Endpoint
}

// Options say what is exported, and of whom.
type Options struct {
	Namespace, Cluster string
	Members            []Member
	// Collectors are names of spec.monitoring.collectors.
	Collectors []string
	// Identity returns what the exporter logs in with. It is asked at each scrape, because certificates are renewed.
	Identity func() (mysql.Identity, error)
	// MemberTimeout is DefaultMemberTimeout unless set.
	MemberTimeout time.Duration
	Clock         clock.PassiveClock
	Logger        logr.Logger
	// Dial makes the TCP connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Exporter reads the members of a cluster when it is scraped. Close it.
type Exporter struct {
	o        Options
	queries  []query
	pool     *conn.Pool
	failures Failures

	sharing sync.Mutex
	readAt  time.Time
	read    []*dto.MetricFamily
	readErr error
}

// New returns an exporter that has no connection yet.
func New(o Options) (*Exporter, error) {
	wanted, err := queries(o.Collectors)
	if err != nil {
		return nil, err
	}
	if o.MemberTimeout <= 0 {
		o.MemberTimeout = DefaultMemberTimeout
	}
	pool := conn.NewPool(conn.Options{
		User: mysql.MetricsUser, DialTimeout: o.MemberTimeout, StatementTimeout: o.MemberTimeout, IdleTimeout: idleTimeout, Clock: o.Clock, Dial: o.Dial,
	})
	return &Exporter{o: o, queries: wanted, pool: pool, failures: Failures{Logger: o.Logger, Begun: "cannot read metrics", Over: "metrics can be read again"}}, nil
}

// Close ends the connections.
func (e *Exporter) Close() { e.pool.Close() }

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(into chan<- *prometheus.Desc) {
	into <- upDesc
	into <- tookDesc
	into <- successDesc
	into <- loginDesc
	for _, q := range e.queries {
		for _, m := range q.Metrics {
			into <- m.desc
		}
	}
}

// Collect implements prometheus.Collector. Members are read side by side: one that does not answer costs its timeout once.
func (e *Exporter) Collect(into chan<- prometheus.Metric) {
	identity, err := e.o.Identity()
	var group sync.WaitGroup
	for _, m := range e.o.Members {
		group.Go(func() { e.collect(m, identity, err, into) })
	}
	group.Wait()
}

// collect reads one member. failed is why nobody can be read.
func (e *Exporter) collect(m Member, identity mysql.Identity, failed error, into chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), e.o.MemberTimeout)
	defer cancel()
	began := e.o.Clock.Now()
	labels := []string{e.o.Namespace, e.o.Cluster, m.Name}
	var found []prometheus.Metric
	if failed == nil {
		found, failed = e.ask(ctx, m, identity, labels)
	}
	e.failures.Report(m.Name, failed)
	up := 1.0
	if failed != nil {
		up, found = 0, nil
	}
	into <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, labels...)
	into <- prometheus.MustNewConstMetric(loginDesc, prometheus.GaugeValue, loginFailed(failed), labels...)
	into <- prometheus.MustNewConstMetric(tookDesc, prometheus.GaugeValue, e.o.Clock.Since(began).Seconds(), labels...)
	for _, sample := range found {
		into <- sample
	}
}

// loginFailed is 1 for an error of a server that answers and lets the exporter not in, as one does that has not been given the account yet.
func loginFailed(err error) float64 {
	switch access, _ := conn.Classify(err); access {
	case mysql.AccessDenied, mysql.AccessUnverified:
		return 1
	case mysql.AccessVerified, mysql.AccessRefused, mysql.AccessSilent:
	}
	return 0
}

// ask runs the queries in the member's one connection. A query that the server refuses takes nothing from the others; a connection that
// breaks fails the member.
func (e *Exporter) ask(ctx context.Context, m Member, identity mysql.Identity, labels []string) (found []prometheus.Metric, err error) {
	err = e.pool.Handle(m.Endpoint, identity).Read(ctx, func(s *conn.Session) error {
		found = nil
		for i := range e.queries {
			q := &e.queries[i]
			samples, err := q.samples(ctx, s, labels)
			if err != nil && conn.ServerErrorNumber(err) == 0 {
				return err
			}
			e.failures.Report(m.Name+" "+q.Name, err)
			success := 1.0
			if err != nil {
				success = 0
			}
			found = append(found, samples...)
			found = append(found, prometheus.MustNewConstMetric(successDesc, prometheus.GaugeValue, success, append(labels[:len(labels):len(labels)], q.Name)...))
		}
		return s.Err()
	})
	return found, err
}

// Failures logs each failure once, and that it is over. Several may report at the same time.
type Failures struct {
	Logger logr.Logger
	// Begun and Over are the messages.
	Begun, Over string

	mu sync.Mutex
	// last is what failed last, with which error; empty for what works.
	last map[string]string
}

// Report takes the outcome of what was tried; nil when it worked.
func (f *Failures) Report(what string, err error) {
	message := ""
	if err != nil {
		message = conn.Reason(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last[what] == message {
		return
	}
	if f.last == nil {
		f.last = map[string]string{}
	}
	f.last[what] = message
	if err != nil {
		f.Logger.Info(f.Begun, "of", what, "error", message)
	} else {
		f.Logger.Info(f.Over, "of", what)
	}
}

// gather reads the members, or returns what was read within the last second. Scrapes that come meanwhile wait and share it.
func (e *Exporter) gather(from prometheus.Gatherer) ([]*dto.MetricFamily, error) {
	e.sharing.Lock()
	defer e.sharing.Unlock()
	if e.readAt.IsZero() || e.o.Clock.Since(e.readAt) >= shareFor {
		e.read, e.readErr = from.Gather()
		e.readAt = e.o.Clock.Now()
	}
	return e.read, e.readErr
}

// Handler serves /metrics, and /healthz for the kubelet.
func (e *Exporter) Handler() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(e); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	mux := http.NewServeMux()
	shared := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return e.gather(registry) })
	mux.Handle("/metrics", promhttp.HandlerFor(shared, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes}))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	return mux, nil
}

// Serve serves until ctx ends.
func (e *Exporter) Serve(ctx context.Context, listener net.Listener) error {
	handler, err := e.Handler()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: e.o.MemberTimeout, IdleTimeout: idleTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the metrics: %w", err)
	}
	return nil
}
