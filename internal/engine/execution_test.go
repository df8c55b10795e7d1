package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// stage is a world of one's own: EC2 and mysqld answer what a test says, and what they were asked is written down.
type stage struct {
	Cloud // of which only what is asked for here is there
	Member
	asked   []string
	answers map[string]error // by the first words of what is asked
	hung    []func()         // tasks that outlast their pass
	hangs   bool
	waited  []time.Duration // for tasks, by passes
	awaits  func()          // called while a pass waits for a task
	woken   int
	records topology.ClusterRecord
	clock   *clocktesting.FakePassiveClock
	told    []string
}

func newStage() *stage {
	return &stage{answers: map[string]error{}, records: topology.ClusterRecord{Members: map[string]topology.MemberRecord{}}, clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))}
}

func (w *stage) ask(what string) error {
	w.asked = append(w.asked, what)
	for begin, err := range w.answers {
		if strings.HasPrefix(what, begin) {
			return err
		}
	}
	return nil
}

func (w *stage) StartInstance(_ context.Context, a topology.StartInstance) error {
	return w.ask(a.String())
}
func (w *stage) StopInstance(_ context.Context, a topology.StopInstance) error {
	return w.ask(a.String())
}
func (w *stage) TerminateInstance(_ context.Context, a topology.TerminateInstance) error {
	return w.ask(a.String())
}
func (w *stage) EnsureSecurityGroup(context.Context) error {
	return w.ask(topology.EnsureSecurityGroup{}.String())
}
func (w *stage) DetachVolume(_ context.Context, a topology.DetachVolume) error {
	return w.ask(a.String())
}
func (w *stage) DeleteVolume(_ context.Context, a topology.DeleteVolume) error {
	return w.ask(a.String())
}
func (w *stage) TagVersion(_ context.Context, id, version string) error {
	return w.ask("note " + version + " on " + id)
}
func (w *stage) PrepareVolume(a topology.CreateVolume) (func(context.Context) error, error) {
	return func(context.Context) error { return w.ask(a.String()) }, nil
}
func (w *stage) PrepareLaunch(a topology.LaunchInstance) (func(context.Context) error, error) {
	return func(context.Context) error { return w.ask(a.String()) }, nil
}
func (w *stage) StopIOThread(context.Context) error    { return w.ask("stop the receiver") }
func (w *stage) DemotePatiently(context.Context) error { return w.ask("demote patiently") }
func (w *stage) PrepareCertificate(_ context.Context, a topology.SignCertificate) (string, func(context.Context) error, error) {
	return "key", func(context.Context) error { return w.ask("install the certificate of " + a.Member) }, w.ask("read the request of " + a.Member)
}
func (w *stage) ApplySettings(ctx context.Context, a topology.ApplySettings, before func(context.Context) error) (bool, error) {
	if err := before(ctx); err != nil {
		return false, err
	}
	err := w.ask("apply " + fmt.Sprint(a.Want))
	return err == nil, err
}

// database, memory, threads and story are the other ports of a stage.
type (
	database struct{ *stage }
	memory   struct{ *stage }
	threads  struct{ *stage }
	story    struct{ *stage }
)

func (d database) Member(_ context.Context, name string) (Member, error) {
	if err := d.ask("find " + name); err != nil {
		return nil, err
	}
	return d.stage, nil
}
func (d database) Recover(_ context.Context, a topology.Recover) error { return d.ask(a.String()) }

func (m memory) Now() topology.ClusterRecord { return m.records }
func (m memory) Save(_ context.Context, change func(*topology.ClusterRecord)) error {
	if err := m.ask("save the records"); err != nil {
		return err
	}
	next := m.records.Clone()
	change(&next)
	m.records = next
	return nil
}

func (threads) All(ctx context.Context, tasks []func(context.Context)) {
	for _, task := range slices.Backward(tasks) { // in no order that anybody may rely on
		task(ctx)
	}
}

