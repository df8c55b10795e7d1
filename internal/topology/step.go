package topology

// StepCode says how far something is. Whatever has to tell steps apart does it by their codes, never by what people read.
type StepCode int

// How far something is.
const (
	// Done: nothing is left to do, or to wait for.
	Done StepCode = iota
	// Waiting: for what the message says.
	Waiting
	// Restarting: for a mysqld that is being restarted.
	Restarting
)

// Step is the next thing for a member, or for the cluster: the zero value is that nothing is left to do.
type Step struct {
	Code StepCode
	// Message says what is waited for, for people. It decides nothing.
	Message string
}

// Waits says whether something is left to do, or to wait for.
func (s Step) Waits() bool { return s.Code != Done }

// waitsFor is a step that waits for something of which a person is told what is wrong with it; problem is empty while nothing is known.
func waitsFor(what, problem string) Step {
	if problem != "" {
		what += ": " + problem
	}
	return waits("waiting for " + what)
}

// waits is a step that waits for what a message says.
func waits(message string) Step { return Step{Waiting, message} }
