package simulation

import (
	"fmt"
	"strconv"
)

// calledOff is how many of a hundred of the schedules without a plot follow the one of an upgrade that is called off. It is
// drawn apart from the others, so that they stay as they were.
const calledOff = 12

// upgradeCalledOff lets a person ask for a newer version, which may not start at all, and set it back when some of the members
// went ahead, or none did.
var upgradeCalledOff = plot{"an upgrade is called off", 0, func(w *world, s *shape) {
	sized(3, 3, 3, 2, 4, 5)(w, s)
	s.volumesLost, s.faults, s.span = 1, int(w.between(0, 3)), max(s.span, 240*second)
}, func(w *world, at int64) {
	w.later(at, "the spec asks for a newer version", func() {
		before := w.desired
		w.specChanges++
		w.desired.TemplateHash, w.desired.Version = strconv.Itoa(w.specChanges), fmt.Sprintf("9.7.%d", 4+w.specChanges)
		w.broken[w.desired.Version] = w.chance(50)
		after := w.desired
		w.say("it asks for mysqld %s, which starts: %t", after.Version, !w.broken[after.Version])
		w.after(w.between(second, 150*second), func() { w.callOff(before.TemplateHash, before.Version, after.TemplateHash, after.Version) })
		if !w.broken[after.Version] && w.chance(50) {
			w.later(w.between(20*second, 150*second), "the newer version no longer starts", func() { w.breakVersion(before.Version, after.Version) })
		}
		if w.chance(30) {
			w.later(w.between(20*second, 120*second), "the primary is lost", w.losePrimary)
		}
	})
}}

// breakVersion lets every mysqld of the newer version crash, and none start again, as long as the primary still runs the one of
// before: else there is no way back.
func (w *world) breakVersion(oldVersion, newVersion string) {
	s := w.serverAt(w.kube.primary)
	if s == nil || !s.writable || s.on.version != oldVersion {
		return
	}
	w.broken[newVersion] = true
	for _, in := range w.cloud.instances {
		if in.server != nil && in.version == newVersion {
			in.server.end(false)
		}
	}
}

// callOff sets the version back as soon as the API server admits it, which is when the status tells of a way back. A person who
// was too late, or whose cluster has failed over to a newer member, does as the operator says and asks for the newer version
// again.
func (w *world) callOff(oldTemplate, oldVersion, newTemplate, newVersion string) {
	if w.quiet {
		return
	}
	s := w.serverAt(w.kube.primary)
	newer := s != nil && s.writable && s.on.version == newVersion
	switch back := w.desired.Version == oldVersion; {
	case !back && w.plan.Rollout.PreviousVersion == oldVersion:
		w.say("the person sets the version back to %s", oldVersion)
		w.desired.TemplateHash, w.desired.Version = oldTemplate, oldVersion
		w.wake()
	case back && newer:
		w.say("the person asks for %s again", newVersion)
		w.desired.TemplateHash, w.desired.Version = newTemplate, newVersion
		w.wake()
		return
	case newer:
		return
	}
	w.after(5*second, func() { w.callOff(oldTemplate, oldVersion, newTemplate, newVersion) })
}
