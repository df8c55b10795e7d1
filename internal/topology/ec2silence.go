package topology

import "fmt"

// ec2Silence says since when EC2 has not answered, or returns "" while it answers. What EC2 said before its silence may no longer be
// true.
func (p *planner) ec2Silence() string {
	switch {
	case p.CloudReachable:
		return ""
	case p.CloudTaken.IsZero():
		return "EC2 has not answered since the operator started"
	}
	return "EC2 has not answered since " + p.lastAnswer()
}

// lastAnswer is when EC2 was read last, to the minute.
func (p *planner) lastAnswer() string { return p.CloudTaken.UTC().Format("15:04 UTC on 2 Jan") }

// ec2Calls tells the state that EC2 reports of something: in the present while EC2 answers, in the past with its time when it does
// not.
func (p *planner) ec2Calls(what, state string) string {
	switch {
	case p.CloudReachable:
		return fmt.Sprintf("EC2 calls %s %s", what, state)
	case p.CloudTaken.IsZero():
		return p.ec2Silence() // what is known of its resources comes from the records
	}
	return fmt.Sprintf("EC2 called %s %s at %s and has not answered since", what, state, p.lastAnswer())
}

// fromEC2 marks the message of a step that rests on what EC2 said.
func (p *planner) fromEC2(step Step) Step {
	if step.Waits() && !p.CloudReachable {
		step.Message = fmt.Sprintf("%s (%s)", step.Message, p.ec2Silence())
	}
	return step
}