func (t threads) Start(ctx context.Context, _ time.Duration, task func(context.Context)) Task {
	if t.hangs {
		t.hung = append(t.hung, func() { task(ctx) })
		return begun{t.stage, false}
	}
	task(ctx)
	return begun{t.stage, true}
}

// begun is a task that is over, or will not be as long as anybody waits.
type begun struct {
	*stage
	over bool
}

func (b begun) Await(_ context.Context, patience time.Duration) bool {
	b.waited = append(b.waited, patience)
	if b.awaits != nil {
		b.awaits()
	}
	return b.over
}

func (s story) say(format string, args ...any) { s.told = append(s.told, fmt.Sprintf(format, args...)) }
func (s story) Begins(topology.Action)         {}
func (s story) Succeeded(a topology.Action)    { s.say("done: %s", a) }
func (s story) Failed(a topology.Action, p *Problem, news bool) {
	s.say("failed: %s: %s (news: %t)", a, p.Message, news)
}
func (s story) TagsRestored(id string)                               { s.say("tags of %s", id) }
func (s story) PromotionBegins()                                     { s.say("fenced") }
func (s story) Promoted()                                            { s.say("promoted") }
func (s story) SwitchedOver(a topology.Switchover, closed time.Time) { s.say("%s at %s", a, closed) }

// execution is an execution on the stage.
func (w *stage) execution(q *Requests, actions ...topology.Action) *Execution {
	return &Execution{
		Ports: Ports{
			Cloud: w, Database: database{w}, Records: memory{w}, Threads: threads{w}, Reporter: story{w}, Clock: w.clock,
			Wake: func() { w.woken++ },
		},
		Observed: topology.Observed{Now: w.clock.Now(), Members: map[string]*topology.Member{}}, Plan: topology.Plan{Actions: actions}, Requests: q,
	}
}

// TestAnActionThatFailsEndsItsTargetsTurn: others' actions are taken all the same, after those of the cluster.
func TestAnActionThatFailsEndsItsTargetsTurn(t *testing.T) {
	w := newStage()
	w.answers["terminate instance i-1"] = errors.New("no")
	x := w.execution(NewRequests(),
		topology.TerminateInstance{Member: "a", InstanceID: "i-1"}, topology.Fence{Member: "b"}, topology.Fence{Member: "a"})
	x.Run(t.Context())
	if want := []string{"find b", "stop the receiver", "terminate instance i-1"}; !slices.Equal(slices.Sorted(slices.Values(firstWords(w.asked, 3))), want) {
		t.Errorf("asked %q", w.asked)
	}
	if x.Acted != 1 || len(x.Problems) != 1 || !strings.HasPrefix(x.Problems[0].Message, "terminate instance i-1") {
		t.Errorf("%d actions succeeded, problems %v", x.Acted, x.Problems)
	}
}

// TestWhatNothingWaitsForEndsNoTurn: another instance has the member's volume, so that of the refused action is surplus.
func TestWhatNothingWaitsForEndsNoTurn(t *testing.T) {
	w := newStage()
	w.answers["terminate instance i-1"] = errors.New("no")
	x := w.execution(NewRequests(), topology.TerminateInstance{Member: "a", InstanceID: "i-1"}, topology.Fence{Member: "a"})
	x.Observed.Members["a"] = &topology.Member{Name: "a", Instances: []topology.Instance{{ID: "i-1", Incarnation: 1}, {ID: "i-2", Incarnation: 2}}}
	x.Run(t.Context())
	if want := []string{"terminate instance i-1 of a", "find a", "stop the receiver"}; !slices.Equal(w.asked, want) || x.Acted != 1 || len(x.Problems) != 1 {
		t.Errorf("asked %q, %d actions succeeded, problems %v", w.asked, x.Acted, x.Problems)
	}
}

