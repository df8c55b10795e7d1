package simulation

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// dyingSeed begins the numbers from which is drawn whose data is damaged, and which members people have rebuilt.
const dyingSeed = 0x6479696e

// damaging says whether data of a member is damaged in a schedule, or people ask for rebuilds. None of the schedules that broke
// something before, or that notice a mutant, is among these.
func damaging(schedule uint64) bool { return schedule%29 == 27 || schedule%26 == 21 }

// dying is what is drawn for such a schedule.
type dying struct {
	rng *rand.Rand
	// asked is the member whose rebuild was asked for when the records were saved last, and askedAt when a pass first saw that. What people
	// ask for and take back between two passes nobody sees.
	asked   string
	askedAt int64
}

// drawDying damages data of a member, and lets people ask for rebuilds, in some schedules.
func (w *world) drawDying(seed, schedule uint64) {
	if !damaging(schedule) {
		return
	}
	w.dying = &dying{rng: rand.New(rand.NewPCG(seed^dyingSeed, schedule))}
	d := w.dying
	if d.rng.IntN(4) > 0 && !w.crossing { // between two series a damaged member cannot be cloned, and a person has to set the version back
		w.shape.span = max(w.shape.span, 120*second)
		w.later(d.between(0, 60*second), "pages of a member are damaged", w.damage)
	}
	for range d.rng.IntN(4) {
		w.later(d.between(0, w.shape.span), "a person asks for a rebuild", w.askForRebuild)
	}
	w.after(5*second, func() { w.followCrashAdvice(0) })
}

func (d *dying) between(low, high int64) int64 { return low + d.rng.Int64N(high-low+1) }

// damage damages pages of a member, of a replica more often than of the primary.
func (w *world) damage() {
	node := w.dying.rng.IntN(w.desired.Replicas)
	if node == w.primaryNode() && w.dying.rng.IntN(3) > 0 {
		node = (node + 1) % w.desired.Replicas
	}
	if s := w.serverOf(node); s != nil && s.st.row != nil && !s.st.hollow && w.desired.Replicas > 1 && w.damaged() == nil {
		w.say("%s: pages are damaged", s.on.member)
		s.st.damaged = true
		w.readDamaged(s)
	}
}

// damaged is the volume whose pages are damaged, nil for none.
func (w *world) damaged() *volume {
	for _, v := range w.cloud.volumes {
		if v.st != nil && v.st.damaged && !v.retired && w.ordinal(v.member) < w.desired.Replicas {
			return v
		}
	}
	return nil
}

// readDamaged lets a mysqld read damaged pages some time after its start, which ends it.
func (w *world) readDamaged(s *mysqld) {
	if !s.st.damaged {
		return
	}
	w.after(w.dying.between(2*second, 40*second), func() {
		switch {
		case !s.alive() || !s.st.damaged:
		case s.on.frozen:
			w.readDamaged(s)
		default:
			w.say("%s: mysqld reads damaged pages", s.on.member)
			s.end(false)
			w.bootMySQL(s.on, w.dying.between(second, 4*second))
		}
	})
}

// askForRebuild names some member, or one that is none.
func (w *world) askForRebuild() {
	w.wantRebuild(w.desired.MemberName(w.dying.rng.IntN(w.desired.Replicas + 1)))
}

func (w *world) wantRebuild(member string) {
	w.say("PEOPLE: %s is to be rebuilt", member)
	w.desired.RebuildMember = member
	w.wake()
}

// followCrashAdvice is what a person does who is told for a while that mysqld of a member crashes: they have it rebuilt, and hand
// over before if it is the primary. Data that nobody has a copy of is restored from a backup.
func (w *world) followCrashAdvice(told int) {
	if w.quiet || w.desired.Deleting {
		return
	}
	member := ""
	for _, f := range w.plan.Degraded {
		if f.Reason == v1alpha1.ReasonMemberCrashing && member == "" {
			member, _, _ = strings.Cut(strings.TrimPrefix(f.Message, "mysqld of "), " ")
		}
	}
	if told++; member == "" {
		told = 0
	}
	switch v := w.damaged(); {
	case v != nil && w.desired.Replicas == 1:
		w.say("PEOPLE: the data of %s is repaired", v.member)
		v.st.damaged = false
	case told < 3:
	case member == w.plan.Primary && w.desired.SwitchoverTo == "":
		w.desired.SwitchoverTo = w.desired.MemberName((w.ordinal(member) + 1 + w.dying.rng.IntN(max(w.desired.Replicas-1, 1))) % w.desired.Replicas)
		w.say("PEOPLE: %s is to hand over to %s", member, w.desired.SwitchoverTo)
		w.wake()
	case member != w.plan.Primary && w.desired.RebuildMember != member:
		w.wantRebuild(member)
	}
	w.after(5*second, func() { w.followCrashAdvice(told) })
}

// recordAsked takes what a pass that saved its records saw to be asked for, whoever led meanwhile: the records hold the request from then on.
func (d *dying) recordAsked(member string, began int64) {
	if d != nil && d.asked != member {
		d.asked, d.askedAt = member, began
	}
}

