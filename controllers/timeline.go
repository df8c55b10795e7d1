package controllers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The kinds of promotions.
const (
	promotionUnplanned = v1alpha1.EventFailover
	promotionPlanned   = v1alpha1.EventSwitchover
	// promotionSame: the primary was away, and takes writes again.
	promotionSame = v1alpha1.EventReopened
)

// timeline is when what happened while the cluster had no primary that takes writes. It is kept in memory: an operator
// that restarts in the middle measures from its own start.
type timeline struct {
	kind, from string
	// asked is true when the primary was away because a person asked for it: a restart, another machine, hibernation.
	asked bool
	// lastWrite is the last write of the probe that succeeded; zero when unknown.
	lastWrite time.Time
	// noticed is when the primary was missed, fenced when nobody could acknowledge for the old one any more, opened when
	// the new one was, published when clients were shown it.
	noticed, fenced, opened, published time.Time
	// unseen is true until a pass has looked at the members after a switchover: the plan that made it still names the old
	// primary.
	unseen bool
}

// fence and open note when a promotion began and succeeded. A promotion that had to be tried again counts as one.
func (t *timeline) fence(now time.Time) {
	if t.fenced.IsZero() {
		t.fenced = now
	}
}

func (t *timeline) open(now time.Time) { t.opened = now }

// show notes when clients were first shown the new primary.
func (t *timeline) show(s *pass, now time.Time) {
	if s.result.published && !t.opened.IsZero() && t.published.IsZero() {
		t.published = now
	}
}

// trackPromotion follows a failure of the primary through the passes, and reports the promotion once the new primary is
// published.
func (r *reporter) trackPromotion(s *pass) {
	t, now := &s.cache.told.timeline, r.Clock.Now()
	switch {
	case t.unseen:
		t.unseen = false
	case !s.planned || s.deleting() || s.cluster.Spec.Hibernate:
		*t = timeline{}
	case s.plan.Failing && t.noticed.IsZero():
		*t = timeline{kind: promotionUnplanned, noticed: now, fenced: t.fenced, opened: t.opened, lastWrite: r.Prober.Status(s.uid()).LastSuccess}
		if s.plan.Membership != nil {
			t.from = s.plan.Membership.Primary
		}
		t.asked = askedToPause(s, t.from)
	case s.plan.Primary != "" && s.result.published && !t.opened.IsZero():
		t.show(s, now)
		s.result.promotion = t.report(s.plan.Primary, s.cluster.Spec.Lossless(), s.plan.Records.Uncovered)
	case s.plan.Primary != "" && t.opened.IsZero():
		*t = timeline{} // it came back, or somebody else took care
		s.result.promotion = owed(s, now)
	}
}

// askedToPause reports whether a person asked for what takes writes away from a primary without a switchover: hibernation, or, of a
// cluster with one member, a restart of mysqld or another machine.
func askedToPause(s *pass, primary string) bool {
	of := func(rec topology.Records) bool {
		return rec.Rolling == primary || slices.Contains(rec.Restarts.Members, primary)
	}
	return s.cache.told.writes.waking || primary != "" && s.desired.Replicas == 1 && (of(s.observed.Records) || of(s.plan.Records))
}

// report is the timeline as status shows it.
func (t *timeline) report(to string, lossless bool, times topology.UncoveredTimes) *v1alpha1.PromotionStatus {
	span := func(from, until time.Time) string {
		if from.IsZero() || until.Before(from) {
			return ""
		}
		return seconds(until.Sub(from))
	}
	kind := t.kind
	if kind == promotionUnplanned && t.from == to {
		kind = promotionSame
	}
	p := &v1alpha1.PromotionStatus{
		Kind: kind, From: t.from, To: to, At: metav1.NewTime(t.published),
		Detect: span(t.lastWrite, t.noticed), Fence: span(t.noticed, t.fenced), Promote: span(t.fenced, t.opened), Publish: span(t.opened, t.published),
		Total: seconds(t.published.Sub(t.began())),
	}
	switch lost := times.LostWith(to); {
	case lossless && len(lost) > 0:
		p.Uncovered, p.UncoveredMembers = lost.String(), uncoveredMembers(lost)
	case lossless || kind != promotionUnplanned:
		p.LostTransactions = ptr.To[int64](0)
	}
	return p
}

