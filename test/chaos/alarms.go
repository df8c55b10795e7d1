package chaos

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/alerts"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/insights"
)

const (
	// Haste is how much sooner the alerts of a run fire than the shipped ones: their windows and waits are as many times shorter, so that
	// an hour is two minutes. What the operator itself waits for, and what a threshold says, stays.
	Haste = 30
	// AlarmInterval is how often a run's Prometheus scrapes the operator: the shortest window has ten seconds. AlarmMembers is how often it
	// scrapes the members, whose metrics have no windows and of which one that does not answer costs five seconds.
	AlarmInterval, AlarmMembers = 2 * time.Second, 10 * time.Second
	// fireWithin bounds the wait for an alert unless its alarm says more, and endWithin for its end.
	fireWithin, endWithin = 4 * time.Minute, 20 * time.Minute
)

// Alarm is a fault by which alerts are shown to fire, and to end after it.
type Alarm struct {
	// Fault is what the table calls it.
	Fault string
	// Alerts are those that it makes fire. It may fire others.
	Alerts []string
	// Do makes it happen, and notes in the scene how it is healed.
	Do func(ctx context.Context, s *Scene) error
	// Within is how long the first alert may take; 0 for fireWithin.
	Within time.Duration
}

// Matches says whether an expression matches the fault or one of the alerts.
func (a Alarm) Matches(only *regexp.Regexp) bool {
	return only.MatchString(a.Fault) || slices.ContainsFunc(a.Alerts, only.MatchString)
}

// Raised is when an alert of an alarm fired and ended.
type Raised struct {
	Alert, Fault string
	// Fired is from the beginning of the fault, Ended from its end. Negative: it did not.
	Fired, Ended time.Duration
	healed       time.Time
	began        time.Time
}

// Pager is who is sent alerts.
type Pager interface{ Fired() []insights.Alert }

// Raise makes the fault of an alarm happen to a Ready cluster, waits until its alerts have fired, and heals it. The alerts that did not
// fire are an error.
func (w *World) Raise(ctx context.Context, a Alarm, pager Pager) ([]Raised, error) {
	s, err := w.scene(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.awaitSilence(ctx, a, pager); err != nil {
		return nil, err
	}
	w.say("%-60s %s", a.Fault, strings.Join(a.Alerts, ", "))
	s.begins()
	w.faultBegan = s.began
	within := a.Within
	if within == 0 {
		within = fireWithin
	}
	var raised []Raised
	var missing error
	done := a.Do(ctx, s)
	if done == nil {
		raised, missing = w.awaitAlerts(ctx, a, s.began, within, pager)
	}
	healed := s.heal(context.WithoutCancel(ctx))
	for i := range raised {
		raised[i].healed = time.Now()
	}
	if missing != nil {
		if c, err := w.cluster(ctx); err == nil {
			missing = fmt.Errorf("%w; %s", missing, statusLine(c))
		}
	}
	err = errors.Join(done, missing, healed)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.Fault, err)
		w.say("     %v", err)
	}
	return raised, errors.Join(err, ctx.Err())
}

// awaitSilence waits until none of the alerts of an alarm fires any more that an earlier fault set off.
func (w *World) awaitSilence(ctx context.Context, a Alarm, pager Pager) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	for {
		i := slices.IndexFunc(pager.Fired(), func(sent insights.Alert) bool {
			return slices.Contains(a.Alerts, sent.Name()) && w.concerned(sent) && sent.Ended.IsZero()
		})
		if i < 0 {
			return nil
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("%s: %s has been firing for %s since an earlier fault", a.Fault, pager.Fired()[i].Name(), endWithin)
		}
	}
}

// awaitAlerts waits for the alerts of an alarm that began at a time.
func (w *World) awaitAlerts(ctx context.Context, a Alarm, began time.Time, within time.Duration, pager Pager) ([]Raised, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	fired := map[string]time.Time{}
	for {
		for _, name := range a.Alerts {
			i := slices.IndexFunc(pager.Fired(), func(sent insights.Alert) bool { return sent.Name() == name && w.concerned(sent) && sent.Ended.IsZero() })
			if _, known := fired[name]; i >= 0 && !known {
				fired[name] = pager.Fired()[i].Began
				w.say("     %4.0fs  %s", time.Since(began).Seconds(), name)
			}
		}
		if len(fired) == len(a.Alerts) {
			break
		}
		if pause(ctx, lookEvery) != nil {
			break
		}
	}
	var raised []Raised
	var silent []string
	for _, name := range a.Alerts {
		at, known := fired[name]
		if !known {
			silent = append(silent, name)
			continue
		}
		raised = append(raised, Raised{Alert: name, Fault: a.Fault, began: at, Fired: max(0, at.Sub(began)), Ended: -1})
	}
	if silent != nil {
		return raised, fmt.Errorf("did not fire within %s: %s", within, strings.Join(silent, ", "))
	}
	return raised, nil
}