// answerRebuild takes a request for a rebuild back once it is done or refused, as controllers remove the annotation.
func answerRebuild(w *world, d topology.Desired, plan topology.Plan) {
	if w.dying == nil || d.RebuildMember == "" || w.desired.RebuildMember != d.RebuildMember || !plan.Answers.Rebuild.Given() {
		return
	}
	done := plan.Answers.Rebuild.Done != ""
	w.say("the request to rebuild %s is answered: done %t, refused %q", d.RebuildMember, done, plan.Answers.Rebuild.Refused)
	w.desired.RebuildMember = ""
	if done && !slices.ContainsFunc(w.cloud.volumes, func(v *volume) bool {
		return v.member == d.RebuildMember && v.st != nil && v.st.clone != nil && clonedAt(v.st) >= w.dying.askedAt
	}) {
		w.fail(undone, "the rebuild of %s is called done, and no CLONE began since it was asked for", d.RebuildMember)
	}
}

// clonedAt is when the last CLONE into a volume began.
func clonedAt(st *store) int64 {
	at, err := strconv.ParseInt(st.clone.Began, 10, 64)
	if err != nil {
		return -1
	}
	return at
}

// onlyCrashes says whether nothing is wrong with a replica, and nobody wants anything of it, but that its mysqld crashed repeatedly.
func (w *world) onlyCrashes(m *topology.Member, plan topology.Plan, o topology.Observed, d topology.Desired) bool {
	primary := o.Members[plan.Primary]
	if m == nil || primary == nil || m.SQL.Access != topology.AccessVerified || m.Unstable.Since.IsZero() || m.Ordinal >= d.Replicas {
		return false
	}
	if r := m.SQL.Replication; r == nil || r.ReceiverError != "" || r.ApplierError != "" || !m.SQL.Executed.Union(r.Retrieved).Contains(primary.SQL.Purged) {
		return false
	}
	errant := m.SQL.Executed.Subtract(primary.SQL.Executed).WithoutSource(primary.SQL.ServerUUID)
	return errant.IsEmpty() && plan.Records.Rolling != m.Name && o.Records.Rolling != m.Name && d.RebuildMember != m.Name
}

// checkExpelled holds what must be true when a vote is taken because of crashes: enough others that are stable acknowledge.
func (w *world) checkExpelled(plan topology.Plan, o topology.Observed, d topology.Desired) {
	for _, a := range plan.Actions {
		switch a := a.(type) {
		case topology.RemoveVoter:
			if !w.onlyCrashes(o.Members[a.Member], plan, o, d) {
				continue
			}
			stable := 0
			for _, name := range a.From.Voters {
				m := o.Members[name]
				if name != a.Member && name != a.Primary && m != nil && m.Unstable.Since.IsZero() && m.SQL.Replication != nil && m.SQL.Replication.IOState == ioOn {
					stable++
				}
			}
			if stable < a.From.WaitCount() {
				w.fail(expelledRashly, "%s is to lose its vote, and %d of the others are stable", a.Member, stable)
			}
		case topology.RemoveAllVoters:
			for _, name := range plan.Membership.Voters {
				if name != a.Member && o.Records.Removing != name && w.onlyCrashes(o.Members[name], plan, o, d) {
					w.fail(expelledRashly, "%s is to go on alone, although %s follows it", a.Member, name)
				}
			}
		}
	}
}

// checkCrashing holds that mysqld of a member is said to crash only when it did, on any of its instances.
func checkCrashing(w *world, o topology.Observed) {
	for _, m := range o.Members {
		if m.Unstable.MySQLD && !slices.ContainsFunc(w.cloud.instances, func(in *instance) bool { return in.member == m.Name && (in.crashes > 0 || in.unreported) }) {
			w.fail(wronglyCrashed, "mysqld of %s is said to crash since %s", m.Name, m.Unstable.Since)
		}
	}
}

// restartingSeed begins the numbers from which is drawn which instances restart.
const restartingSeed = 0x72657374

// restarting says whether instances restart in a schedule without EC2 showing it, as after a panic of their kernels. None of the schedules
// that broke something before, or that notice a mutant, is among these.
func restarting(schedule uint64) bool { return schedule%30 == 19 }

// drawRestarts lets instances restart, in some schedules: in some of them several times within minutes.
func drawRestarts(w *world, seed, schedule uint64) {
	if !restarting(schedule) {
		return
	}
	rng := rand.New(rand.NewPCG(seed^restartingSeed, schedule))
	unreported := rng.IntN(4) == 0
	for range 1 + rng.IntN(2) {
		node, at := rng.IntN(w.desired.Replicas), rng.Int64N(w.shape.span+1)
		for range 2 + rng.IntN(4) {
			boot := 3*second + rng.Int64N(12*second)
			w.after(at, func() {
				for _, in := range w.cloud.instances {
					// With a volume, what others hold in their memory may be all there is.
					if in.node == node && in.powered && in.State == running && w.shape.volumesLost == 0 {
						in.unreported = unreported
						restart(w, in, boot)
					}
				}
			})
			at += boot + 5*second + rng.Int64N(120*second)
		}
	}
}
