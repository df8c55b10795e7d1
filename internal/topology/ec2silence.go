package topology

import "fmt"

// ec2Silence says since when EC2 has not answered, or returns "" while it answers. What EC2 said before its silence may no longer be
// true.
func (o Observed) ec2Silence() string {
	switch {
	case o.CloudReachable:
		return ""
	case o.CloudTaken.IsZero():
		return "EC2 has not answered since the operator started"
	}
	return "EC2 has not answered since " + o.lastAnswer()
}

// lastAnswer is when EC2 was read last, to the minute.
func (o Observed) lastAnswer() string { return o.CloudTaken.UTC().Format("15:04 UTC on 2 Jan") }

// ec2Calls tells the state that EC2 reports of something: in the present while EC2 answers, in the past with its time when it does
// not.
func (o Observed) ec2Calls(what, state string) string {
	switch {
	case o.CloudReachable:
		return fmt.Sprintf("EC2 calls %s %s", what, state)
	case o.CloudTaken.IsZero():
		return o.ec2Silence() // what is known of its resources comes from the records
	}
	return fmt.Sprintf("EC2 called %s %s at %s and has not answered since", what, state, o.lastAnswer())
}

// fromEC2 marks the message of a step that rests on what EC2 said.
func (o Observed) fromEC2(step Step) Step {
	if step.Waits() && !o.CloudReachable {
		step.Message = fmt.Sprintf("%s (%s)", step.Message, o.ec2Silence())
	}
	return step
}
