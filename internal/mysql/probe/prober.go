package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// DefaultProbeInterval is how often each cluster is written to.
	DefaultProbeInterval = time.Second
	// DefaultProbeTimeout is when a write that gives no answer is given up, with its connection.
	DefaultProbeTimeout = 4 * time.Second
	// keptFor is how long a connection is written over: that nobody gets in any more is seen by a new one alone. A new one costs some
	// hundred times what a write does, so all clusters together make at most one in dialEvery: with 1,000 clusters each has one in 50 s.
	keptFor   = 5 * time.Second
	dialEvery = 50 * time.Millisecond
	// isFull says whether a server has hardly a place left but that for an administrator.
	isFull = "SELECT CAST(VARIABLE_VALUE AS UNSIGNED) + @@GLOBAL.max_connections DIV 50 >= @@GLOBAL.max_connections FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Threads_connected'"
	// suspectAfter is how long a write may take before somebody should look: most take milliseconds. connectPatience is how long a
	// connection may take to be made, which takes ten times as many round trips.
	suspectAfter    = 200 * time.Millisecond
	connectPatience = time.Second
	// workerRest is how long a goroutine that makes writes waits for another, mostResting how many of them wait at most.
	workerRest  = 5 * time.Second
	mostResting = 16
	// ProbeFresh is how long a success counts: a cluster is available if a write succeeded within it.
	ProbeFresh = 5 * time.Second
)

// Target is where a cluster takes writes, as its clients see it, for example its primary Service.
type Target struct {
	// Address is host:port; ServerName is what the certificate there must carry.
	Address, ServerName string
	Identity            mysql.Identity
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
	// OnChange is called, from a goroutine of the prober's, when writes begin or cease to succeed, as soon as one fails or
	// takes suspiciously long, and when the commit settings of the server have changed (see heartbeat). While a write goes on taking
	// long it is called again until they have ceased to succeed: whoever looked may have looked a moment too early. It must not block.
	OnChange func(key string)
	// Pool are the options for connections: dial and statement time-outs, Dial.
	Pool conn.Options
}

// Prober writes to each cluster once in an interval and remembers how that went. It never has more than one connection,
// nor more than one write under way, for each cluster, also while writes hang (fact 2).
type Prober struct {
	options ProberOptions
	pool    *conn.Pool

	mu     sync.Mutex
	probes map[string]*probe
	// turns are the clusters whose turn comes at the same time, in each of the parts of an interval. A thousand clusters with a
	// clock each would wake the process a thousand times a second.
	turns   [turnsEach][]*probe
	set     int // how many clusters were ever set
	begin   sync.Once
	running sync.WaitGroup
	closed  bool
	// jobs hands a write to a goroutine that has done one before and waits: a new one for each would grow its stack each time.
	jobs    chan *probe
	resting atomic.Int32  // goroutines that wait
	done    chan struct{} // closed by Close
}

// maxAnswer is how many bytes a server may answer to a statement of the prober's, which writes one row or reads one, or while the
// connection is made. There is a connection for each cluster.
const maxAnswer = 64 << 10

// turnsEach is in how many parts an interval is divided.
const turnsEach = 20

// aim is where the next write of a cluster goes.
type aim struct {
	target Target
	// redial says that it goes over a new connection.
	redial bool
}

// trial is the write under way, if there is one.
type trial struct {
	// busy says that there is one, connecting that it has no connection yet, began when it began to wait for what it waits for.
	busy, connecting bool
	began            time.Time
}

// late says whether it takes suspiciously long.
func (t trial) late(clock clock.PassiveClock) bool {
	patience := suspectAfter
	if t.connecting {
		patience = connectPatience
	}
	return t.busy && clock.Since(t.began) >= patience
}

// probe is the state for one cluster.
type probe struct {
	key string
	// poolKey names its connection: a cluster that is forgotten and set again has another.
	poolKey string
	turn    int
	ctx     context.Context //nolint:containedctx // ends when the cluster is forgotten
	cancel  context.CancelFunc

	mu     sync.Mutex // guards what follows
	aim    aim
	result ProbeResult
	trial  trial
	// forgotten says that nobody wants to know any more.
	forgotten bool
	// ok says whether writes succeed, suspect whether one failed or takes long, as they were judged last.
	ok, suspect bool
	// settings is the checksum that the last write brought back; 0 before the first, and while the server does not tell.
	settings uint32

	// Only the one write under way uses what follows.
	server    string    // server_uuid behind the kept connection
	plain     time.Time // until when heartbeat is not tried, because the server behind it does not know all that it reads
	greeted   time.Time // when that was opened
	abandoned struct {
		server string
		id     uint64 // connection id
	}
}

