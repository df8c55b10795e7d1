package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/alx-ke/nairobi-mysql-operator/internal/ec2/inventory"
	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

const (
	// lookPatience is how long a pass waits for a member's answer, silentPatience for that of one which gave none before: an
	// instance that is dead must not slow down what is done about it. The next pass takes what comes later.
	lookPatience   = time.Second
	silentPatience = 50 * time.Millisecond
	// lookLimit is when an answer is given up that no pass waits for any more.
	lookLimit = 4 * time.Second
	// lookFresh is how old an answer may be that came after its pass had gone on.
	lookFresh = time.Second
	// observationSpan is how long an observation takes at the most. When one took longer, the process stood still: in that time nobody was
	// looked at, so it does not count as time in which a member was silent, and what is decided is as old as the rest of it.
	observationSpan = 2 * time.Second
)

// LookPorts are what looking at mysqld goes through.
type LookPorts struct {
	Threads Threads
	Clock   clock.PassiveClock
	// Server returns the handle through which a member's present instance is looked at.
	Server func(ctx context.Context, m *topology.Member) LookedAt
	// ParseGTIDs reads a GTID set as MySQL writes it.
	ParseGTIDs func(text string) (gtid.Set, error)
	// Judge adds to what a member answered what follows from the spec and the records.
	Judge func(m *topology.Member, o mysql.Observation)
	// Heard is called for each member that was looked at, once it is settled whether it answered. One that does not answer on an
	// instance that does not run is left out.
	Heard func(ctx context.Context, m *topology.Member)
	// Wake has another pass made now.
	Wake func()
}

// LookedAt is a mysqld that is looked at.
type LookedAt interface {
	Observe(ctx context.Context) mysql.Observation
	// Claim takes the one writing session. mysql.ErrLeaseRefused: another process leads.
	Claim(ctx context.Context) error
	// LoggedTransactions returns those of a GTID set that the member's own binary log holds.
	LoggedTransactions(ctx context.Context, gtids string) ([]mysql.LoggedTransaction, error)
}

// Looks are what an operator process keeps of its looks at the mysqlds of one cluster.
type Looks struct {
	Detector topology.FailureDetector
	// open are the looks whose answer no pass has taken yet, by instance.
	open map[string]*look
	// claimed are the instances whose writing session this process took.
	claimed map[string]bool
	// logs are what is known by the binary logs of replicas with errant transactions, by instance.
	logs map[string]*logged
	// applierStops are the transactions at which the appliers of replicas stopped, by instance.
	applierStops map[string]*applierStops
}

// NewLooks has looked at nothing yet.
func NewLooks() *Looks {
	return &Looks{open: map[string]*look{}, claimed: map[string]bool{}, logs: map[string]*logged{}, applierStops: map[string]*applierStops{}}
}

// look is one look at a member's mysqld. It goes on when the pass that began it does not wait any longer, and the next
// pass takes the answer.
type look struct {
	started time.Time
	task    Task

	mu sync.Mutex
	// late is true once no pass waits for it any more, over once there is an answer.
	late, over  bool
	observation mysql.Observation
	ended       time.Time
	// claims says that the member's writing session was asked for, claim with what outcome.
	claims bool
	claim  error
}

// answer returns what was seen, or that nothing was until now.
func (l *look) answer() (o mysql.Observation, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		return mysql.Observation{Access: mysql.AccessSilent, Reason: "no answer yet"}, false
	}
	return l.observation, true
}

// await waits for the answer. When it comes later than that, the cluster is looked at again: passes may be further apart than an answer is
// fresh, and a member that answers slowly would count as silent for ever.
func (l *look) await(ctx context.Context, patience time.Duration) {
	if l.task.Await(ctx, patience) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = !l.over
}

// answered records what a member answered, and says whether a pass should be made for it: it does, and no pass waits.
func (l *look) answered(o mysql.Observation, claims bool, claim error, now time.Time) (wake bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.observation, l.claims, l.claim, l.over, l.ended = o, claims, claim, true, now
	return l.late && o.Access == mysql.AccessVerified
}

// stale says whether an answer came too long ago, or says nothing: the look ended without one long after its limit, so that the process
// stood still meanwhile.
func (l *look) stale(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.observation.Access == mysql.AccessSilent && l.ended.Sub(l.started) > lookLimit+observationSpan
	return l.over && (late || now.Sub(l.ended) >= lookFresh)
}

// Observe asks every member that may answer, side by side. It fails when another process leads.
func (k *Looks) Observe(ctx context.Context, o *topology.Observed, p LookPorts) error {
	looks, tasks := map[string]*look{}, []func(context.Context){}
	for _, name := range slices.Sorted(maps.Keys(o.Members)) {
		m := o.Members[name]
		in := m.CurrentInstance()
		if !in.MayAnswer(o) {
			k.Detector.RecordAnswer(m, o.Now, p.Clock.Now())
			continue
		}
		l, patience := k.begin(ctx, m, p), lookPatience
		if !k.Detector.SilentSince(name).IsZero() || in.State != inventory.StateRunning && !k.Detector.DownSince(name).IsZero() {
			patience = silentPatience
		}
		looks[name] = l
		tasks = append(tasks, func(ctx context.Context) { l.await(ctx, patience) })
	}
	p.Threads.All(ctx, tasks)
	for _, name := range slices.Sorted(maps.Keys(looks)) {
		if err := k.take(o.Members[name], looks[name], p); err != nil {
			return err
		}
		asked := looks[name].started
		if waited := p.Clock.Now().Add(-lookPatience); waited.After(asked) {
			asked = waited // no pass waits for longer, unless it stands still
		}
		k.Detector.RecordAnswer(o.Members[name], asked, p.Clock.Now())
		if o.Members[name].SQL.Access != topology.AccessNone {
			p.Heard(ctx, o.Members[name])
		}
	}
	o.Now = o.Now.Add(min(p.Clock.Since(o.Now), observationSpan))
	k.Detector.Record(o)
	k.readLogs(ctx, o, p)
	k.findSkipped(ctx, o, p)
	return nil
}