// concerned says whether an alert is about the clusters of the run, or about the operator.
func (w *World) concerned(a insights.Alert) bool {
	namespace := a.Labels["namespace"]
	return namespace == "" || namespace == w.key.Namespace || namespace == v1alpha1.SystemNamespace
}

// AwaitEnds waits until all alerts have ended, and writes down when. Those that fire on are an error.
func (w *World) AwaitEnds(ctx context.Context, raised []Raised, pager Pager) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	for told := time.Now(); ; {
		var firing []string
		for i, r := range raised {
			if r.Ended >= 0 {
				continue
			}
			ended := endOf(r, pager.Fired())
			if ended.IsZero() {
				firing = append(firing, r.Alert)
				continue
			}
			raised[i].Ended = max(0, ended.Sub(r.healed))
		}
		if firing == nil {
			return nil
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			w.say("           still firing: %s", strings.Join(firing, ", "))
		}
		if pause(ctx, lookEvery) != nil {
			return fmt.Errorf("still firing after %s: %s", endWithin, strings.Join(firing, ", "))
		}
	}
}

// endOf returns when the alert ended that was raised; zero while it fires. One that came and went during the fault has ended with it.
func endOf(r Raised, sent []insights.Alert) (ended time.Time) {
	for _, a := range sent {
		if a.Name() != r.Alert || a.Began.Before(r.began) {
			continue
		}
		if a.Ended.IsZero() {
			return time.Time{}
		}
		if a.Began.Before(r.healed) || a.Began.Equal(r.began) {
			ended = a.Ended
		}
	}
	return ended
}

var (
	window = regexp.MustCompile(`\[[0-9]+[smhd](:[0-9]+[smhd])?\]`)
	// A group with windows of days is evaluated once in minutes.
	hasty = []string{"for", "interval"}
)

// HastyRules returns the shipped rules with times as many times shorter as Haste says.
func HastyRules() map[string]any {
	rules := alerts.All()
	for _, g := range rules["groups"].([]any) {
		group := g.(map[string]any)
		hurry(group)
		for _, r := range group["rules"].([]any) {
			rule := r.(map[string]any)
			hurry(rule)
			rule["expr"] = window.ReplaceAllStringFunc(rule["expr"].(string), func(found string) string {
				parts := strings.Split(strings.Trim(found, "[]"), ":")
				for i := range parts {
					parts[i] = shorter(parts[i])
				}
				return "[" + strings.Join(parts, ":") + "]"
			})
		}
	}
	return rules
}

func hurry(of map[string]any) {
	for _, key := range hasty {
		if d, ok := of[key].(string); ok {
			of[key] = shorter(d)
		}
	}
}

// shorter divides a duration of Prometheus'. The rules hold none that it could not read.
func shorter(text string) string {
	d, err := model.ParseDuration(text)
	if err != nil {
		panic("the shipped rules: " + err.Error())
	}
	return (d / Haste).String()
}

// Waits returns the alerts of the shipped rules, and for how long the expression of each has to hold.
func Waits() map[string]time.Duration {
	waits := map[string]time.Duration{}
	for _, g := range alerts.All()["groups"].([]any) {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			var d model.Duration
			if text, ok := rule["for"].(string); ok {
				d, _ = model.ParseDuration(text) // shorter has read it
			}
			waits[rule["alert"].(string)] = time.Duration(d)
		}
	}
	return waits
}

// AlarmTable is a table of what was raised, for docs/runbooks/README.md.
func AlarmTable(raised []Raised) string {
	waits := Waits()
	var b strings.Builder
	b.WriteString("| alert | fault | fired after | shipped wait | ended after |\n| --- | --- | ---: | ---: | ---: |\n")
	for _, r := range raised {
		ended := "–"
		if r.Ended >= 0 {
			ended = wholeSeconds(r.Ended)
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s | %s |\n", r.Alert, r.Alert, r.Fault, wholeSeconds(r.Fired), model.Duration(waits[r.Alert]), ended)
	}
	return b.String()
}

func wholeSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s" }