// owed is the last promotion with what status does not report yet: that commits may be lost which other members than the primary
// answered. It was found after the promotion, or the pass that promoted could not report it. Nil for nothing.
func owed(s *pass, now time.Time) *v1alpha1.PromotionStatus {
	lost := s.plan.Records.Uncovered.Without(s.plan.Primary).NotIn(s.observed.UncoveredReported)
	if s.plan.Primary == "" || !s.result.published || len(lost) == 0 || !s.cluster.Spec.Lossless() {
		return nil
	}
	p := &v1alpha1.PromotionStatus{Kind: promotionUnplanned, From: lost[0].Primary, At: metav1.NewTime(now), Total: seconds(0)}
	if last := lastPromotion(s); last != nil && last.To == s.plan.Primary {
		p = last.DeepCopy()
	}
	p.To, p.LostTransactions, p.Uncovered = s.plan.Primary, nil, lost.After(p.Uncovered)
	p.UncoveredMembers = slices.DeleteFunc(p.UncoveredMembers, func(m v1alpha1.UncoveredMember) bool { return lost.Of(m.Name) != nil })
	p.UncoveredMembers = append(p.UncoveredMembers, uncoveredMembers(lost)...)
	return p
}

// lastPromotion is the promotion that status shows, or will once the cache has it.
func lastPromotion(s *pass) *v1alpha1.PromotionStatus {
	if p := s.cache.told.promotion; p != nil {
		return p
	}
	return s.cluster.Status.LastPromotion
}

// uncoveredMembers are uncovered times as status shows them.
func uncoveredMembers(times topology.UncoveredTimes) []v1alpha1.UncoveredMember {
	members := make([]v1alpha1.UncoveredMember, 0, len(times))
	for _, u := range times {
		members = append(members, v1alpha1.UncoveredMember{Name: u.Primary, Since: metav1.Unix(u.Since, 0)})
	}
	return members
}

// reportedUncovered are the members of whose uncovered times a promotion's status reports one, with its beginning in Unix seconds.
func reportedUncovered(last *v1alpha1.PromotionStatus) map[string]int64 {
	reported := map[string]int64{}
	if last != nil {
		for _, m := range last.UncoveredMembers {
			reported[m.Name] = m.Since.Unix()
		}
	}
	return reported
}

// began is when writes ceased to succeed, as far as it is known.
func (t *timeline) began() time.Time {
	if t.lastWrite.IsZero() {
		return t.noticed
	}
	return t.lastWrite
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// tellOfPromotion tells of a promotion in an event and in the histogram, once status holds it.
func (r *reporter) tellOfPromotion(s *pass) {
	p, t := s.result.promotion, s.cache.told.timeline
	if p == nil {
		return
	}
	s.cache.told.timeline = timeline{}
	if t.opened.IsZero() && p.Uncovered != "" {
		r.Events.Eventf(s.cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonCommitsUncovered, actionAct,
			"%s is the primary, and commits that others answered may be lost: %s", p.To, p.Uncovered)
		return
	}
	kind, words := announcedAs(p, t.asked)
	kept := "no acknowledged transaction was lost"
	switch {
	case p.Uncovered != "":
		kept = "what was acknowledged meanwhile may be lost: " + p.Uncovered
	case t.kind == promotionUnplanned && p.LostTransactions == nil:
		kept = "with durability Async, what the old primary acknowledged last may be lost"
	}
	r.Events.Eventf(s.cluster, nil, kind, p.Kind, actionAct, "%s in %s (detect %s, fence %s, promote %s, publish %s); %s",
		words, p.Total, orDash(p.Detect), orDash(p.Fence), orDash(p.Promote), orDash(p.Publish), kept)
	for step, span := range map[string]time.Duration{
		"detect": t.noticed.Sub(t.began()), "fence": t.fenced.Sub(t.noticed), "promote": t.opened.Sub(t.fenced),
		"publish": t.published.Sub(t.opened), "total": t.published.Sub(t.began()),
	} {
		r.Metrics.promoted(p.Kind, step, span)
	}
}

// announcedAs returns the type of a promotion's event, and how it begins.
func announcedAs(p *v1alpha1.PromotionStatus, asked bool) (kind, words string) {
	switch {
	case p.Kind == promotionPlanned:
		return corev1.EventTypeNormal, fmt.Sprintf("Switched over from %s to %s", orDash(p.From), p.To)
	case p.Kind == promotionSame && asked:
		return corev1.EventTypeNormal, fmt.Sprintf("Reopened %s for writes", p.To)
	case p.Kind == promotionSame:
		return corev1.EventTypeWarning, fmt.Sprintf("Reopened %s for writes", p.To)
	}
	return corev1.EventTypeWarning, fmt.Sprintf("Failed over from %s to %s", orDash(p.From), p.To)
}
