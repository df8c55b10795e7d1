package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// peopleSeed begins the numbers from which is drawn what people do.
const peopleSeed = 0x70656f70

// peopled says whether people change what runs in a schedule, besides what goes wrong in all of them. None of those that broke
// something before they came is among these, so that each goes on telling its story.
func peopled(schedule uint64) bool { return schedule%16 == 8 || schedule%17 == 14 }

// badSetting is one with which mysqld does not start. It tries startTries times and leaves what is persisted out the last time.
const (
	badSetting = "does_not_start"
	startTries = 3
)

// mostGrowth is how often people let volumes grow at most.
const mostGrowth = 4

// people do what operators of a platform do, and see to it later.
type people struct {
	rng *rand.Rand
	// stubborn is the member whose volume EC2 does not modify, empty for none.
	stubborn string
	// grown is how often volumes were to grow: EC2 takes four modifications of each within a day, which no schedule waits for.
	grown int
}

// drawPeople lets people come, in some schedules.
func (w *world) drawPeople(seed, schedule uint64) {
	if !peopled(schedule) {
		return
	}
	w.people = &people{rng: rand.New(rand.NewPCG(seed^peopleSeed, schedule))}
	for range w.people.between(1, 5) {
		w.after(w.people.between(0, w.shape.span), w.peopleAct)
	}
}

func (p *people) between(low, high int64) int64 { return low + p.rng.Int64N(high-low+1) }

// peopleAct lets one person do one thing.
func (w *world) peopleAct() {
	if w.healed > 0 || w.desired.Deleting {
		return
	}
	p := w.people
	switch p.rng.IntN(9) {
	case 0, 1:
		w.desired.RestartedAt = w.time()
		w.say("PEOPLE: every mysqld is to be restarted")
	case 2:
		w.desired.CertificatesRenewedAt = w.time()
		w.say("PEOPLE: every certificate is to be renewed")
	case 3:
		if p.rng.IntN(3) == 0 {
			p.stubborn = w.desired.MemberName(p.rng.IntN(w.desired.Replicas))
		}
		if p.grown == mostGrowth {
			return
		}
		p.grown++
		w.desired.SizeGiB += 10
		w.say("PEOPLE: volumes are to have %d GiB; EC2 refuses that of %q", w.desired.SizeGiB, p.stubborn)
	case 4, 5:
		w.desired.Hold = "the window is closed"
		w.say("PEOPLE: nobody may be disturbed")
		w.after(p.between(10*second, 120*second), func() {
			w.desired.Hold = ""
			w.wake()
		})
	case 6:
		w.desired.Soak = time.Duration(p.between(5, 60)) * time.Second
		w.specChanges++
		w.desired.TemplateHash = strconv.Itoa(w.specChanges)
		w.say("PEOPLE: instances of template %s, one every %s", w.desired.TemplateHash, w.desired.Soak)
	default:
		w.desired.Settings = maps.Clone(w.desired.Settings)
		if w.desired.Settings == nil {
			w.desired.Settings = map[string]string{}
		}
		w.specChanges++
		w.desired.Settings[badSetting] = strconv.Itoa(w.specChanges)
		w.say("PEOPLE: a setting with which mysqld does not start")
		if p.rng.IntN(2) == 0 {
			w.after(p.between(5*second, 90*second), w.takeBadSettingOut)
		}
	}
	w.wake()
}

// takeBadSettingOut is what a person does who has read what the status says.
func (w *world) takeBadSettingOut() {
	for _, f := range w.plan.Degraded {
		if f.Reason == v1alpha1.ReasonSettingRefused {
			w.say("PEOPLE: the setting is taken out of the spec")
			w.desired.Settings = maps.Clone(w.desired.Settings)
			delete(w.desired.Settings, badSetting)
			w.wake()
			return
		}
	}
	if !w.quiet {
		w.after(5*second, w.takeBadSettingOut)
	}
}

// seeOff ends what people left undone that would keep the cluster from ever being done.
func (w *world) seeOff() {
	w.desired.Hold = ""
	if w.people != nil {
		w.people.stubborn = ""
	}
}

// startsWith says whether mysqld comes up with what is persisted, and whether it does at all this time.
func (in *instance) startsWith(st *store) (persisted, now bool) {
	if _, bad := st.persisted[badSetting]; !bad {
		in.failures = 0
		return true, true
	}
	in.failures++
	return false, in.failures%startTries == 0
}

// checkDisturbed is told of every mysqld that is about to be restarted because of a plan.
func (w *world) checkDisturbed(op *operator, a topology.Action) {
	if op.desired.Hold != "" {
		w.fail(heldBack, "%s while %s", a, op.desired.Hold)
	}
}

// notDone says what of that which people asked for is not done, empty for nothing. With the records it is forgotten that a
// restart is due for a setting that is persisted: then it counts from the next start on, whenever that is.
func (w *world) notDone() string {
	for n := range w.desired.Replicas {
		s := w.serverOf(n)
		if s == nil {
			continue
		}
		if value, ok := s.st.persisted[badSetting]; (ok || s.ignored) && !w.forgot {
			return fmt.Sprintf("%s has %s=%s persisted, started without what is: %t", s.on.member, badSetting, value, s.ignored)
		}
		if at := w.desired.RestartedAt.Truncate(time.Second); w.at(s.started).Before(at) {
			return fmt.Sprintf("mysqld of %s runs since %s, and a restart was asked for at %s", s.on.member, w.at(s.started), at)
		}
		if at := w.desired.CertificatesRenewedAt.Truncate(time.Second); w.at(s.on.signedAt).Before(at) {
			return fmt.Sprintf("the certificate of %s is of %s, and a new one was asked for at %s", s.on.member, w.at(s.on.signedAt), at)
		}
		if s.on.volume.SizeGiB < w.desired.SizeGiB {
			return fmt.Sprintf("the volume of %s has %d GiB, and %d were asked for", s.on.member, s.on.volume.SizeGiB, w.desired.SizeGiB)
		}
	}
	if w.desired.RebuildMember != "" {
		return fmt.Sprintf("%s is not rebuilt, which was asked for", w.desired.RebuildMember)
	}
	if bad, ok := w.desired.Settings[badSetting]; ok && !w.forgot && len(w.plan.Degraded) == 0 {
		return fmt.Sprintf("nobody is told of %s=%s", badSetting, bad)
	}
	return ""
}

// giveUpAfter is how long after the faults a person waits who is asked to give something up.
const giveUpAfter = 20 * 60 * second

// giveUp lets a person do what status asks for when the records were lost in the middle of a failover and all voters together do not show
// who led last. What is lost by that counts as lost: who takes over must hold every acknowledged commit all the same.
func giveUp(w *world) {
	row := w.plan.Membership
	if !w.forgot || w.now-w.healed < giveUpAfter || row == nil || w.desired.AcceptLoss == row.Epoch || len(w.plan.Degraded) == 0 ||
		w.plan.Degraded[0].Reason != v1alpha1.ReasonPromotionNotProven || !strings.Contains(w.plan.Degraded[0].Message, "it is not known who led last") {
		return
	}
	w.say("PEOPLE: what the member lacks that takes over is given up, epoch %d", row.Epoch)
	w.desired.AcceptLoss = row.Epoch
	w.wake()
}
