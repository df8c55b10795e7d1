package mysql

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// DefaultProbeInterval is how often each cluster is written to.
	DefaultProbeInterval = time.Second
	// DefaultProbeTimeout is when a write that gives no answer is given up, with its connection.
	DefaultProbeTimeout = 4 * time.Second
	// suspectAfter is how long a write may take before somebody should look: most take milliseconds.
	suspectAfter = 500 * time.Millisecond
	// workerRest is how long a goroutine that makes writes waits for another, mostResting how many of them wait at most.
	workerRest  = 5 * time.Second
	mostResting = 16
	// ProbeFresh is how long a success counts: a cluster is available if a write succeeded within it.
	ProbeFresh = 5 * time.Second

	// heartbeat is a real write: it goes through the binary log and waits for acknowledgements like any other.
	heartbeat = "INSERT INTO nairobi_mysql.heartbeat (id, at) VALUES (1, NOW(6)) ON DUPLICATE KEY UPDATE at = NOW(6)"
)

// Target is where a cluster takes writes, as its clients see it, for example its primary Service.
type Target struct {
	// Address is host:port; ServerName is what the certificate there must carry.
	Address, ServerName string
	Identity            Identity
}

// ProbeResult is what is known of a cluster's writes.
type ProbeResult struct {
	// LastSuccess is when a write last succeeded; zero if never.
	LastSuccess time.Time
	// Err is why the last write failed, or why there is none; empty after a success. It holds no secret.
	Err string
	// Probed says that at least one attempt has ended.
	Probed bool
}

// ProberOptions of a Prober. The zero value works.
type ProberOptions struct {
	// Interval and Timeout default to the constants above.
	Interval, Timeout time.Duration
	Clock             clock.WithTicker
	// OnChange is called, from the prober's goroutine, when writes begin or cease to succeed, and as soon as one fails or
	// takes suspiciously long, once for each time that they do. It must not block.
	OnChange func(key string)
	// Pool are the options for connections: dial and statement time-outs, Dial.
	Pool Options
}

// Prober writes to each cluster once in an interval and remembers how that went. It never has more than one connection,
// nor more than one write under way, for each cluster, also while writes hang (fact 2).
type Prober struct {
	options ProberOptions
	pool    *Pool

	mu      sync.Mutex
	probes  map[string]*probe
	running sync.WaitGroup
	closed  bool
	// jobs hands a write to a goroutine that has done one before and waits: a new one for each would grow its stack each time.
	jobs    chan func()
	resting atomic.Int32  // goroutines that wait
	done    chan struct{} // closed by Close
}

// probe is the state for one cluster. Its goroutine ends when stop is closed.
type probe struct {
	key  string
	stop chan struct{}

	mu     sync.Mutex
	target Target
	result ProbeResult

	// Only run uses what follows: whether writes succeed, whether one failed or takes long, and when the one under way began.
	ok, suspect bool
	began       time.Time

	// Only the one write under way uses what follows.
	server    string // server_uuid behind the kept connection
	abandoned struct {
		server string
		id     uint64 // connection id
	}
}

// NewProber returns a prober without targets.
func NewProber(o ProberOptions) *Prober {
	setDefault(&o.Interval, DefaultProbeInterval)
	setDefault(&o.Timeout, DefaultProbeTimeout)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.OnChange == nil {
		o.OnChange = func(string) {}
	}
	o.Pool.StatementTimeout = o.Timeout
	o.Pool.ChangeTimeout = o.Timeout
	return &Prober{options: o, pool: NewPool(o.Pool), probes: map[string]*probe{}, jobs: make(chan func()), done: make(chan struct{})}
}

// Set says where the cluster key takes writes, and begins to probe it. Calling it again with the same target is free.
func (p *Prober) Set(key string, target Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if present := p.probes[key]; present != nil {
		present.mu.Lock()
		present.target = target
		present.mu.Unlock()
		return
	}
	created := &probe{key: key, stop: make(chan struct{}), target: target}
	p.probes[key] = created
	p.running.Add(1)
	go p.run(created)
}

// Forget stops probing a cluster. A write under way is cut off.
func (p *Prober) Forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if present := p.probes[key]; present != nil {
		close(present.stop)
		delete(p.probes, key)
	}
}

// Status returns what is known of a cluster's writes; the zero value for one that was never Set.
func (p *Prober) Status(key string) ProbeResult {
	p.mu.Lock()
	present := p.probes[key]
	p.mu.Unlock()
	if present == nil {
		return ProbeResult{}
	}
	present.mu.Lock()
	defer present.mu.Unlock()
	return present.result
}

// Close stops everything and waits for it.
func (p *Prober) Close() {
	p.mu.Lock()
	if !p.closed {
		close(p.done)
	}
	p.closed = true
	for key, present := range p.probes {
		close(present.stop)
		delete(p.probes, key)
	}
	p.mu.Unlock()
	p.running.Wait()
	p.pool.Close()
}