// TestAFailoverWaitsForNothingOfTheCluster, such as the rules of its security group.
func TestAFailoverWaitsForNothingOfTheCluster(t *testing.T) {
	for failing, want := range map[bool][]string{
		false: {"ensure the security groups", "find a", "stop the receiver"},
		true:  {"find a", "stop the receiver", "ensure the security groups"},
	} {
		w := newStage()
		x := w.execution(NewRequests(), topology.EnsureSecurityGroup{}, topology.Fence{Member: "a"})
		x.Plan.Failing = failing
		if x.Run(t.Context()); !slices.Equal(w.asked, want) {
			t.Errorf("failing %t: asked %q", failing, w.asked)
		}
	}
}

// firstWords cuts texts after a number of words.
func firstWords(texts []string, n int) []string {
	var cut []string
	for _, text := range texts {
		words := strings.Fields(text)
		cut = append(cut, strings.Join(words[:min(n, len(words))], " "))
	}
	return cut
}

// TestWhatWasRefusedIsNotAskedAgainAtOnce: the problem stands, and nobody is asked, until the pause is over; each is longer.
func TestWhatWasRefusedIsNotAskedAgainAtOnce(t *testing.T) {
	w, q := newStage(), NewRequests()
	w.answers["terminate"] = errors.New("no")
	run := func() *Execution {
		x := w.execution(q, topology.TerminateInstance{Member: "a", InstanceID: "i-1"})
		x.Run(t.Context())
		return x
	}
	for n, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, 8 * firstPause, longestPause} {
		if run(); len(w.asked) != n+1 {
			t.Fatalf("asked %d times after %d pauses", len(w.asked), n)
		}
		w.clock.SetTime(w.clock.Now().Add(pause - time.Millisecond))
		if x := run(); len(w.asked) != n+1 || len(x.Problems) != 1 {
			t.Errorf("asked %d times before pause %d was over; problems %v", len(w.asked), n+1, x.Problems)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Millisecond))
	}
	delete(w.answers, "terminate")
	if x := run(); x.Acted != 1 || q.Refusal(topology.Identity(topology.TerminateInstance{Member: "a", InstanceID: "i-1"}), w.clock.Now()) != nil {
		t.Error("what succeeded is still refused")
	}
}

// TestWhatEC2TookIsNotAskedForAgainAtOnce: its lists need not show it yet. Another action on the same resource, and the fence, do not wait.
func TestWhatEC2TookIsNotAskedForAgainAtOnce(t *testing.T) {
	for _, c := range []struct {
		action topology.Action
		waits  bool
	}{
		{topology.StartInstance{Member: "a", InstanceID: "i-1"}, true},
		{topology.TerminateInstance{Member: "a", InstanceID: "i-1"}, true},
		{topology.DetachVolume{Member: "a", VolumeID: "vol-1", InstanceID: "i-1"}, true},
		{topology.DeleteVolume{Member: "a", VolumeID: "vol-1"}, true},
		{topology.StopInstance{Member: "a", InstanceID: "i-1"}, false},
		{topology.LaunchInstance{Member: "a", Incarnation: 1}, false},
	} {
		w, q := newStage(), NewRequests()
		run := func() int {
			before := len(w.asked)
			x := w.execution(q, c.action)
			if x.Run(t.Context()); len(x.Problems) > 0 {
				t.Errorf("%s: problems %v", c.action, x.Problems)
			}
			return len(w.asked) - before
		}
		if run() != 1 {
			t.Fatalf("%s is not asked for", c.action)
		}
		w.clock.SetTime(w.clock.Now().Add(listsShow - time.Millisecond))
		if asked := run(); (asked == 0) != c.waits {
			t.Errorf("%s is asked for %d times before the lists show the first", c.action, asked)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Millisecond))
		if run() != 1 {
			t.Errorf("%s is not asked for again", c.action)
		}
	}
}

