package topology

import "time"

// answerHolds is how long EC2's word that an instance does not run is relied on. The lists are read every half a minute; what is older
// says that EC2 does not answer, and the instance may have been started since.
const answerHolds = 35 * time.Second

// MayAnswer says whether the mysqld of an instance is to be asked. An address is enough for that, because the member's certificate proves
// who answers. An instance that does not run costs each pass a time-out, so that it is not asked while EC2's word of it is fresh; nor is
// one that was stopped by force, whose host may go on with a volume that is taken from it.
func (in *Instance) MayAnswer(o *Observed) bool {
	switch {
	case in == nil || in.Address == "":
		return false
	case in.State == stateRunning:
		return true
	case o.Records.forced(in.ID):
		return false
	case in.State == statePending && !o.CloudReachable:
		return true
	}
	said := o.CloudTaken
	if in.AnsweredAt.After(said) {
		said = in.AnsweredAt
	}
	return o.Now.Sub(said) >= answerHolds
}
