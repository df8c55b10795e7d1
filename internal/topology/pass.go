package topology

import (
	"maps"
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// state is what is wanted and what is there. Nothing that is asked of it changes it, or the plan.
type state struct {
	Desired
	Observed
}

// pass is one plan in the making. The concerns share it, and add to it in turn.
type pass struct {
	state
	plan  Plan
	views map[string]*View
	// unconfirmed is true while the membership row does not name the primary: then nobody's vote is changed.
	unconfirmed bool
	// newestEpoch is the highest epoch of a membership row that was seen.
	newestEpoch uint64
	// wait is the shortest pause that anything asked for.
	wait time.Duration
}

// newPass begins a plan: the records are a copy, and nothing is planned.
func newPass(d Desired, o Observed) *pass {
	o.Members = maps.Clone(o.Members)
	if o.Members == nil {
		o.Members = map[string]*Member{}
	}
	p := &pass{state: state{d, o}, views: map[string]*View{}, wait: waitReady}
	p.plan.Records = o.Records.Clone()
	return p
}

// powerOff stops all instances of a member that run.
func (p *pass) powerOff(m *Member) {
	for i := range m.Instances {
		p.stop(m, &m.Instances[i])
	}
}

// first plans an action before all others, which may wait for what it does.
func (p *pass) first(pause time.Duration, a Action) {
	p.plan.Actions = slices.Insert(p.plan.Actions, 0, a)
	p.waitAtMost(pause)
}

func (p *pass) do(actions ...Action) {
	p.plan.Actions = append(p.plan.Actions, actions...)
	p.waitAtMost(waitNext)
}

// retry plans actions that may well not succeed at once, or whose effect takes its time, and looks again only after a
// pause: what fails must not be repeated without one.
func (p *pass) retry(pause time.Duration, actions ...Action) {
	p.plan.Actions = append(p.plan.Actions, actions...)
	p.waitAtMost(pause)
}

func (p *pass) waitAtMost(d time.Duration) { p.wait = min(p.wait, d) }

// waitFor waits for what mysqld of a member is about to do. Just after its start that is the work of a moment for most, and a cluster
// waits for it to be Ready; later it takes what it takes.
func (p *pass) waitFor(m *Member) {
	if p.Now.Sub(m.SQL.StartedAt) < restartPatience {
		p.waitAtMost(waitMySQL / 4)
		return
	}
	p.waitAtMost(waitMySQL)
}

func (p *pass) degraded(reason, message string) {
	p.plan.Degraded = append(p.plan.Degraded, Finding{reason, message})
}

// busy says whether an action for a member is planned already in this pass that something else would have to wait for.
func (p *pass) busy(member string) bool {
	return slices.ContainsFunc(p.plan.Actions, func(a Action) bool { return a.Target() == member && !Aside(p.Observed, a) })
}

// Aside says whether nothing waits for an action, however long it is refused: it throws away what nobody needs, or renews what still holds.
func Aside(o Observed, a Action) bool {
	m := o.Members[a.Target()]
	switch a := a.(type) {
	case PurgeBinaryLogs, DeleteSnapshot, DisconnectStrangers, RestoreReplicationAccount:
		return true
	case SignCertificate:
		return m != nil && m.verified()
	case TerminateInstance:
		return m != nil && m.CurrentInstance() != nil && m.CurrentInstance().ID != a.InstanceID
	case DeleteVolume:
		return m != nil && m.volume() != nil && m.volume().ID != a.VolumeID
	}
	return false
}

// summarise fills in the cluster's phase and what it waits for from its members'.
func (p *pass) summarise() {
	p.plan.RequeueAfter = p.wait
	for _, m := range p.ordered() {
		v, ok := p.views[m.Name]
		if !ok {
			continue
		}
		p.plan.Members = append(p.plan.Members, *v)
		if v.Step.Waits() && p.plan.Waiting.Reason == "" {
			p.plan.Waiting = Finding{waitingReason[v.Phase], v.Name + ": " + v.Step.Message}
		}
	}
	p.plan.Phase = p.clusterPhase()
	if to := p.SwitchoverTo; to != "" && to == p.plan.Primary {
		p.plan.Answers.Switchover.Done = to + " is the primary"
	}
}

var waitingReason = map[v1alpha1.Phase]string{
	v1alpha1.PhaseProvisioning: v1alpha1.ReasonProvisioning,
	v1alpha1.PhaseEC2Ready:     v1alpha1.ReasonBootstrapping,
	v1alpha1.PhaseReplicating:  v1alpha1.ReasonReplicating,
	v1alpha1.PhaseReady:        v1alpha1.ReasonReconciling,
	v1alpha1.PhaseHibernated:   v1alpha1.ReasonHibernated,
	v1alpha1.PhaseDeleting:     v1alpha1.ReasonDeleting,
}
