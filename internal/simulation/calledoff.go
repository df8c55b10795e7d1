package simulation

import (
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// calledOff is how many of a hundred of the schedules without a scenario follow the one of an upgrade that is called off. It is
// drawn apart from the others, so that they stay as they were.
const calledOff = 12

// upgradeCalledOff lets a person ask for a newer version, which may not start at all, and set it back when some of the members
// went ahead, or none did.
var upgradeCalledOff = scenario{"an upgrade is called off", 0, func(w *world, s *shape) {
	sized(3, 3, 3, 2, 4, 5)(w, s)
	s.volumesLost, s.faults, s.span = 1, int(w.between(0, 3)), max(s.span, 240*second)
}, func(w *world, at int64) {
	w.later(at, "the spec asks for a newer version", func() {
		before := w.desired
		w.specChanges++
		w.desired.TemplateHash, w.desired.Version = strconv.Itoa(w.specChanges), w.nextVersion()
		w.broken[w.desired.Version] = w.chance(50)
		after := w.desired
		w.say("it asks for mysqld %s, which starts: %t", after.Version, !w.broken[after.Version])
		w.after(w.between(second, 150*second), func() { w.callOff(before.TemplateHash, before.Version, after.Version) })
		if !w.broken[after.Version] && w.chance(50) {
			ahead := 1 + w.rng.IntN(max(w.desired.Replicas-1, 1))
			w.after(second, func() { w.breakVersion(before.Version, after.Version, ahead) })
		}
		if w.chance(30) {
			w.later(w.between(20*second, 120*second), "the primary is lost", w.losePrimary)
		}
	})
}}

// upgrade is what a person knows of an upgrade that is called off.
type upgrade struct {
	// told is how often in a row they read that the cluster needs the newer version.
	told int
	// rebuilt says that they asked for it again, in a build that starts, brokeLate that it ran before it broke.
	rebuilt, brokeLate bool
}

// read takes note of status, while the spec asks for a version that does not start, or for another.
func (u *upgrade) read(plan topology.Plan, newVersion string, broken bool) {
	failed, again := 0, false
	for _, f := range plan.Degraded {
		if f.Reason == v1alpha1.ReasonBootFailed {
			failed++
		}
		again = again || f.Reason == v1alpha1.ReasonInvalidSpec && strings.Contains(f.Message, "set spec.version to "+newVersion)
	}
	stuck := broken && plan.Primary == "" && plan.Rollout.PreviousVersion == "" && (failed == 1 || failed > 1 && u.brokeLate)
	if u.told++; !again && !stuck {
		u.told = 0
	}
}

// breakVersion lets every mysqld of the newer version crash as soon as so many members run it, and none start again. With a
// primary that runs it there is no way back, so then nothing happens any more; nor once it is asked for in a build that starts.
func (w *world) breakVersion(oldVersion, newVersion string, ahead int) {
	s := w.serverAt(w.kube.primary)
	newer := 0
	for _, in := range w.cloud.instances {
		if in.server != nil && in.version == newVersion {
			newer++
		}
	}
	switch {
	case w.quiet || w.upgrade.rebuilt || s != nil && s.writable && s.on.version != oldVersion:
		return
	case newer < ahead || s == nil || !s.writable:
		w.after(second, func() { w.breakVersion(oldVersion, newVersion, ahead) })
		return
	}
	w.say("mysqld %s crashes everywhere, and no longer starts", newVersion)
	w.broken[newVersion], w.upgrade.brokeLate = true, true
	for _, in := range w.cloud.instances {
		if in.server != nil && in.version == newVersion {
			in.server.end(false)
		}
	}
}

// callOff sets the version back as soon as the API server admits it, which is when the status tells of a way back. A person who
// was too late, whose cluster has failed over to a newer member, or who is told for half a minute that only the newer version
// reads what is needed, does as the operator says and asks for it again, in a build that starts. So does one who cannot go back
// and is told for as long that there is no primary, and an instance on which mysqld does not come up. That the version comes to more of them is what the operator has to prevent, unless it
// ran on the first.
func (w *world) callOff(oldTemplate, oldVersion, newVersion string) {
	if w.quiet {
		return
	}
	s := w.serverAt(w.kube.primary)
	newer := s != nil && s.writable && s.on.version == newVersion
	back := w.desired.Version == oldVersion
	w.upgrade.read(w.plan, newVersion, !back && w.broken[newVersion])
	switch {
	case !back && w.plan.Rollout.PreviousVersion == oldVersion:
		w.say("the person sets the version back to %s", oldVersion)
		w.desired.TemplateHash, w.desired.Version = oldTemplate, oldVersion
		w.wake()
	case back && newer || w.upgrade.told >= 6:
		w.say("the person asks for %s in a build that starts", newVersion)
		w.upgrade.told, w.upgrade.rebuilt = 0, true
		delete(w.broken, newVersion)
		w.specChanges++
		w.desired.TemplateHash, w.desired.Version = strconv.Itoa(w.specChanges), newVersion
		w.wake()
		return
	case newer:
		return
	}
	w.after(5*second, func() { w.callOff(oldTemplate, oldVersion, newVersion) })
}