// TestARequestThatOutlastsItsPass is not made twice, wakes the cluster when it ends, and counts only when a pass takes its answer.
func TestARequestThatOutlastsItsPass(t *testing.T) {
	for name, failure := range map[string]error{"it succeeds": nil, "it fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			w, q := newStage(), NewRequests()
			w.hangs = true
			stop := topology.StopInstance{Member: "a", InstanceID: "i-1"}
			for range 2 {
				x := w.execution(q, stop, topology.Fence{Member: "a"})
				x.TakeAnswers(t.Context())
				if x.Run(t.Context()); x.Acted != 1 || len(x.Problems) != 0 || len(w.hung) != 1 {
					t.Fatalf("%d actions succeeded, %d requests hang, problems %v", x.Acted, len(w.hung), x.Problems)
				}
			}
			w.answers["stop instance"] = failure
			w.hung[0]()
			if w.woken != 1 {
				t.Errorf("the cluster is woken %d times", w.woken)
			}
			x := w.execution(q)
			x.TakeAnswers(t.Context())
			if failed := len(x.Problems) == 1; failed != (failure != nil) || x.Acted == 1 == failed {
				t.Errorf("%d actions succeeded, problems %v", x.Acted, x.Problems)
			}
			again := w.execution(q)
			again.TakeAnswers(t.Context())
			if again.Acted+len(again.Problems) != 0 {
				t.Error("an answer is taken twice")
			}
		})
	}
}

// TestNoPassWaitsForALaunch: a pass waits for a call that makes something for at most four seconds, and for a moment while the cluster
// fails. The call is not made twice meanwhile, what it makes is in doubt, and a later pass takes its answer.
func TestNoPassWaitsForALaunch(t *testing.T) {
	for name, row := range map[string]struct {
		action topology.Action
		failed func(*Requests, time.Time) bool
	}{
		"a launch": {topology.LaunchInstance{Member: "a", Incarnation: 1, SubnetID: "subnet-b"}, func(q *Requests, now time.Time) bool {
			zone, _ := q.CapacityRefused("a", now)
			return zone == "b"
		}},
		"a volume": {topology.CreateVolume{Member: "a", Incarnation: 1, Zone: "b"}, func(q *Requests, _ time.Time) bool {
			return q.tokens[order{volume: true, member: "a", incarnation: 1}].refused
		}},
	} {
		for failing, wait := range map[bool]time.Duration{false: 4 * time.Second, true: shortWait} {
			t.Run(fmt.Sprintf("%s, failing %t", name, failing), func(t *testing.T) {
				w, q := newStage(), NewRequests()
				pass := func(actions ...topology.Action) *Execution {
					x := w.execution(q, actions...)
					x.Plan.Failing, x.Desired.Subnets = failing, []topology.Subnet{{ID: "subnet-b", Zone: "b"}}
					x.TakeAnswers(t.Context())
					x.Run(t.Context())
					return x
				}
				w.hangs = true
				for n := range 3 {
					if x := pass(row.action); x.Acted != 0 || len(x.Problems) != 0 || len(w.hung) != 1 || !slices.Equal(w.waited, []time.Duration{wait}) {
						t.Fatalf("pass %d: %d actions succeeded, %d calls, waited %v, problems %v", n, x.Acted, len(w.hung), w.waited, x.Problems)
					}
				}
				left := w.clock.Now()
				if !q.Doubted().Equal(left) {
					t.Error("what is being made is not in doubt")
				}
				w.clock.SetTime(left.Add(20 * time.Second))
				w.answers["launch"], w.answers["create"] = answer("RunInstances", codeNoCapacity), answer("CreateVolume", "VolumeLimitExceeded")
				if w.hung[0](); w.woken != 1 || !q.Doubted().Equal(left) {
					t.Errorf("woken %d times, in doubt since %s", w.woken, q.Doubted())
				}
				if x := pass(); len(x.Problems) != 1 || !row.failed(q, w.clock.Now()) {
					t.Errorf("the answer is not taken: %v", x.Problems)
				}
			})
		}
	}
}

