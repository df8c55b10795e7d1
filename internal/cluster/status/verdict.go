package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/resources"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// firstProbe is how long Available may stay True in a process that has not probed yet: the time to find the primary, and for one probe
// to end.
const firstProbe = probe.ProbeFresh + probe.DefaultProbeTimeout

// evidence is everything that the conditions Available and Degraded follow from.
type evidence struct {
	now time.Time
	// planned is true when the pass came to a plan: then primary and waiting are what it says.
	planned, deleting bool
	// hibernates is true while instances are ended for a hibernation, or have ended; asleep once none is left.
	hibernates, asleep bool
	// waking is true from hibernation on until a member takes writes.
	waking bool
	// service is the name of the primary Service.
	service string
	// primary takes writes; empty for none. waiting says what it waits for.
	primary, waiting string
	probe            probe.ProbeResult
	// unled is why the primary Service leads clients nowhere, nil when it leads somewhere. The probe has no success then.
	unled *topology.Finding
	// since is when this process began to watch the cluster, due when a write should have succeeded and none has since; see
	// trackWrites.
	since, due time.Time
	problems   []topology.Finding
	// before is Available as status holds it, nil for none.
	before *metav1.Condition
}

// verdict is Available and Degraded. Degraded is nil when it stays as it is.
type verdict struct {
	available metav1.Condition
	degraded  *metav1.Condition
}

// judge computes the conditions. While writes are due and fail, Degraded is True: nothing else has a say in that.
func (e evidence) judge() verdict {
	v := verdict{available: e.available()}
	findings := slices.Clone(e.problems)
	if outage := e.outage(v.available); outage != nil {
		findings = append(findings, *outage)
	}
	switch {
	case len(findings) > 0:
		reason, message := combine(findings)
		v.degraded = &metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
	case e.planned:
		v.degraded = &metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHealthy, Message: "nothing needs attention"}
	}
	return v
}

// available is the probe's last word, or why there is none.
func (e evidence) available() metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Status: status, Reason: reason, Message: message}
	}
	switch {
	case e.deleting:
		return is(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "the cluster is being deleted; the operator no longer checks whether it takes writes")
	case e.hibernates:
		return is(metav1.ConditionFalse, v1alpha1.ReasonHibernated, e.hibernation())
	case e.probe.Probed && e.now.Sub(e.probe.LastSuccess) <= probe.ProbeFresh:
		return is(metav1.ConditionTrue, v1alpha1.ReasonWriteSucceeded, "a write through the primary Service succeeds")
	case e.waking && e.primary == "":
		return is(metav1.ConditionFalse, v1alpha1.ReasonWaking, "the cluster wakes from hibernation: "+e.noPrimary())
	case e.planned && e.primary == "":
		return is(metav1.ConditionFalse, v1alpha1.ReasonNoPrimary, e.noPrimary())
	case e.unled != nil:
		return is(metav1.ConditionFalse, e.unled.Reason, e.unled.Message)
	case e.probe.Probed:
		return is(metav1.ConditionFalse, v1alpha1.ReasonWriteFailed, "the last write through the primary Service failed: "+cmp.Or(e.probe.Err, "no answer"))
	case e.before == nil:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotProbed, "no write through the primary Service was tried yet")
	case e.planned && (e.before.Status == metav1.ConditionFalse || e.now.Sub(e.since) <= firstProbe):
		return is(e.before.Status, e.before.Reason, e.before.Message) // the first probe of this process ends within seconds
	}
	// Something keeps this process from looking, and databases may well serve.
	return is(metav1.ConditionUnknown, v1alpha1.ReasonNotProbed, "no write through the primary Service was tried since the operator started")
}

// hibernation says how far a hibernation is.
func (e evidence) hibernation() string {
	if e.asleep {
		return "the cluster hibernates; set spec.hibernate to false to wake it"
	}
	return "the cluster goes into hibernation because spec.hibernate is set: its Services lead nowhere, and its instances are to end"
}

// noPrimary says why no member takes writes.
func (e evidence) noPrimary() string {
	for _, f := range e.problems {
		if f.Reason == v1alpha1.ReasonPromotionNotProven {
			return f.Message
		}
	}
	text := "there is no primary yet"
	if !e.due.IsZero() {
		text = "no member takes writes"
	}
	if e.waiting != "" {
		text += ": " + e.waiting
	}
	return text
}

