package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// act has the engine execute a plan.
func (op *operator) act(p *process, d topology.Desired, plan topology.Plan, o topology.Observed) engine.Outcome {
	x := &engine.Execution{
		Ports: engine.Ports{
			Cloud: cloudPort{op}, Database: sqlPort{op, o}, Records: op.stored, Threads: threads{op}, Reporter: reportPort{op}, Clock: clock{op.w},
			Lease: func(ctx context.Context) error { return processOf(ctx).holdsLease() },
			Wake:  op.wakeUp,
		},
		Desired: d, Observed: o, Plan: plan, Requests: op.requests, Outdated: op.outdated(),
	}
	ctx := p.context()
	x.TakeAnswers(ctx)
	x.Run(ctx)
	return engine.Outcome{Promoted: x.Promoted, Acted: x.Acted, Problems: x.Problems}
}

// wakeUp has another pass made now, unless one is under way.
func (op *operator) wakeUp() {
	if op.wake != nil {
		op.wake()
	}
}

// outdated are the volumes whose tag does not say yet which version has opened them.
func (op *operator) outdated() map[string]string {
	found := map[string]string{}
	for _, rec := range op.records().Members {
		if r := op.picture.volumes[rec.VolumeID]; r != nil && rec.Opened != "" && r.value.Opened != rec.Opened {
			found[rec.VolumeID] = rec.Opened
		}
	}
	return found
}

// clock is the world's.
type clock struct{ w *world }

func (c clock) Now() time.Time { return c.w.time() }

func (c clock) Since(t time.Time) time.Duration { return c.w.time().Sub(t) }

// threads are the processes of one operator.
type threads struct{ op *operator }

func (t threads) All(ctx context.Context, tasks []func(context.Context)) {
	p := processOf(ctx)
	if len(tasks) == 1 {
		tasks[0](ctx)
		return
	}
	tasks = slices.Clone(tasks)
	t.op.w.rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	for _, task := range tasks {
		t.op.w.spawn(t.op, p, func(child *process) { task(child.context()) })
	}
	p.join()
}

func (t threads) Start(_ context.Context, _ time.Duration, run func(context.Context)) engine.Task {
	begun := &task{w: t.op.w}
	t.op.spawn(t.op.w.between(0, 2), nil, func(own *process) { // in any order
		run(own.context())
		begun.over = true
		for _, wake := range begun.waiting {
			t.op.w.after(0, wake)
		}
	})
	return begun
}

// task is a process that nobody needs to wait for.
type task struct {
	w       *world
	over    bool
	waiting []func()
}

func (t *task) Await(ctx context.Context, patience time.Duration) bool {
	p, awake := processOf(ctx), t.over
	if awake {
		return true
	}
	wake := func() {
		if !awake {
			awake = true
			p.resume()
		}
	}
	t.waiting = append(t.waiting, wake)
	t.w.after(patience.Milliseconds(), wake)
	p.pause()
	return t.over
}

// reportPort tells the story of a schedule.
type reportPort struct{ op *operator }

func (r reportPort) Begins(a topology.Action) {
	if r.op.w.trace.listen != nil {
		r.op.w.say("%s: %s", r.op.name, a)
	}
	r.op.w.hit(r.op, a)
	if _, restarts := a.(topology.Restart); restarts {
		r.op.w.checkDisturbed(r.op, a)
	}
}

func (r reportPort) Succeeded(topology.Action) {}

func (r reportPort) Failed(a topology.Action, p *engine.Problem, news bool) {
	if news {
		r.op.w.say("%s: %s: %s", r.op.name, a, p.Message)
	}
}

func (r reportPort) TagsRestored(string) {}

func (r reportPort) PromotionBegins() {}

func (r reportPort) Promoted() {}

func (r reportPort) SwitchedOver(topology.Switchover, time.Time) {}

// sqlPort is mysqld on the members as a pass observed them.
type sqlPort struct {
	op *operator
	o  topology.Observed
}

func (d sqlPort) Member(_ context.Context, name string) (engine.Member, error) {
	m := d.o.Members[name]
	if m == nil || m.CurrentInstance() == nil {
		return nil, fmt.Errorf("%s has no address", name)
	}
	return &member{d.op, d.op.w.instance(m.CurrentInstance().ID)}, nil
}

func (d sqlPort) Recover(ctx context.Context, a topology.Recover) error {
	return d.op.w.heritage.recover(ctx, d.op, a)
}

var _ engine.Member = (*member)(nil)

// DemotePatiently is Demote: what the clients here begin is one statement.
func (m *member) DemotePatiently(ctx context.Context) error { return m.Demote(ctx) }

// DisconnectClients leaves it to the clients to find out.
func (m *member) DisconnectClients(context.Context) {}

func (m *member) PrepareCertificate(_ context.Context, a topology.SignCertificate) (key string, install func(context.Context) error, err error) {
	return "key of " + a.InstanceID, func(ctx context.Context) error {
		p := processOf(ctx)
		return m.exchange(p, func(*mysqld) error {
			m.in.signed, m.in.signedAt = true, p.w.now
			return nil
		})
	}, nil
}

// PinSettings, SetMaxConnections and PurgeBinaryLogs change nothing that a promise rests on here.
func (m *member) PinSettings(context.Context, topology.PinSettings) error { return nil }

func (m *member) SetRelaySync(ctx context.Context, value string) error {
	return m.control(ctx, func(c writer) error {
		return c.do(func(s *mysqld) error {
			s.unsynced = value != "1"
			checkUnsynced(s.w, s)
			return nil
		})
	})
}

func (m *member) SetMaxConnections(context.Context, int) error { return nil }

func (m *member) PurgeBinaryLogs(context.Context) error { return nil }

// holdsLease fails unless the operator holds the lease.
func (p *process) holdsLease() error {
	p.op.point(p)
	if !p.w.holdsLease(p.op) {
		return fmt.Errorf("%w: %s", mysql.ErrLeaseRefused, p.op.name)
	}
	return nil
}