// TestALaunchThatIsLostLaterIsInDoubt: from when it ended, whether a pass takes its answer or not.
func TestALaunchThatIsLostLaterIsInDoubt(t *testing.T) {
	w, q := newStage(), NewRequests()
	w.hangs = true
	w.execution(q, topology.CreateVolume{Member: "a", Incarnation: 1, Zone: "b"}).Run(t.Context())
	w.clock.SetTime(w.clock.Now().Add(callLimit))
	w.answers["create"] = context.DeadlineExceeded
	if w.hung[0](); !q.Doubted().Equal(w.clock.Now()) {
		t.Errorf("in doubt since %s", q.Doubted())
	}
}

// TestNothingIsNotedWhileTheClusterFails: tags are for later.
func TestNothingIsNotedWhileTheClusterFails(t *testing.T) {
	for failing, want := range map[bool]int{true: 0, false: 1} {
		w := newStage()
		x := w.execution(NewRequests())
		x.Outdated, x.Plan.Failing = map[string]string{"vol-1": "8.4.6"}, failing
		if x.Run(t.Context()); len(w.asked) != want {
			t.Errorf("failing %t: asked %q", failing, w.asked)
		}
	}
}

// TestWhatWasDecidedLongAgoIsNotDone: an execution of a pass that stood still asks for the lease before it acts.
func TestWhatWasDecidedLongAgoIsNotDone(t *testing.T) {
	w := newStage()
	x := w.execution(NewRequests(), topology.Fence{Member: "a"})
	x.Lease = func(context.Context) error { return errors.New("another leads") }
	if x.Run(t.Context()); x.Acted != 1 {
		t.Errorf("a decision of now: %v", x.Problems)
	}
	w.clock.SetTime(w.clock.Now().Add(decisionFresh))
	x.Acted, w.asked = 0, nil
	if x.Run(t.Context()); x.Acted != 0 || len(w.asked) != 0 || len(x.Problems) != 1 || !strings.Contains(x.Problems[0].Message, "another leads") {
		t.Errorf("a decision of long ago: asked %q, problems %v", w.asked, x.Problems)
	}
}

// TestStartThatFailsAfterItWasTaken: EC2 takes a start, and the instance stops again, as when its zone has no room or the key of its
// disk is disabled.
func TestStartThatFailsAfterItWasTaken(t *testing.T) {
	w, q := newStage(), NewRequests()
	start := func(why string) (asked bool, p *Problem) {
		x := w.execution(q, topology.StartInstance{Member: "orders-1", InstanceID: "i-1"})
		x.Observed.Members["orders-1"] = &topology.Member{Name: "orders-1", Instances: []topology.Instance{{ID: "i-1", Incarnation: 1, State: "stopped", Zone: "b", StateReason: why}}}
		before := len(w.asked)
		if x.Run(t.Context()); len(x.Problems) > 0 {
			p = AsProblem(x.Problems[0].Cause)
		}
		return len(w.asked) > before, p
	}
	const why = "Server." + codeNoCapacity + ": there is none"
	pause := startPause
	for n := range 7 {
		if asked, p := start(why); !asked || p != nil {
			t.Fatalf("start %d was not asked for: %v", n, p)
		}
		w.clock.SetTime(w.clock.Now().Add(20 * time.Second))
		asked, p := start(why)
		if asked || p == nil || p.Reason != v1alpha1.ReasonBootFailed || p.Pause != min(pause, startPauseMax) || p.PauseFrom != p.Pause {
			t.Fatalf("after failure %d: asked %t, %+v", n+1, asked, p)
		}
		if zone, _ := q.CapacityRefused("orders-1", w.clock.Now()); zone != "b" {
			t.Errorf("capacity lacks in %q", zone)
		}
		w.clock.SetTime(w.clock.Now().Add(p.Pause))
		pause *= 2
	}
	for _, c := range []struct {
		why   string
		after time.Duration
	}{
		{"Client.UserInitiatedShutdown: User initiated shutdown", listsShow},
		{"Client.InstanceInitiatedShutdown: Instance initiated shutdown", listsShow},
		{"", listsShow},
		{"Server.ScheduledStop: Stopped due to a scheduled retirement", startSettles + time.Second},
	} {
		if asked, p := start(why); !asked || p != nil {
			t.Fatal(p)
		}
		w.clock.SetTime(w.clock.Now().Add(c.after))
		if asked, p := start(c.why); p != nil || !asked {
			t.Errorf("%q after %s is taken for a start that failed: %v", c.why, c.after, p)
		}
		if asked, p := start(why); p != nil || asked {
			t.Errorf("what EC2's list may not show yet is judged: asked %t, %v", asked, p)
		}
		w.clock.SetTime(w.clock.Now().Add(listsShow))
		_, p := start(why)
		if p == nil || p.Pause != startPause {
			t.Errorf("after %q failures are counted on: %+v", c.why, p)
		}
		w.clock.SetTime(w.clock.Now().Add(startPause))
	}
}

