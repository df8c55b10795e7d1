package status

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// trackPromotion follows a failure of the primary through the passes, and reports the promotion once the new primary is
// published.
func (r *Reporter) trackPromotion(s *pass.Pass) {
	t, now := &s.Cache.Told.Timeline, r.Clock.Now()
	switch {
	case t.Unseen:
		t.Unseen = false
	case !s.Planned || s.Deleting() || s.Plan.Hibernating:
		*t = pass.Timeline{}
	case s.Plan.Failing && (t.Noticed.IsZero() || t.Announced):
		if t.Announced { // another failure, ahead of the status of the one before
			*t = pass.Timeline{}
		}
		*t = pass.Timeline{Kind: pass.PromotionUnplanned, Noticed: now, Fenced: t.Fenced, Opened: t.Opened, LastWrite: r.Prober.Status(s.UID()).LastSuccess}
		if s.Plan.Membership != nil {
			t.From = s.Plan.Membership.Primary
		}
		t.Asked = askedToPause(s, t.From)
	case s.Plan.Primary != "" && s.Result.Published && !t.Opened.IsZero():
		t.Show(s, now)
		s.Result.Promotion = t.Report(s.Plan.Primary, s.Cluster.Spec.Lossless(), s.Plan.Records.Uncovered)
	case s.Plan.Primary != "" && t.Opened.IsZero():
		*t = pass.Timeline{} // it came back, or somebody else took care
		s.Result.Promotion = owed(s, now)
	}
}

// askedToPause reports whether a person asked for what takes writes away from a primary without a switchover: hibernation, or, of a
// cluster with one member, a restart of mysqld or another instance.
func askedToPause(s *pass.Pass, primary string) bool {
	of := func(rec topology.ClusterRecord) bool {
		return rec.Rolling == primary || slices.Contains(rec.Restarts.Members, primary)
	}
	return waking(s) || primary != "" && s.Desired.Replicas == 1 && (of(s.Observed.Records) || of(s.Plan.Records))
}

// owed is the last promotion with what status does not report yet: that commits may be lost which other members than the primary
// answered. It was found after the promotion, or the pass that promoted could not report it. Nil for nothing.
func owed(s *pass.Pass, now time.Time) *v1alpha1.PromotionStatus {
	lost := s.Plan.Records.Uncovered.Without(s.Plan.Primary).NotIn(s.Observed.UncoveredReported)
	if s.Plan.Primary == "" || !s.Result.Published || len(lost) == 0 || !s.Cluster.Spec.Lossless() {
		return nil
	}
	p := &v1alpha1.PromotionStatus{Kind: pass.PromotionUnplanned, From: lost[0].Primary, At: metav1.NewTime(now), Total: pass.Seconds(0)}
	if last := pass.LastPromotion(s); last != nil && last.To == s.Plan.Primary {
		p = last.DeepCopy()
	}
	p.To, p.LostTransactions, p.Uncovered = s.Plan.Primary, nil, lost.After(p.Uncovered)
	p.UncoveredMembers = slices.DeleteFunc(p.UncoveredMembers, func(m v1alpha1.UncoveredMember) bool { return lost.Of(m.Name) != nil })
	p.UncoveredMembers = append(p.UncoveredMembers, pass.UncoveredMembers(lost)...)
	return p
}

// reportPromotion tells of a promotion in an event and in the histogram, and forgets it once status holds it, which written says. What was
// found later about one that status holds is announced with it.
func (r *Reporter) reportPromotion(s *pass.Pass, written bool) {
	p, t := s.Result.Promotion, s.Cache.Told.Timeline
	if p == nil || !written && t.Opened.IsZero() {
		return
	}
	s.Cache.Told.Timeline = pass.Timeline{}
	if !written {
		s.Cache.Told.Timeline = t
		s.Cache.Told.Timeline.Announced = true
	}
	if t.Announced {
		return
	}
	if t.Opened.IsZero() && p.Uncovered != "" {
		r.Events.Eventf(s.Cluster, nil, corev1.EventTypeWarning, v1alpha1.ReasonCommitsUncovered, announce.Act,
			"%s is the primary, and commits that others answered may be lost: %s", p.To, p.Uncovered)
		return
	}
	kind, words := announcedAs(p, t.Asked)
	kept := "no acknowledged transaction was lost"
	switch {
	case p.Uncovered != "":
		kept = "what was acknowledged meanwhile may be lost: " + p.Uncovered
	case t.Kind == pass.PromotionUnplanned && p.LostTransactions == nil:
		kept = "with durability Async, what the old primary acknowledged last may be lost"
	}
	r.Events.Eventf(s.Cluster, nil, kind, p.Kind, announce.Act, "%s in %s (detect %s, fence %s, promote %s, publish %s); %s",
		words, p.Total, announce.OrDash(p.Detect), announce.OrDash(p.Fence), announce.OrDash(p.Promote), announce.OrDash(p.Publish), kept)
	r.Metrics.Promoted(s.Cluster, p.Kind, t.Asked, map[string]time.Duration{
		"detect": t.Noticed.Sub(t.Began()), "fence": t.Fenced.Sub(t.Noticed), "promote": t.Opened.Sub(t.Fenced),
		"publish": t.Published.Sub(t.Opened), "total": t.Published.Sub(t.Began()),
	})
}

// announcedAs returns the type of a promotion's event, and how it begins.
func announcedAs(p *v1alpha1.PromotionStatus, asked bool) (kind, words string) {
	switch {
	case p.Kind == pass.PromotionPlanned:
		return corev1.EventTypeNormal, fmt.Sprintf("Switched over from %s to %s", announce.OrDash(p.From), p.To)
	case p.Kind == pass.PromotionSame && asked:
		return corev1.EventTypeNormal, fmt.Sprintf("Reopened %s for writes", p.To)
	case p.Kind == pass.PromotionSame:
		return corev1.EventTypeWarning, fmt.Sprintf("Reopened %s for writes", p.To)
	}
	return corev1.EventTypeWarning, fmt.Sprintf("Failed over from %s to %s", announce.OrDash(p.From), p.To)
}
