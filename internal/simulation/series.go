package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// crossing says whether every newer version that is asked for in a schedule is one of another series, which CLONE does not cross.
// None of those that broke something before there were such is among these.
func crossing(schedule uint64) bool { return schedule%19 == 16 || schedule%23 == 4 }

// seriesSeed begins the numbers from which is drawn when a newer series is asked for.
const seriesSeed = 0x73657269

// drawSeries lets a newer series be asked for, in some schedules, and a member be lost with its volume while it is on its way.
func (w *world) drawSeries(seed, schedule uint64) {
	if !crossing(schedule) {
		return
	}
	w.crossing = true
	w.after(10*second, func() { w.followAdvice(0) })
	rng := rand.New(rand.NewPCG(seed^seriesSeed, schedule))
	if rng.IntN(3) == 0 || w.scenario == &upgradeCalledOff { // whoever calls an upgrade off asks for no other meanwhile
		return
	}
	at := rng.Int64N(w.shape.span)
	w.later(at, "a newer series is asked for", func() {
		w.specChanges++
		w.desired.TemplateHash, w.desired.Version = strconv.Itoa(w.specChanges), w.nextVersion()
	})
	for range 1 + rng.IntN(3) {
		w.later(at+rng.Int64N(40*second), "a member is to be lost meanwhile", w.loseSomeVolume)
	}
}

// nextVersion is the version that is asked for next.
func (w *world) nextVersion() string {
	if w.crossing {
		return fmt.Sprintf("9.%d.4", 7+w.specChanges)
	}
	return fmt.Sprintf("9.7.%d", 4+w.specChanges)
}

// seriesOf returns x.y of x.y.z.
func seriesOf(version string) string { return version[:strings.LastIndexByte(version, '.')] }

// templateText is what a template's hash is the hash of.
func templateText(d topology.Desired) string { return d.TemplateHash + " " + d.Version }

// beforeOf reads from the records what instances were made from when all were last well, unless that is the version of the spec.
func beforeOf(r topology.ClusterRecord, version string) topology.Template {
	hash, before, known := strings.Cut(r.Template, " ")
	if !known || before == version {
		return topology.Template{}
	}
	return topology.Template{Hash: hash, Version: before}
}

// adviceOnSeries is told when nobody has a version that a member can be cloned from, before the version that it names.
const adviceOnSeries = "set spec.version back to "

// followAdvice is what a person does who is told for a while that only a version of before helps, and raises it again later. Where
// the operator remembers what was asked for before, it is to get on without.
func (w *world) followAdvice(told int) {
	if w.quiet || w.desired.Deleting {
		return
	}
	version := ""
	for _, f := range w.plan.Degraded {
		if _, after, found := strings.Cut(f.Message, adviceOnSeries); found && f.Reason == v1alpha1.ReasonMemberMissing {
			version, _, _ = strings.Cut(after, ",")
		}
	}
	if told++; version == "" || beforeOf(w.kube.records, w.desired.Version).Version == version {
		told = 0
	}
	if told >= 6 {
		told = 0
		w.specChanges++
		w.desired.TemplateHash, w.desired.Version = strconv.Itoa(w.specChanges), version
		w.say("PEOPLE: back to mysqld %s, as the status says", version)
		w.wake()
	}
	w.after(10*second, func() { w.followAdvice(told) })
}

// seedable says whether CLONE goes from one server to another: it does not cross a series.
func seedable(recipient, donor *mysqld) bool {
	return seriesOf(recipient.on.version) == seriesOf(donor.on.version)
}
