package topology

import "time"

// Instance is one EC2 instance of a member.
type Instance struct {
	ID           string
	Incarnation  int
	State        string
	Zone         string
	Address      string
	TemplateHash string
	LaunchTime   time.Time
	// BareMetal is true when the instance is a whole server, which takes minutes to power up.
	BareMetal bool
	StatusChecks
	StateReason string
	// Event is what EC2 announced for the instance (a retirement, a reboot, maintenance), empty when nothing; EventAt is
	// when it begins.
	Event   string
	EventAt time.Time
	// StopStuck is true when the instance has been stopping for long since EC2 last took a stop of it. PowerCut is true when one of
	// those was without the shutdown of its operating system, as far as this process knows.
	StopStuck, PowerCut bool
	// AnsweredAt is when EC2 was asked what it last answered about the instance; zero while that is not known.
	AnsweredAt time.Time
}

// metalPowerUp is how long after its launch a bare-metal instance may take until its operating system boots: it starts the hardware
// first. The longest median that was published for a generation is 13 minutes.
const metalPowerUp = 20 * time.Minute

// sincePowerUp returns for how long an instance's operating system has been able to boot, negative while it is not yet. What is expected of an
// instance some time after its launch is counted from then.
func (i *Instance) sincePowerUp(now time.Time) time.Duration {
	launched := now.Sub(i.LaunchTime)
	if i.BareMetal {
		return launched - metalPowerUp
	}
	return launched
}

// StatusChecks are those of EC2: Impaired is true when one of them fails, VolumesImpaired when it is that of the attached volumes.
type StatusChecks struct{ Impaired, VolumesImpaired bool }

func (i Instance) gone() bool {
	return i.State == stateTerminated || i.State == stateShuttingDown
}