// outage is the finding that writes fail for longer than a planned change may take, nil while they do not. A finding that says so with
// its cause stands for it.
func (e evidence) outage(available metav1.Condition) *topology.Finding {
	said := func(f topology.Finding) bool {
		return v1alpha1.SeverityOf(f.Reason) <= v1alpha1.SeverityWrites && f.Reason != v1alpha1.ReasonCommitsUncovered // which says nothing of writes
	}
	if available.Status != metav1.ConditionFalse || e.due.IsZero() || e.now.Sub(e.due) <= probe.ProbeFresh || slices.ContainsFunc(e.problems, said) {
		return nil
	}
	if available.Reason == v1alpha1.ReasonNoPrimary || e.unled != nil {
		return &topology.Finding{Reason: available.Reason, Message: available.Message}
	}
	why := cmp.Or(e.probe.Err, "no answer")
	return &topology.Finding{Reason: v1alpha1.ReasonWriteFailed, Message: "writes through Service " + e.service + " fail: " + why + ". See the messages of the members in status"}
}

// counts is how long it takes until failing writes make the cluster Degraded; 0 when they do already, or do not fail.
func (e evidence) counts(v verdict) time.Duration {
	if v.available.Status != metav1.ConditionFalse || e.due.IsZero() {
		return 0
	}
	return max(0, e.due.Add(probe.ProbeFresh).Sub(e.now)+time.Millisecond)
}

// evidence gathers what a pass knows when it ends.
func (r *Reporter) evidence(s *pass.Pass, problems []topology.Finding) evidence {
	wrote := r.writes(s)
	return evidence{
		now: r.Clock.Now(), planned: s.Planned, deleting: s.Deleting(), hibernates: hibernates(s), asleep: s.Cluster.Status.Phase == v1alpha1.PhaseHibernated,
		waking:  !s.Cluster.Spec.Hibernate && waking(s) && wrote.LastSuccess.IsZero(),
		service: resources.NamesOf(s.Cluster.Name).Primary, primary: s.Plan.Primary, waiting: s.Plan.Waiting.Message,
		probe: wrote, unled: s.Cache.Published.Write.Missing, since: s.Cache.Told.Writes.Since, due: s.Cache.Told.Writes.Due, problems: problems,
		before: meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionAvailable),
	}
}

// writes is what the probe knows of the writes of clients: none of them succeeds while the primary Service leads nowhere.
func (r *Reporter) writes(s *pass.Pass) probe.ProbeResult {
	if why := s.Cache.Published.Write.Missing; why != nil {
		return probe.ProbeResult{Probed: true, Err: why.Message}
	}
	return r.Prober.Status(s.UID())
}

// trackWrites notes since when writes are due. A process that finds a cluster unavailable takes over since when it has been.
func (r *Reporter) trackWrites(s *pass.Pass) {
	w, now, last := &s.Cache.Told.Writes, r.Clock.Now(), r.writes(s).LastSuccess
	before, first := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionAvailable), w.Since.IsZero()
	if first {
		w.Since = now
	}
	switch {
	case s.Deleting(), hibernates(s):
		w.Due = time.Time{}
	case !last.IsZero():
		w.Due = last
	case waking(s) && s.Plan.Primary == "", s.Planned && !s.Records().Established && !s.Plan.Records.Established:
		w.Due = time.Time{}
	case w.Due.IsZero() && s.Planned:
		w.Due = now
		if first && before != nil && before.Status == metav1.ConditionFalse && !waking(s) {
			w.Due = before.LastTransitionTime.Time
		}
	}
}

// hibernates says whether the instances of a cluster are ended, or have ended, for a hibernation. A pass without a plan goes by what status
// says.
func hibernates(s *pass.Pass) bool {
	if s.Planned {
		return s.Plan.Hibernating
	}
	before := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionAvailable)
	return s.Cluster.Spec.Hibernate && before != nil && before.Reason == v1alpha1.ReasonHibernated
}

// waking says whether no member had taken writes since the cluster hibernated when status was written. Status keeps that across a restart
// of the operator: Available has no other reasons in between.
func waking(s *pass.Pass) bool {
	before := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionAvailable)
	return before != nil && (before.Reason == v1alpha1.ReasonHibernated || before.Reason == v1alpha1.ReasonWaking)
}

// combine makes one condition of several findings: the reason of the most severe one, and their messages in the order of severity.
// Among equals the first finding stays first, and the others are sorted, so that the order in which members fail changes nothing.
func combine(findings []topology.Finding) (reason, message string) {
	bySeverity := func(a, b topology.Finding) int {
		return cmp.Compare(v1alpha1.SeverityOf(a.Reason), v1alpha1.SeverityOf(b.Reason))
	}
	ordered := slices.Clone(findings)
	slices.SortStableFunc(ordered, bySeverity)
	slices.SortStableFunc(ordered[1:], func(a, b topology.Finding) int {
		return cmp.Or(bySeverity(a, b), strings.Compare(a.Message, b.Message))
	})
	var messages []string
	for _, f := range ordered {
		if !slices.Contains(messages, f.Message) {
			messages = append(messages, f.Message)
		}
	}
	return ordered[0].Reason, strings.Join(messages, "; ")
}