// TestTheKeyIsRecordedBeforeItsCertificateIsInstalled: and an instance gets none for another key.
func TestTheKeyIsRecordedBeforeItsCertificateIsInstalled(t *testing.T) {
	w := newStage()
	sign := topology.SignCertificate{Member: "a", InstanceID: "i-1"}
	w.execution(NewRequests(), sign).Run(t.Context())
	if want := []string{"find a", "read the request of a", "save the records", "install the certificate of a"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked %q", w.asked)
	}
	w.records.Members["a"] = topology.MemberRecord{SignedInstance: "i-1", SignedKey: "another key"}
	w.asked = nil
	x := w.execution(NewRequests(), sign)
	if x.Run(t.Context()); len(x.Problems) != 1 || x.Problems[0].Reason != v1alpha1.ReasonMemberUntrusted || slices.Contains(w.asked, "install the certificate of a") {
		t.Errorf("asked %q, problems %v", w.asked, x.Problems)
	}
}

// TestARestartIsRecordedBeforeItIsDue: and taken back when mysqld took none of the settings.
func TestARestartIsRecordedBeforeItIsDue(t *testing.T) {
	for name, row := range map[string]struct {
		answer error
		due    bool
	}{
		"mysqld takes it":   {nil, true},
		"mysqld refuses it": {fmt.Errorf("back_log: %w", mysql.ErrSettingRefused), false},
		"no answer":         {context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStage()
			w.answers["apply"] = row.answer
			x := w.execution(NewRequests(), topology.ApplySettings{Member: "a", Want: map[string]string{"back_log": "1"}})
			x.Observed.Members["a"] = &topology.Member{Name: "a"}
			x.Run(t.Context())
			if due := w.records.Members["a"].RestartDue != 0; due != row.due {
				t.Errorf("a restart is due: %t, asked %q", due, w.asked)
			}
		})
	}
}

// TestASpentTokenTakesTheNextIncarnation: EC2 knows the token of an instance that ended.
func TestASpentTokenTakesTheNextIncarnation(t *testing.T) {
	w := newStage()
	w.answers["create"] = answer("CreateVolume", codeTokenEnded)
	x := w.execution(NewRequests(), topology.CreateVolume{Member: "a", Incarnation: 3, Zone: "b"})
	if x.Run(t.Context()); len(x.Problems) != 1 || w.records.Members["a"].Volume != 4 {
		t.Errorf("recorded %+v, problems %v", w.records.Members["a"], x.Problems)
	}
}

// TestALackOfCapacityIsRemembered: the plan chooses another zone.
func TestALackOfCapacityIsRemembered(t *testing.T) {
	w, q := newStage(), NewRequests()
	w.answers["launch"] = answer("RunInstances", codeNoCapacity)
	x := w.execution(q, topology.LaunchInstance{Member: "a", SubnetID: "subnet-b"})
	x.Desired.Subnets = []topology.Subnet{{ID: "subnet-a", Zone: "a"}, {ID: "subnet-b", Zone: "b"}}
	x.Run(t.Context())
	if zone, _ := q.CapacityRefused("a", w.clock.Now()); zone != "b" {
		t.Errorf("capacity lacks in %q; asked %v", zone, w.asked)
	}
}