// NewProber returns a prober without targets.
func NewProber(o ProberOptions) *Prober {
	if o.Interval <= 0 {
		o.Interval = DefaultProbeInterval
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultProbeTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.OnChange == nil {
		o.OnChange = func(string) {}
	}
	o.Pool.Clock, o.Pool.MaxAnswer = o.Clock, maxAnswer
	o.Pool.StatementTimeout = o.Timeout
	o.Pool.ChangeTimeout = o.Timeout
	return &Prober{options: o, pool: conn.NewPool(o.Pool), probes: map[string]*probe{}, jobs: make(chan *probe), done: make(chan struct{})}
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
		present.aim.target = target
		present.mu.Unlock()
		return
	}
	p.set++
	b := &probe{key: key, poolKey: fmt.Sprintf("%s %d", key, p.set), turn: p.set % turnsEach, aim: aim{target: target}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	p.probes[key] = b
	p.turns[b.turn] = append(p.turns[b.turn], b)
	p.begin.Do(func() { p.running.Go(p.run) })
	b.trial = trial{busy: true, connecting: true, began: p.options.Clock.Now()}
	p.do(b)
}

// Redial has the next write of a cluster go over a new connection: an address may lead elsewhere than when the present one was made.
func (p *Prober) Redial(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if present := p.probes[key]; present != nil {
		present.mu.Lock()
		present.aim.redial = true
		present.mu.Unlock()
	}
}

// Forget stops probing a cluster. A write under way is cut off.
func (p *Prober) Forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if present := p.probes[key]; present != nil {
		p.forget(present)
	}
}

// forget is Forget with the lock held. The connection goes with the write under way.
func (p *Prober) forget(b *probe) {
	delete(p.probes, b.key)
	p.turns[b.turn] = slices.DeleteFunc(p.turns[b.turn], func(other *probe) bool { return other == b })
	b.cancel()
	b.mu.Lock()
	b.forgotten = true
	busy := b.trial.busy
	b.mu.Unlock()
	if !busy {
		p.pool.Forget(b.poolKey)
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
	for _, present := range p.probes {
		p.forget(present)
	}
	p.mu.Unlock()
	p.running.Wait()
	p.pool.Close()
}

// run gives each cluster its turn, and looks a quarter of an interval later whether its write is still under way, which is suspicious by
// then. Turns that were missed while the process stood still are made up for, one round of them.
func (p *Prober) run() {
	step := p.options.Interval / turnsEach
	ticker := p.options.Clock.NewTicker(step)
	defer ticker.Stop()
	for began, turn := p.options.Clock.Now(), 0; ; {
		select {
		case <-p.done:
			return
		case <-ticker.C():
		}
		now := int(p.options.Clock.Since(began) / step)
		for turn = max(turn, now-turnsEach); turn < now; turn++ {
			p.mu.Lock()
			due, begun := slices.Clone(p.turns[turn%turnsEach]), slices.Clone(p.turns[(turn+turnsEach-turnsEach/4)%turnsEach])
			p.mu.Unlock()
			for _, b := range due {
				p.look(b, true)
			}
			for _, b := range begun {
				p.look(b, false)
			}
		}
	}
}

// look judges a cluster's writes, and begins one if none is under way and it has its turn.
func (p *Prober) look(b *probe, turn bool) {
	b.mu.Lock()
	start := turn && !b.trial.busy && !b.forgotten
	if start {
		b.trial.busy, b.trial.began = true, p.options.Clock.Now()
	}
	told := b.judge(p.options.Clock) || b.trial.busy && b.suspect && b.ok
	told = told && !b.forgotten
	b.mu.Unlock()
	if start {
		p.do(b)
	}
	if told {
		p.options.OnChange(b.key)
	}
}

// do has a write made by a goroutine that waits for one, or by another.
func (p *Prober) do(b *probe) {
	select {
	case p.jobs <- b:
	default:
		p.running.Go(func() { p.work(b) })
	}
}

// work makes writes until there is none to be made for a while, or enough others wait for one.
func (p *Prober) work(b *probe) {
	for b != nil {
		settings, err := p.write(b.ctx, b)
		p.end(b, settings, err)
		b = p.nextJob()
	}
}

func (p *Prober) nextJob() *probe {
	defer p.resting.Add(-1)
	if p.resting.Add(1) > mostResting {
		return nil
	}
	rest := p.options.Clock.NewTimer(workerRest)
	defer rest.Stop()
	select {
	case b := <-p.jobs:
		return b
	case <-rest.C():
	case <-p.done:
	}
	return nil
}

// end keeps the outcome of one write, and the checksum that it brought back.
func (p *Prober) end(b *probe, settings uint32, err error) {
	b.mu.Lock()
	b.trial.busy = false
	changed := settings != b.settings && (err == nil || settings != 0)
	if changed {
		b.settings = settings
	}
	b.result.Probed = true
	b.result.Err = ""
	b.trial.connecting = err != nil
	if err != nil {
		b.result.Err = err.Error()
	} else {
		b.result.LastSuccess = p.options.Clock.Now()
	}
	forgotten := b.forgotten
	told := (b.judge(p.options.Clock) || changed) && !forgotten
	b.mu.Unlock()
	if forgotten {
		p.pool.Forget(b.poolKey)
	}
	if told {
		p.options.OnChange(b.key)
	}
}

// judge says whether somebody is to be told: the cluster's availability flipped, for which silence alone is enough, or a write has
// failed or takes suspiciously long and the one before did not. Call it with the lock held.
func (b *probe) judge(clock clock.PassiveClock) bool {
	ok := !b.result.LastSuccess.IsZero() && clock.Since(b.result.LastSuccess) <= ProbeFresh
	suspect := b.result.Err != "" || b.trial.late(clock)
	told := ok != b.ok || suspect && !b.suspect
	b.ok, b.suspect = ok, suspect
	return told
}

// write makes one write over the kept connection, dialling if there is none. Any error closes the connection: behind a
// Service's address the next one may lead to another member. It returns the checksum of the server's commit settings, and an error
// also when only the operator's own account may still write.
func (p *Prober) write(ctx context.Context, b *probe) (settings uint32, err error) {
	b.mu.Lock()
	target, redial := b.aim.target, b.aim.redial
	b.aim.redial = false
	b.trial.connecting = b.trial.connecting || redial
	b.mu.Unlock()
	if redial {
		p.pool.Forget(b.poolKey)
	}
	h := p.pool.Handle(mysql.Endpoint{Key: b.poolKey, Address: target.Address, ServerName: target.ServerName}, target.Identity)
	var found beatFacts
	kept := p.keptFor()
	err = h.Keep(ctx, func(s *conn.Session) bool { return b.ended(ctx, s, kept) }, func(s *conn.Session) error {
		b.plain = time.Time{}
		return b.greet(ctx, s)
	}, func(s *conn.Session) (err error) {
		found, err = b.beat(ctx, s)
		if s.TimedOut() {
			b.abandoned.server, b.abandoned.id = b.server, s.ID()
		}
		return err
	})
	if err == nil {
		err = found.refusal()
	}
	return found.settings, err
}

// keptFor is how long the connection of each cluster is written over.
func (p *Prober) keptFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(keptFor, time.Duration(len(p.probes))*dialEvery)
}

