package topology

import (
	"slices"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// planner are the concerns that make a plan together. Each knows some of those before it, and none after it.
type planner struct {
	*pass
	acks          *acks
	volumes       *volumes
	healing       *healing
	replication   *replication
	removal       *removal
	provisioning  *provisioning
	handover      *handover
	otherRollouts *otherRollouts
	rollout       *rollout
	settings      *settings
}

// newPlanner gives each concern those that it asks.
func newPlanner(d Desired, o Observed) *planner {
	p := &planner{pass: newPass(d, o)}
	p.acks = &acks{pass: p.pass}
	turns := &turns{pass: p.pass, acks: p.acks}
	p.volumes = &volumes{pass: p.pass}
	certificates := &certificates{pass: p.pass, acks: p.acks}
	votes := &votes{pass: p.pass, acks: p.acks, turns: turns, certificates: certificates}
	soundness := &soundness{pass: p.pass, votes: votes}
	p.healing = &healing{pass: p.pass, acks: p.acks, soundness: soundness}
	seeding := &seeding{pass: p.pass, turns: turns, votes: votes, healing: p.healing}
	failover := &failover{pass: p.pass, acks: p.acks, volumes: p.volumes, healing: p.healing}
	p.replication = &replication{pass: p.pass, acks: p.acks, turns: turns, votes: votes, soundness: soundness, seeding: seeding, failover: failover, adoption: &adoption{pass: p.pass, acks: p.acks}}
	scaling := &scaling{pass: p.pass, acks: p.acks, turns: turns, volumes: p.volumes, votes: votes, healing: p.healing}
	upgrades := &upgrades{pass: p.pass, acks: p.acks, turns: turns, votes: votes, healing: p.healing, seeding: seeding, scaling: scaling}
	p.removal = &removal{pass: p.pass, acks: p.acks, turns: turns, volumes: p.volumes, votes: votes, failover: failover}
	p.provisioning = &provisioning{pass: p.pass, turns: turns, volumes: p.volumes, votes: votes, failover: failover, scaling: scaling, upgrades: upgrades}
	p.handover = &handover{pass: p.pass, acks: p.acks, turns: turns}
	p.otherRollouts = &otherRollouts{pass: p.pass, turns: turns, handover: p.handover}
	p.rollout = &rollout{pass: p.pass, acks: p.acks, turns: turns, votes: votes, seeding: seeding, scaling: scaling, upgrades: upgrades, provisioning: p.provisioning, handover: p.handover, otherRollouts: p.otherRollouts}
	p.settings = &settings{pass: p.pass, acks: p.acks, turns: turns, upgrades: upgrades, provisioning: p.provisioning, handover: p.handover}
	return p
}

// Next decides what to do. It changes nothing of what it is given.
func Next(d Desired, o Observed) Plan {
	p := newPlanner(d, o)
	if !d.Deleting {
		// A deletion that was called off leaves nothing to a later one: what was chosen then is no longer the newest.
		p.plan.Records.FinalChosen, p.plan.Records.FinalVolumes, p.plan.Records.FinalAt = false, nil, 0
	}
	p.doubtOldRecords()
	p.recordGaps()
	p.finishStops()
	switch {
	case d.Deleting:
		p.removal.delete()
	case d.Hibernate && p.removal.mayHibernate():
		p.removal.hibernate()
	default:
		p.provisioning.provision()
		p.provisioning.join()
		upkeep := len(p.plan.Actions)
		p.replication.replicate()
		if p.plan.Failing {
			p.plan.Actions = slices.Concat(p.plan.Actions[upkeep:], p.plan.Actions[:upkeep]) // a failover waits for no upkeep, however slow EC2 is
		}
		p.finish()
	}
	if !p.plan.Records.Empty() {
		p.plan.Records.WriterID = o.WriterID
	}
	p.summarise()
	return p.plan
}

// finish plans what comes after the members replicate: the application database, room for replicas, settings, a hand-over that
// somebody wants or that EC2 makes necessary, a rebuild that somebody wants, healing, and what of the spec is still to be rolled through the members.
func (p *planner) finish() {
	if primary := p.views[p.plan.Primary]; primary != nil && p.Database && !p.DatabaseReady {
		p.retry(waitMySQL/4, EnsureDatabase{p.plan.Primary})
		primary.Step = waits("changing the application database's owner")
		p.plan.Rolling = Finding{v1alpha1.ReasonRolling, p.plan.Primary + ": " + primary.Step.Message}
		if p.Records.Database == "" {
			primary.Step, primary.Phase = waits("creating the application database"), v1alpha1.PhaseReplicating
		}
	}
	if until := time.Unix(p.Records.PasswordUntil, 0); p.Records.PasswordUntil != 0 && until.After(p.Now) {
		p.waitAtMost(until.Sub(p.Now))
	}
	p.acks.letReplicasIn()
	p.settings.configure()
	p.handover.handOver()
	p.replication.reportRebuild()
	p.healing.heal()
	p.healing.watch()
	p.healing.expireQuarantine()
	p.volumes.grow(false)
	p.rollout.roll()
	p.volumes.grow(true)
	p.volumes.reportUnlike()
	p.otherRollouts.reportOtherRollouts(p.Members[p.plan.Primary])
}
