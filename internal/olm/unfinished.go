package olm

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Annotation holds, in the OperatorCondition, what this process knows of the clusters and its successor cannot observe: for how long
// each has held upgrades back, and when its work last advanced. OLM leaves annotations as they are, and a change of them does not make
// the condition an outdated one, as a change of the spec does. The condition's lastTransitionTime stays what it is everywhere.
const Annotation = "mysql.alx.ke/unfinished"

// remembered is of how many clusters the annotation holds something: the names and times of more may not fit into an object's 256 KiB.
const remembered = 1000

// ReasonStarting is the condition's reason until the operator knows what is unfinished. OLM takes a missing condition for a True one.
const ReasonStarting = "Starting"

const (
	// stalls is how long work holds an upgrade back without progress: longer than a failover or the restart of a member takes. What
	// takes longer waits for a person, or for AWS, and another release of the operator may be what helps.
	stalls = 30 * time.Minute
	// unreported is how long work holds an upgrade back whose cluster no pass has reported on, and how long a leader waits for the first
	// report of a cluster: several times the longest pause between two passes, or what 1,000 clusters take. Passes that report nothing
	// come to no plan, so that a hand-over interrupts none.
	unreported = 5 * time.Minute
	// longest is how long a cluster holds an upgrade back in all, whatever advances: longer than replacing nine members takes. Without it
	// whoever may annotate a cluster could hold every upgrade back for good.
	longest = 6 * time.Hour
	// rest is how long a cluster must have nothing unfinished until it may hold an upgrade back for another longest.
	rest = 30 * time.Minute
)

// Unfinished is work that a hand-over of the operator had better not interrupt.
type Unfinished struct {
	// Reason is a CamelCase word for the condition, Message what runs, in words that do not change while it does.
	Reason, Message string
	// Progress changes when the work advances, and at no other time.
	Progress string
}

// times are what counts of a cluster, whichever process observes it.
type times struct {
	// Began is when it first held an upgrade back, without a rest since.
	Began time.Time `json:"began"`
	// Advanced is when its work last advanced.
	Advanced time.Time `json:"advanced"`
	// Ended is when nothing was unfinished any more, zero while something is.
	Ended time.Time `json:"ended,omitzero"`
}

// inheritedWork is what another process reported, as long as this one has reported nothing of the cluster.
var inheritedWork = Unfinished{Reason: ReasonStarting, Message: "something was unfinished when the operator started, and the cluster has not been observed since"}

// running is what was last reported of a cluster.
type running struct {
	Unfinished
	times
	reported time.Time
	// inherited is until when work that is reported for the first time is taken for that of the process before. It is zero for work
	// that this process has reported.
	inherited time.Time
}

// rested says whether a cluster has had nothing unfinished for long enough that what held an upgrade back earlier no longer counts.
func (r running) rested(now time.Time) bool { return !r.Ended.IsZero() && now.Sub(r.Ended) >= rest }

// until is when the work holds an upgrade back no longer, unless something is reported by then. It is zero for none.
func (r running) until() time.Time {
	if !r.Ended.IsZero() {
		return time.Time{}
	}
	return slices.MinFunc([]time.Time{r.Began.Add(longest), r.Advanced.Add(stalls), r.reported.Add(unreported)}, time.Time.Compare)
}

// followedBy is what is running once work is reported, nil for none. An operator that crashes again and again in a failover reports it
// each time as if it were new: that is no progress.
func (r running) followedBy(work *Unfinished, now time.Time) running {
	switch {
	case work == nil && r.Ended.IsZero():
		r.Ended = now
		return r
	case work == nil:
		return r
	}
	next := running{Unfinished: *work, times: times{Began: r.Began, Advanced: now}, reported: now}
	if now.Before(r.inherited) || r.Ended.IsZero() && r.Progress == work.Progress {
		next.Advanced = r.Advanced
	}
	return next
}

// begun is work of a cluster of which nothing was known.
func begun(work Unfinished, now time.Time) running {
	return running{Unfinished: work, times: times{Began: now, Advanced: now}, reported: now}
}

// written is the text of the annotation. Where there are too many clusters, those that began first are in it.
func written(all map[types.NamespacedName]running) string {
	clusters := slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(all[a].Began.Compare(all[b].Began), strings.Compare(a.String(), b.String()))
	})
	seconds := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	held := map[string]times{}
	for _, cluster := range clusters[:min(remembered, len(clusters))] {
		of := all[cluster].times
		held[cluster.String()] = times{Began: seconds(of.Began), Advanced: seconds(of.Advanced), Ended: seconds(of.Ended)}
	}
	text, _ := json.Marshal(held) // times and names always can be
	return string(text)
}

// read is what the annotation says. A time that is yet to come, of another clock, counts as now.
func read(text string, now time.Time) (map[types.NamespacedName]running, error) {
	held := map[string]times{}
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return nil, err
	}
	past := func(t time.Time) time.Time { return slices.MinFunc([]time.Time{t, now}, time.Time.Compare) }
	all := map[types.NamespacedName]running{}
	for name, of := range held {
		namespace, cluster, _ := strings.Cut(name, "/")
		r := running{Unfinished: inheritedWork, times: times{Began: past(of.Began), Advanced: past(of.Advanced), Ended: past(of.Ended)}, reported: now}
		if r.Ended.IsZero() {
			r.inherited = now.Add(unreported)
		}
		all[types.NamespacedName{Namespace: namespace, Name: cluster}] = r
	}
	return all, nil
}