// run probes one cluster until it is forgotten.
func (p *Prober) run(b *probe) {
	defer p.running.Done()
	defer p.pool.Forget(b.key)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ticker := p.options.Clock.NewTicker(p.options.Interval)
	defer ticker.Stop()
	// While a write is under way it is looked at in between, too. One that is answered at once wakes nobody for that.
	overdue := p.options.Clock.NewTimer(p.options.Interval / 2)
	defer overdue.Stop()
	results := make(chan error, 1)
	busy := false
	start := func() {
		if !busy {
			busy = true
			b.began = p.options.Clock.Now()
			overdue.Reset(p.options.Interval / 2)
			p.do(func() { results <- p.write(ctx, b) })
		}
	}
	start()
	for {
		select {
		case <-b.stop:
			cancel()
			if busy {
				p.record(b, <-results)
			}
			return
		case err := <-results:
			busy = false
			overdue.Stop()
			p.record(b, err)
		case <-overdue.C():
			overdue.Reset(p.options.Interval / 2)
		case <-ticker.C():
			start()
		}
		p.judge(b, busy)
	}
}

// do has a job done by a goroutine that waits for one, or by another.
func (p *Prober) do(job func()) {
	select {
	case p.jobs <- job:
	default:
		p.running.Go(func() { p.work(job) })
	}
}

// work does jobs until there is none for a while, or enough others wait for one.
func (p *Prober) work(job func()) {
	for job != nil {
		job()
		job = p.nextJob()
	}
}

func (p *Prober) nextJob() func() {
	defer p.resting.Add(-1)
	if p.resting.Add(1) > mostResting {
		return nil
	}
	rest := p.options.Clock.NewTimer(workerRest)
	defer rest.Stop()
	select {
	case job := <-p.jobs:
		return job
	case <-rest.C():
	case <-p.done:
	}
	return nil
}

// record keeps the outcome of one write.
func (p *Prober) record(b *probe, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Probed = true
	b.result.Err = ""
	if err != nil {
		b.result.Err = err.Error()
		return
	}
	b.result.LastSuccess = p.options.Clock.Now()
}

// judge calls OnChange when the cluster's availability flips, for which silence alone is enough, and when a write first
// fails or takes suspiciously long.
func (p *Prober) judge(b *probe, busy bool) {
	b.mu.Lock()
	last, failed := b.result.LastSuccess, b.result.Err != ""
	b.mu.Unlock()
	ok := !last.IsZero() && p.options.Clock.Since(last) <= ProbeFresh
	suspect := failed || busy && p.options.Clock.Since(b.began) >= suspectAfter
	if ok != b.ok || suspect && !b.suspect {
		p.options.OnChange(b.key)
	}
	b.ok, b.suspect = ok, suspect
}

// write makes one write over the kept connection, dialling if there is none. Any error closes the connection: behind a
// Service's address the next one may lead to another member.
func (p *Prober) write(ctx context.Context, b *probe) error {
	b.mu.Lock()
	target := b.target
	b.mu.Unlock()
	m := p.pool.Member(ctx, Endpoint{Key: b.key, Address: target.Address, ServerName: target.ServerName}, target.Identity)
	slot := &m.e.writer
	if err := slot.take(ctx); err != nil {
		return err
	}
	defer slot.give()
	if slot.session == nil {
		s, err := p.pool.dial(ctx, m.e, verified)
		if err != nil {
			return unreachable(err)
		}
		slot.session = s
		if err := b.greet(ctx, s); err != nil {
			s.broken = true
			return err
		}
	}
	s := slot.session
	err := s.change(ctx, "probe/write", heartbeat)
	if err != nil {
		s.broken = true
	}
	if s.timedOut {
		b.abandoned.server, b.abandoned.id = b.server, s.id
	}
	return err
}

// greet prepares a fresh connection. It refuses while an earlier write of ours still waits on the same server: its commit
// cannot be ended and holds the row's lock (facts 1, 2), and more of them would only pile up.
func (b *probe) greet(ctx context.Context, s *session) error {
	var waiting bool
	err := s.row(ctx, "SELECT @@server_uuid, EXISTS(SELECT 1 FROM performance_schema.processlist WHERE ID = ? AND INFO LIKE 'INSERT INTO nairobi_mysql.heartbeat%')",
		[]any{b.abandoned.id}, &b.server, &waiting)
	if err != nil {
		return err
	}
	if waiting && b.abandoned.server == b.server {
		return fmt.Errorf("an earlier write is not answered yet: %w", ErrCommitsPending)
	}
	return s.change(ctx, "probe/lock-wait", "SET SESSION innodb_lock_wait_timeout = 1")
}
