package simulation

import (
	"context"
	"fmt"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/steps"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// detachWait is how long an action waits for a write that goes on by itself.
const detachWait = second / 10

// takeInSQL gives an action on mysqld its effect. The sequences are the real ones.
func (p *process) takeInSQL(action topology.Action, plan topology.Plan, o topology.Observed) error {
	m, err := p.op.member(o, action.Target())
	if err != nil {
		return err
	}
	ctx := p.context()
	switch a := action.(type) {
	case topology.SignCertificate:
		return p.sign(m, a)
	case topology.Adopt:
		return p.adopt(m, a)
	case topology.Bootstrap:
		return steps.Bootstrap(ctx, m, a)
	case topology.Fence:
		return m.StopIOThread(ctx)
	case topology.ApplyReceived:
		return steps.ApplyReceived(ctx, m, a)
	case topology.Promote:
		return steps.Promote(ctx, m, a, p.detach)
	case topology.RecordPrimary:
		return steps.RecordPrimary(ctx, m, a, p.detach)
	case topology.Switchover:
		target, err := p.op.member(o, a.To)
		if err != nil {
			return err
		}
		return steps.Switchover(ctx, m, target, a, p.detach)
	case topology.Demote:
		return m.Demote(ctx)
	case topology.CloneFrom:
		return p.cloneFrom(m, a, o)
	case topology.ReplicateFrom:
		return steps.ReplicateFrom(ctx, m, a)
	case topology.AdmitVoter:
		primary, err := p.op.member(o, a.Primary)
		if err != nil {
			return err
		}
		return steps.AdmitVoter(ctx, primary, m, a)
	case topology.RemoveVoter:
		return steps.RemoveVoter(ctx, m, a)
	case topology.SettleVoters:
		return steps.SettleVoters(ctx, m, a)
	case topology.StandAlone:
		return steps.StandAlone(ctx, m, a)
	case topology.SetAcknowledging:
		return p.setAcknowledging(m, a, o)
	case topology.SetSourceWait, topology.LowerSourceWait, topology.DisconnectStrangers, topology.Nudge:
		return steps.KeepWait(ctx, m, a)
	case topology.ApplySettings:
		return p.applySettings(m, a, o)
	case topology.Restart:
		return p.restart(m, a, plan, o)
	case topology.EnsureDatabase:
		return p.ensureDatabase(m)
	case topology.PinSettings, topology.PurgeBinaryLogs, topology.SetMaxConnections:
		return nil
	}
	return fmt.Errorf("nobody knows how to %s", action)
}

func (p *process) ensureDatabase(m *member) error {
	if err := m.EnsureDatabase(p.context()); err != nil {
		return err
	}
	return p.saveRecords(func(r *topology.Records) { r.Database = "made" })
}

func (p *process) setAcknowledging(m *member, a topology.SetAcknowledging, o topology.Observed) error {
	primary, err := p.op.member(o, a.Primary)
	if err != nil {
		return err
	}
	return steps.SetAcknowledging(p.context(), m, primary, a)
}

func (p *process) cloneFrom(m *member, a topology.CloneFrom, o topology.Observed) error {
	donor, err := p.op.member(o, a.Donor)
	if err != nil {
		return err
	}
	return m.CloneFrom(p.context(), donor.in.Address)
}

// member returns the handle of a member as it was observed.
func (op *operator) member(o topology.Observed, name string) (*member, error) {
	m := o.Members[name]
	if m == nil || m.CurrentInstance() == nil {
		return nil, fmt.Errorf("%s has no address", name)
	}
	return &member{op, op.w.instance(m.CurrentInstance().ID)}, nil
}

// detach runs a write in a thread of its own and waits for it for a moment only.
func (p *process) detach(write func(context.Context) error) error {
	var outcome error
	over := false
	p.w.spawn(p.op, nil, func(own *process) {
		outcome = write(own.context())
		over = true
	})
	for waited := int64(0); waited < detachWait; waited += 20 {
		p.sleep(20)
		if over {
			return outcome
		}
	}
	return nil
}

// sign gives an instance its certificate. Which key was signed is recorded first.
func (p *process) sign(m *member, a topology.SignCertificate) error {
	if err := p.saveRecords(func(r *topology.Records) {
		rec := r.Members[a.Member]
		rec.SignedInstance, rec.SignedKey = a.InstanceID, "key of "+a.InstanceID
		r.Members[a.Member] = rec
	}); err != nil {
		return err
	}
	return m.exchange(p, func(*mysqld) error {
		m.in.signed, m.in.signedAt = true, p.w.now
		return nil
	})
}

func (p *process) applySettings(m *member, a topology.ApplySettings, o topology.Observed) error {
	before := p.op.records.Members[a.Member]
	due := func(at int64, of string) error {
		return p.saveRecords(func(r *topology.Records) {
			rec := r.Members[a.Member]
			rec.RestartDue, rec.RestartFor = at, of
			r.Members[a.Member] = rec
		})
	}
	if err := due(topology.RestartDueAt(p.w.time(), o.Members[a.Member].SQL.StartedAt), topology.RestartAlsoFor(before, a.Want)); err != nil {
		return err
	}
	restart, err := m.ApplySettings(p.context(), a.Want, a.Drop)
	if !restart {
		if err := due(before.RestartDue, before.RestartFor); err != nil {
			return err
		}
	}
	return err
}

func (p *process) restart(m *member, a topology.Restart, plan topology.Plan, o topology.Observed) error {
	p.w.checkDisturbed(p.op, a)
	var replicas []steps.Server
	names := make([]string, 0, len(o.Members))
	for name := range o.Members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == a.Member || o.Members[name].SQL.Access != topology.AccessVerified {
			continue
		}
		if replica, err := p.op.member(o, name); err == nil {
			replicas = append(replicas, replica)
		}
	}
	return steps.Restart(p.context(), m, a.Member == plan.Primary, replicas)
}
