package pass

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// The kinds of promotions.
const (
	PromotionUnplanned = v1alpha1.EventFailover
	PromotionPlanned   = v1alpha1.EventSwitchover
	// PromotionSame: the primary was away, and takes writes again.
	PromotionSame = v1alpha1.EventReopened
)

// Timeline is when what happened while the cluster had no primary that takes writes. It is kept in memory: an operator
// that restarts in the middle measures from its own start.
type Timeline struct {
	Kind, From string
	// Asked is true when the primary was away because a person asked for it: a restart, another instance, hibernation.
	Asked bool
	// LastWrite is the last write of the probe that succeeded; zero when unknown.
	LastWrite time.Time
	// Noticed is when the primary was missed, fenced when nobody could acknowledge for the old one any more, opened when
	// the new one was, published when clients were shown it.
	Noticed, Fenced, Opened, Published time.Time
	// Announced is true once an event reported the promotion. Status may not hold it yet.
	Announced bool
	// Unseen is true until a pass has looked at the members after a switchover: the plan that made it still names the old
	// primary.
	Unseen bool
}

// Fence and open note when a promotion began and succeeded. A promotion that had to be tried again counts as one.
func (t *Timeline) Fence(now time.Time) {
	if t.Fenced.IsZero() {
		t.Fenced = now
	}
}

// Open records that the new primary was opened.
func (t *Timeline) Open(now time.Time) { t.Opened = now }

// Show notes when clients were first shown the new primary.
func (t *Timeline) Show(s *Pass, now time.Time) {
	if s.Result.Published && !t.Opened.IsZero() && t.Published.IsZero() {
		t.Published = now
	}
}

// Report is the timeline as status shows it.
func (t *Timeline) Report(to string, lossless bool, times topology.UncoveredTimes) *v1alpha1.PromotionStatus {
	span := func(from, until time.Time) string {
		if from.IsZero() || until.Before(from) {
			return ""
		}
		return Seconds(until.Sub(from))
	}
	kind := t.Kind
	if kind == PromotionUnplanned && t.From == to {
		kind = PromotionSame
	}
	p := &v1alpha1.PromotionStatus{
		Kind: kind, From: t.From, To: to, At: metav1.NewTime(t.Published),
		Detect: span(t.LastWrite, t.Noticed), Fence: span(t.Noticed, t.Fenced), Promote: span(t.Fenced, t.Opened), Publish: span(t.Opened, t.Published),
		Total: Seconds(t.Published.Sub(t.Began())),
	}
	switch lost := times.LostWith(to); {
	case lossless && len(lost) > 0:
		p.Uncovered, p.UncoveredMembers = lost.String(), UncoveredMembers(lost)
	case lossless || kind != PromotionUnplanned:
		p.LostTransactions = ptr.To[int64](0)
	}
	return p
}

// Began is when writes ceased to succeed, as far as it is known.
func (t *Timeline) Began() time.Time {
	if t.LastWrite.IsZero() {
		return t.Noticed
	}
	return t.LastWrite
}

// Seconds is a duration as status shows it.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// LastPromotion is the promotion that status shows, or will once the cache has it.
func LastPromotion(s *Pass) *v1alpha1.PromotionStatus {
	if p := s.Cache.Told.Promotion; p != nil {
		return p
	}
	return s.Cluster.Status.LastPromotion
}

// ReportedUncovered are the members of whose uncovered times a promotion's status reports one, with its beginning in Unix seconds.
func ReportedUncovered(last *v1alpha1.PromotionStatus) map[string]int64 {
	reported := map[string]int64{}
	if last != nil {
		for _, m := range last.UncoveredMembers {
			reported[m.Name] = m.Since.Unix()
		}
	}
	return reported
}

// UncoveredMembers are uncovered times as status shows them.
func UncoveredMembers(times topology.UncoveredTimes) []v1alpha1.UncoveredMember {
	members := make([]v1alpha1.UncoveredMember, 0, len(times))
	for _, u := range times {
		members = append(members, v1alpha1.UncoveredMember{Name: u.Primary, Since: metav1.Unix(u.Since, 0)})
	}
	return members
}
