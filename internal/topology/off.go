package topology

import (
	"slices"
	"time"
)

// off says whether it is certain that no instance of a member runs mysqld as it was last seen: EC2 calls all of them off, in an
// answer that cannot be from before the member was last reached; and none of them was stopped by force and still has its volume. One
// that was started again acknowledges nothing, and takes no writes.
func (o Observed) off(m *Member) bool {
	if !m.halted() || o.mayStillWrite(m) != nil || m.DownSince.IsZero() {
		return false
	}
	listed := o.WatchedSince.IsZero() || o.Now.Sub(o.WatchedSince) >= settling // whatever another operator made for the cluster
	return o.CloudReachable && o.CloudTaken.Sub(m.DownSince) >= lateAnswers || listed && m.eachOff(o.Now)
}

// someOff says whether one of the members is off.
func (o Observed) someOff(members []string) bool {
	return slices.ContainsFunc(members, func(name string) bool {
		m := o.Members[name]
		return m != nil && !m.verified() && o.off(m)
	})
}

// eachOff says that a member is off by EC2's answers about each of its instances alone, while the lists of the whole are old: EC2 may throttle
// or refuse one of them. They show no instance that EC2 has not listed yet, which only the volume could have made a mysqld run on.
func (m *Member) eachOff(now time.Time) bool {
	vol := m.volume()
	if vol == nil || len(m.Instances) == 0 {
		return false
	}
	known := vol.AttachedTo == ""
	for _, in := range m.Instances {
		if in.AnsweredAt.IsZero() || in.State != stateTerminated && in.AnsweredAt.Sub(m.DownSince) < lateAnswers {
			return false
		}
		known = known || in.ID == vol.AttachedTo
	}
	return known && now.Sub(m.DownSince) >= lateAnswers
}

// halted says whether every instance of the member is confirmed off: stopped, or gone for good. One that is shutting down
// still runs.
func (m *Member) halted() bool {
	return !slices.ContainsFunc(m.Instances, func(in Instance) bool { return in.State != stateStopped && in.State != stateTerminated })
}
