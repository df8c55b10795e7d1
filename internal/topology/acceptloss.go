package topology

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// proof says who is to be promoted, by what is reached, or by that and what a person gave up.
func (p *failover) proof(row Membership) Proof {
	proof := prove(row, p.Members, p.Records)
	if proof.Candidate == "" && p.acceptsLoss(row) {
		return prove(row, p.Members, p.plan.Records)
	}
	return proof
}

// acceptsLoss says whether somebody may be promoted that is not proven to hold everything, because a person gave up the voters that are
// missing. First none of them may run any more: they would go on with what the others no longer know.
func (p *failover) acceptsLoss(row Membership) bool {
	switch {
	case p.AcceptLoss == 0:
		return false
	case p.AcceptLoss != row.Epoch:
		p.plan.Answers.AcceptLoss.Refused = fmt.Sprintf("the membership row that is reached has epoch %d, not %d; look again at who is missing", row.Epoch, p.AcceptLoss)
		return false
	}
	records := p.plan.Records
	records.LossAccepted = row.Epoch
	proof := prove(row, p.Members, records)
	if proof.Candidate == "" {
		p.plan.Answers.AcceptLoss.Refused = "no voter is reached that could take over"
		return false
	}
	if running := p.missingRun(row); len(running) > 0 {
		p.plan.Waiting = Finding{v1alpha1.ReasonPromotionNotProven, "what is missing is given up; waiting until it is certain that the instances of " + strings.Join(running, ", ") + " are off"}
		return false
	}
	p.plan.Records.LossAccepted = row.Epoch
	p.plan.Answers.AcceptLoss.Done = fmt.Sprintf("%s takes over with what it holds; commits that only %s held are lost", proof.Candidate, strings.Join(proof.missing(), ", "))
	p.acks.beginUncovered(Uncovered{Primary: row.Primary, Cause: Cause{CauseAccepted, "a person gave up what only members held that did not come back"}, Fenced: true})
	return true
}

// refuseLoss says that nothing is to be given up, because there is a primary.
func (p *failover) refuseLoss(primary *Member) {
	if p.AcceptLoss != 0 {
		p.plan.Answers.AcceptLoss.Refused = "the cluster has a primary, " + primary.Name
	}
}

// missingRun plans to power off the instances of the voters that are not reached, and names those that may still run.
func (p *failover) missingRun(row Membership) []string {
	var running []string
	for _, name := range row.electorate() {
		if p.instanceRuns(p.Members[name]) {
			running = append(running, name)
		}
	}
	return running
}

// orGiveUp says how a person gives up voters, where the volume of one is gone; empty where none is.
func orGiveUp(o Observed, row Membership) string {
	for _, name := range row.electorate() {
		if m := o.Members[name]; m == nil || o.volumeLost(m) {
			return "; or " + giveUp("what only they hold", row)
		}
	}
	return ""
}

// giveUp says how a person gives something up.
func giveUp(what string, row Membership) string {
	return fmt.Sprintf("give up %s, with the annotation %s: \"%d\"", what, v1alpha1.AnnotationAcceptLoss, row.Epoch)
}

// missing are the voters whose word is missing in a proof.
func (proof Proof) missing() []string {
	return append(append([]string{}, proof.Unreached...), proof.Forgetful...)
}