// ended says whether the connection has been kept for long enough and is to give way to a new one. On a full server it stays: a client that
// waits would take its place, and the next one that of the administrator, whom the operator's looks and people may need.
func (b *probe) ended(ctx context.Context, s *conn.Session, kept time.Duration) bool {
	now := s.Options().Clock.Now()
	if now.Sub(b.greeted) < kept {
		return false
	}
	var full bool
	if err := s.Row(ctx, isFull, nil, &full); err == nil && full {
		b.greeted = now
		return false
	}
	b.connect(true, s.Options().Clock)
	return true
}

// connect says that a connection is being made, or that it is there.
func (b *probe) connect(making bool, clock clock.PassiveClock) {
	b.mu.Lock()
	b.trial.connecting, b.trial.began = making, clock.Now()
	b.mu.Unlock()
}

// greet prepares a fresh connection. It refuses while an earlier write of ours still waits on the same server: its commit
// cannot be ended and holds the row's lock (facts 1, 2), and more of them would only pile up.
func (b *probe) greet(ctx context.Context, s *conn.Session) error {
	var waiting bool
	err := s.Row(ctx, "SELECT @@server_uuid, EXISTS(SELECT 1 FROM performance_schema.processlist WHERE ID = ? AND INFO LIKE 'INSERT INTO nairobi_mysql.heartbeat%')",
		[]any{b.abandoned.id}, &b.server, &waiting)
	if err != nil {
		return err
	}
	if waiting && b.abandoned.server == b.server {
		return fmt.Errorf("an earlier write is not answered yet: %w", mysql.ErrCommitsPending)
	}
	b.greeted = s.Options().Clock.Now()
	if err := s.Change(ctx, "probe/lock-wait", "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
		return err
	}
	b.connect(false, s.Options().Clock)
	return nil
}

// beat writes one heartbeat. A server without one of the variables, whose semi-sync plug-in was uninstalled, is written to all the
// same.
func (b *probe) beat(ctx context.Context, s *conn.Session) (beatFacts, error) {
	query, plain := heartbeat, s.Options().Clock.Now().Before(b.plain)
	if plain {
		query = plainHeartbeat
	}
	result, err := s.Exec(ctx, s.Options().ChangeTimeout, "probe/write", query)
	if !plain && conn.IsServerError(err, mysql.ErUnknownSystemVariable) {
		b.plain = s.Options().Clock.Now().Add(plainFor)
		return b.beat(ctx, s)
	}
	if conn.RefusesForGood(err) {
		return beatFacts{}, errors.Join(err, conn.Heartbeat.Restore(ctx, s)) // the next write goes there
	}
	if err != nil || plain {
		return beatFacts{}, err
	}
	id, err := result.LastInsertId()
	return beatFacts{refusals: uint32(id >> 32), settings: uint32(id)}, err //nolint:gosec // the two halves
}