// TestTheFenceIsTriedEverySecond while EC2 may take it the next time. What a person has to change first is asked for less and less often:
// the allowance of calls is one for all clusters of an account and region.
func TestTheFenceIsTriedEverySecond(t *testing.T) {
	for name, row := range map[string]struct {
		err         error
		least, most int // times within two minutes
		again       time.Duration
	}{
		"silent":    {context.DeadlineExceeded, 110, 120, time.Second},
		"throttled": {answer("StopInstances", "RequestLimitExceeded"), 110, 120, time.Second},
		"pending":   {answer("StopInstances", "IncorrectInstanceState"), 110, 120, time.Second},
		"denied":    {answer("StopInstances", "UnauthorizedOperation"), 7, 10, afterRefused},
	} {
		w, q := newStage(), NewRequests()
		w.answers["stop"] = row.err
		run := func() *Execution {
			x := w.execution(q, topology.StopInstance{Member: "a", InstanceID: "i-1"})
			x.Run(t.Context())
			return x
		}
		for range 120 {
			if x := run(); len(x.Problems) != 1 {
				t.Fatalf("%s: problems %v", name, x.Problems)
			} else if after := (Outcome{Problems: x.Problems}).LookAgain(topology.Plan{RequeueAfter: AfterProgress}); after != row.again {
				t.Fatalf("%s: the next pass is after %s", name, after)
			}
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		}
		if n := len(w.asked); n < row.least || n > row.most {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// TestAnInstanceThatNeverStartsIsTerminatedByAPerson: the message says that this is safe, and not for what passes by itself.
func TestAnInstanceThatNeverStartsIsTerminatedByAPerson(t *testing.T) {
	for code, advised := range map[string]bool{
		"Unsupported": true, "InvalidParameterValue": true, "IncorrectInstanceState": true,
		codeNoCapacity: false, "RequestLimitExceeded": false, "UnauthorizedOperation": false, "InternalError": false,
	} {
		w := newStage()
		w.answers["start"], w.answers["terminate"] = answer("StartInstances", code), answer("TerminateInstances", code)
		x := w.execution(NewRequests(), topology.StartInstance{Member: "a", InstanceID: "i-1"}, topology.TerminateInstance{Member: "b", InstanceID: "i-2"})
		if x.Run(t.Context()); len(x.Problems) != 2 {
			t.Fatalf("%s: problems %v", code, x.Problems)
		}
		for _, p := range x.Problems {
			if got := strings.HasSuffix(p.Message, startAdvice); got != (advised && strings.HasPrefix(p.Message, "start")) {
				t.Errorf("%s: %q", code, p.Message)
			}
		}
	}
}

// TestWithoutAnAccountNothingIsAskedOfEC2, and nothing is reported beside the condition that says why. It is tried again after a pause.
func TestWithoutAnAccountNothingIsAskedOfEC2(t *testing.T) {
	w, q := newStage(), NewRequests()
	x := w.execution(q, topology.StartInstance{Member: "a", InstanceID: "i-1"})
	x.Cloud = nil
	if x.Run(t.Context()); len(x.Problems) != 1 || !x.Problems[0].Quiet() || slices.Contains(w.asked, "start instance i-1 of a") {
		t.Errorf("asked %v, problems %v", w.asked, x.Problems)
	}
	if q.MayTry(topology.Identity(topology.StartInstance{Member: "a", InstanceID: "i-1"}), w.clock.Now()) {
		t.Error("it is tried again at once")
	}
}

// TestAFullSubnetIsRemembered, and its zone lacks room only once EC2 has refused each of its subnets.
func TestAFullSubnetIsRemembered(t *testing.T) {
	w, q := newStage(), NewRequests()
	subnets := []topology.Subnet{{ID: "subnet-a", Zone: "1"}, {ID: "subnet-b", Zone: "2"}, {ID: "subnet-d", Zone: "1"}}
	full := func() (ids []string) {
		for _, subnet := range q.WithRefusals(subnets, w.clock.Now()) {
			if !subnet.FullAt.IsZero() {
				ids = append(ids, subnet.ID)
			}
		}
		return ids
	}
	for n, step := range []struct {
		subnet string
		err    error
		full   []string
		zone   string
	}{
		{"subnet-a", answer("RunInstances", codeNoAddress), []string{"subnet-a"}, ""},
		{"subnet-d", answer("RunInstances", "RequestLimitExceeded"), []string{"subnet-a"}, ""},
		{"subnet-d", answer("RunInstances", codeNoAddress), []string{"subnet-a", "subnet-d"}, "1"},
		{"subnet-a", nil, []string{"subnet-d"}, ""},
	} {
		w.clock.SetTime(w.clock.Now().Add(longestPause))
		w.answers["launch"] = step.err
		x := w.execution(q, topology.LaunchInstance{Member: "a", SubnetID: step.subnet})
		x.Desired.Subnets = subnets
		x.Run(t.Context())
		if zone, _ := q.CapacityRefused("a", w.clock.Now()); !slices.Equal(full(), step.full) || zone != step.zone {
			t.Errorf("step %d: full are %v, the zone %q lacks room", n, full(), zone)
		}
	}
	if w.clock.SetTime(w.clock.Now().Add(refusalKept)); len(full()) > 0 {
		t.Errorf("after a while %v are still full", full())
	}
}

// TestWhatEC2DidNotAnswerIsInDoubt: it may have been done, and lists may not show it yet.
func TestWhatEC2DidNotAnswerIsInDoubt(t *testing.T) {
	for name, row := range map[string]struct {
		answer error
		doubt  bool
	}{
		"no answer":     {context.DeadlineExceeded, true},
		"a refusal":     {answer("CreateVolume", "UnauthorizedOperation"), false},
		"EC2 has a bug": {answer("CreateVolume", "InternalError"), true},
	} {
		w, q := newStage(), NewRequests()
		w.answers["create"] = row.answer
		w.execution(q, topology.CreateVolume{Member: "a", Incarnation: 3, Zone: "b"}).Run(t.Context())
		if doubt := q.Doubted().Equal(w.clock.Now()); doubt != row.doubt {
			t.Errorf("%s: in doubt: %t", name, doubt)
		}
	}
}

// TestWhatGoesOnFailingIsReported: an error that nobody expected is a person's business when it does not pass by itself.
func TestWhatGoesOnFailingIsReported(t *testing.T) {
	w, q := newStage(), NewRequests()
	w.answers["stop the receiver"] = errors.New("Error 1396 (HY000)")
	take := func() *Problem {
		x := w.execution(q, topology.Fence{Member: "a"})
		if x.Run(t.Context()); len(x.Problems) == 0 {
			return nil
		}
		return x.Problems[0]
	}
	for range int(failureLasts / time.Second) {
		if p := take(); p == nil || !p.Quiet() {
			t.Fatalf("at first: %v", p)
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	if p := take(); p == nil || p.Reason != v1alpha1.ReasonActionFailing || !strings.Contains(p.Message, "1396") || !strings.Contains(p.Message, "has failed since 2001-09-09T01:46:40Z") {
		t.Errorf("after a minute: %v", p)
	}
	w.clock.SetTime(w.clock.Now().Add(failureLasts))
	if p := take(); p == nil || !p.Quiet() {
		t.Errorf("one that was not tried for a while counts as new: %v", p)
	}
	delete(w.answers, "stop the receiver")
	if p := take(); p != nil {
		t.Errorf("after it succeeded: %v", p)
	}
}
