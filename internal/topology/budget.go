package topology

import (
	"fmt"
	"time"
)

// EC2 takes four modifications of a volume within 24 hours (https://docs.aws.amazon.com/ebs/latest/userguide/modify-volume-requirements.html).
// Asked for a fifth it answers VolumeModificationRateExceeded, and each time that it is asked in vain costs a call of a bucket that
// refills by few a second. So the operator counts its own and waits for the oldest to be a day old.
const (
	modificationsTaken  = 4
	modificationsPeriod = 24 * time.Hour
)

// Modifications are those of one volume that are remembered.
type Modifications struct {
	// Volume is the one that was modified. Another one of the same member has a budget of its own.
	Volume string `json:"volume,omitempty"`
	// At is when, in Unix seconds, the oldest first; 0 for fewer. They are noted once EC2 took them: what an operator does
	// not live to note, and what somebody modified by hand, EC2 itself has to say.
	At [modificationsTaken]int64 `json:"at,omitzero"`
}

// RecordModified notes that EC2 took a modification of a volume.
func (rec *MemberRecord) RecordModified(volume string, now time.Time) {
	if rec.Modified.Volume != volume {
		rec.Modified = Modifications{Volume: volume}
	}
	at := &rec.Modified.At
	copy(at[:], at[1:])
	at[len(at)-1] = now.Unix()
}

// modifiableFrom returns when EC2 takes the next modification of a volume; zero for at once. A record of the future, as a clock
// that was put back leaves it, says nothing.
func (o Observed) modifiableFrom(m *Member, vol *Volume) time.Time {
	done := o.Records.Members[m.Name].Modified
	if done.Volume != vol.ID || done.At[0] == 0 {
		return time.Time{}
	}
	oldest := time.Unix(done.At[0], 0)
	if from := oldest.Add(modificationsPeriod); !oldest.After(o.Now) && o.Now.Before(from) {
		return from
	}
	return time.Time{}
}

// whyUnmodified says why a volume is not modified now although the spec asks for it; empty when it may be.
func (o Observed) whyUnmodified(m *Member, vol *Volume) Step {
	if from := o.modifiableFrom(m, vol); !from.IsZero() {
		return waits(fmt.Sprintf("EC2 takes %d modifications of a volume within 24 hours, and it has had them; the next is asked for at %s", modificationsTaken, from.UTC().Format(time.RFC3339)))
	}
	if m.ModificationRefused != "" {
		return waits(m.ModificationRefused)
	}
	return Step{}
}