// begin begins to look at a member, or returns the look that is under way or has just ended.
func (k *Looks) begin(ctx context.Context, m *topology.Member, p LookPorts) *look {
	id := m.CurrentInstance().ID
	if l := k.open[id]; l != nil && !l.stale(p.Clock.Now()) {
		return l
	}
	server, claims := p.Server(ctx, m), !k.claimed[id]
	l := &look{started: p.Clock.Now()}
	k.open[id] = l
	l.task = p.Threads.Start(ctx, lookLimit, func(ctx context.Context) {
		var claim error
		o := server.Observe(ctx)
		claimed := claims && o.Access == mysql.AccessVerified
		if claimed {
			claim = server.Claim(ctx)
		}
		if l.answered(o, claimed, claim, p.Clock.Now()) {
			p.Wake()
		}
	})
	return l
}

// take takes the answer of a look. This process claims every member the first time that it reaches it, before anything is decided:
// from then on a leader that was replaced without knowing it can change nothing there. A member that could not be claimed counts
// as not reached; without the lease the pass ends.
func (k *Looks) take(m *topology.Member, l *look, p LookPorts) error {
	o, over := l.answer()
	m.SQL = sqlOf(o, p.ParseGTIDs)
	if o.Access != mysql.AccessVerified && m.CurrentInstance().State != inventory.StateRunning {
		m.SQL = topology.SQL{} // that an instance is silent which does not run says nothing of its mysqld
	}
	if !over {
		return nil
	}
	delete(k.open, m.CurrentInstance().ID)
	m.Asked = l.started
	if m.SQL.Access == topology.AccessVerified {
		p.Judge(m, o)
	}
	switch {
	case !l.claims:
	case l.claim == nil:
		k.claimed[m.CurrentInstance().ID] = true
	case errors.Is(l.claim, mysql.ErrLeaseRefused):
		return l.claim
	default:
		m.SQL = topology.SQL{Access: topology.AccessSilent, Reason: l.claim.Error()}
	}
	return nil
}

// sqlOf translates what the SQL plane saw into the planner's words.
func sqlOf(o mysql.Observation, parseGTIDs func(string) (gtid.Set, error)) topology.SQL {
	sql := topology.SQL{Access: o.Access, Reason: o.Reason, Version: release(o.Version)}
	if o.Access != mysql.AccessVerified {
		return sql
	}
	var bad []string
	parse := func(what, text string) gtid.Set {
		set, err := parseGTIDs(text)
		if err != nil {
			bad = append(bad, what)
		}
		return set
	}
	sql.ServerUUID, sql.Start = o.ServerUUID, o.Start
	sql.Writable = !o.ReadOnly
	sql.Executed, sql.Purged, sql.Waiting = parse("gtid_executed", o.Executed), parse("gtid_purged", o.Purged), parse("gtid_owned", o.Waiting)
	sql.SemiSync = o.SemiSync
	sql.Membership, sql.MembershipKnown = (*topology.Membership)(o.Membership), o.MembershipKnown
	if rep := o.Replication; rep != nil {
		sql.Replication = &topology.Replication{
			SourceHost: rep.SourceHost, IOState: rep.IOState, SQLRunning: rep.SQLRunning,
			Retrieved:     parse("Retrieved_Gtid_Set", rep.Retrieved),
			SourceSilence: rep.SourceSilence, SourceRefusal: rep.SourceRefusal, Tampering: rep.Tampering, RelayLogMissing: rep.RelayLogMissing,
		}
		sql.Replication.ReceiverError, sql.Replication.ApplierError = topology.StopErrors(rep.IOState, rep.SQLRunning, rep.ReceiverRetries, rep.LastIOError, rep.LastSQLError)
		if rep.LagSeconds != nil {
			sql.Replication.LagKnown = true
			sql.Replication.Lag = time.Duration(*rep.LagSeconds * float64(time.Second))
		}
	}
	if o.Clone != nil {
		sql.Clone = &topology.Clone{State: o.Clone.State, Message: o.Clone.String(), Source: o.Clone.Source, Began: o.Clone.Began}
	}
	if o.Disk != nil {
		sql.Disk = &topology.Disk{SizeBytes: o.Disk.SizeBytes, FreeBytes: o.Disk.FreeBytes}
	}
	sql.ClockSkew = o.ClockSkew
	sql.RelaySync = o.Settings[mysql.RelaySync]
	sql.Connections, sql.MaxConnections = o.Connections, o.MaxConnections
	sql.PersistedIgnored = o.PersistedIgnored
	sql.PendingCommits, sql.Answered = o.PendingCommits, o.AnsweredCommits
	if len(bad) > 0 {
		// A position that cannot be read must never pass for an empty one.
		return topology.SQL{Access: topology.AccessSilent, Reason: "unreadable " + strings.Join(bad, ", ")}
	}
	return sql
}

// release is the x.y.z of a version such as 9.7.4-2 or 8.4.6-commercial.
func release(version string) string {
	numbers, _, _ := strings.Cut(version, "-")
	return numbers
}
