package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// settings applies what the spec says of mysqld's variables, and restarts mysqlds for it one by one.
type settings struct {
	*pass
	acks         *acks
	turns        *turns
	upgrades     *upgrades
	provisioning *provisioning
	handover     *handover
}

// configure keeps every answering member's variables as they should be: the pinned ones at their pinned value, the
// user's as the spec has them. Values that need a restart are rolled through the members, replicas first.
func (p *settings) configure() {
	for _, m := range p.ordered() {
		if !m.verified() || m.cloning() || p.busy(m.Name) {
			continue
		}
		if pins := p.toPin(m); len(pins) > 0 {
			p.retry(waitMySQL, PinSettings{m.Name, pins}) // what else is wanted is applied beside it
		}
		if p.beingRestored(m) {
			continue
		}
		p.judgeStart(m)
		p.reportRefused(m)
		if want, drop := p.settingsDiff(m); len(want)+len(drop) > 0 {
			p.retry(waitMySQL/4, ApplySettings{m.Name, want, drop})
			if v := p.views[m.Name]; v != nil && v.Phase == v1alpha1.PhaseReady {
				v.Step = waits("applying changed settings")
				p.plan.Rolling = Finding{v1alpha1.ReasonRolling, m.Name + ": " + v.Step.Message}
			}
		}
	}
	p.reportUndone()
	p.restartPending()
}

// toPin are the settings of a member that are put back. One that is being restored keeps what it was launched with, and that includes the plug-in
// of CLONE: without it the restore would wait for ever for how its last CLONE ended.
func (p *settings) toPin(m *Member) map[string]string {
	value, unloaded := m.SQL.Drifted[mysql.ClonePlugin]
	switch {
	case !p.beingRestored(m):
		return m.SQL.Drifted
	case unloaded:
		return map[string]string{mysql.ClonePlugin: value}
	}
	return nil
}

// everySetting is in the place of names when any setting may be the one that keeps mysqld from starting.
const everySetting = "*"

// RestartDueAt is what a member's record says of a restart that is due from now on: a server that started in this same second,
// by which its start is known, is to be restarted too.
func RestartDueAt(now, started time.Time) int64 {
	return max(now.Unix(), started.Unix()+1)
}

// RestartAlsoFor is what a member's record says of a restart that is due for some more settings.
func RestartAlsoFor(rec MemberRecord, want map[string]string) string {
	if rec.RestartFor == everySetting {
		return everySetting
	}
	names := sortedKeys(want)
	if rec.RestartFor != "" {
		names = append(names, strings.Split(rec.RestartFor, ",")...)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// judgeStart looks at how a member's mysqld has started. One that started without what is persisted did not start with it
// twice: what was persisted since it last did is undone, and what else there is counts again from the next restart on. When
// nothing was, something else may have kept it from starting, and it is restarted once to see; the next time everything is undone.
// One that started blind right after settings were changed is no better.
func (p *settings) judgeStart(m *Member) {
	rec := p.plan.Records.Members[m.Name]
	before := rec
	if rec.Undone != "" && rec.UndoneWhy == "" {
		rec.UndoneWhy = m.StartError
	}
	switch {
	case m.SQL.RestartPending: // how it starts then says more
	case !m.SQL.PersistedIgnored && (!m.blind() || rec.RestartFor == ""):
		rec.RestartFor = ""
	case rec.RestartFor == "":
		rec.RestartFor, rec.RestartDue = everySetting, RestartDueAt(p.Now, m.SQL.StartedAt)
		p.waitAtMost(waitNext)
	default:
		lines := p.suspects(m, rec)
		if len(lines) == 0 {
			break // of the spec's settings none is left to undo
		}
		rec.RestartFor, rec.Undone, rec.UndoneWhy = "", strings.Join(lines, "\n"), m.StartError
		if m.blind() && !m.SQL.PersistedIgnored {
			rec.UndoneWhy = "performance_schema, without which nobody can look after it, is off"
		}
		p.waitAtMost(waitNext)
	}
	if rec != before {
		p.plan.Records.Members[m.Name] = rec
	}
}

// suspects are the settings, a line name=value for each, with which a mysqld did not start for all that is known.
func (d Desired) suspects(m *Member, rec MemberRecord) []string {
	var lines []string
	for _, name := range sortedKeys(d.Settings) {
		suspect := rec.RestartFor == everySetting || slices.Contains(strings.Split(rec.RestartFor, ","), name)
		if suspect && m.SQL.Persisted[name] == d.Settings[name] {
			lines = append(lines, name+"="+d.Settings[name])
		}
	}
	return lines
}

// undone says whether a setting is one with which some member did not start. The others do without it too, before they meet the
// same.
func (p *pass) undone(name string) bool {
	for _, rec := range p.plan.Records.Members {
		if rec.Undone != "" && slices.Contains(strings.Split(rec.Undone, "\n"), name+"="+p.Settings[name]) {
			return true
		}
	}
	return false
}

// reportUndone says which settings were undone. Once the spec says something else of one of them, the others, which may have been
// innocent, are tried again.
func (p *settings) reportUndone() {
	for _, name := range slices.Sorted(maps.Keys(p.plan.Records.Members)) {
		rec := p.plan.Records.Members[name]
		if rec.Undone == "" {
			continue
		}
		lines, named := strings.Split(rec.Undone, "\n"), []string(nil)
		if slices.ContainsFunc(lines, func(line string) bool {
			setting, value, _ := strings.Cut(line, "=")
			named = append(named, setting)
			wanted, ok := p.Settings[setting]
			return !ok || wanted != value
		}) {
			rec.Undone, rec.UndoneWhy = "", ""
			p.plan.Records.Members[name] = rec
			p.waitAtMost(waitNext)
			continue
		}
		why, advice := "", ""
		if rec.UndoneWhy != "" {
			why = ": " + strings.TrimRight(rec.UndoneWhy, ".")
		}
		if len(lines) > 1 {
			advice = "; once one of them is changed, the others are tried again"
		}
		p.degraded(v1alpha1.ReasonSettingRefused, fmt.Sprintf("mysqld of %s did not start well with %s, which no member has now%s. Change %s%s",
			name, strings.Join(lines, ", "), why, v1alpha1.SettingFields(named...), advice))
	}
}

// refuses says whether a member's mysqld has just refused what the spec says of a setting. Nothing else waits for that: no restart, no new
// instance, no switchover.
func (d Desired) refuses(m *Member, name string) bool {
	refused, known := m.SQL.Refused[name]
	want, wanted := d.Settings[name]
	return known && wanted && refused.Value == want
}

// reportRefused says which settings a member's mysqld has just refused. Those that are undone are reported as such.
func (p *settings) reportRefused(m *Member) {
	values, whys := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.SQL.Refused)) {
		if p.refuses(m, name) && !m.SQL.Refused[name].Awaited && !p.undone(name) && !m.SQL.PersistedIgnored {
			values[name], whys[name] = p.Settings[name], m.SQL.Refused[name].Why
		}
	}
	if len(whys) > 0 {
		p.degraded(v1alpha1.ReasonSettingRefused, ApplySettings{Member: m.Name, Want: values}.String()+": "+SettingsRefused(whys))
	}
}

// SettingsRefused says of settings, by name, why they were refused, and what to do.
func SettingsRefused(whys map[string]string) string {
	names, text := slices.Sorted(maps.Keys(whys)), ""
	for _, name := range names {
		text += whys[name] + "; "
	}
	return text + "change " + v1alpha1.SettingFields(names...)
}

// settingsDiff returns what of the user's settings is not persisted yet, and what is persisted and no longer wanted.
func (p *pass) settingsDiff(m *Member) (want map[string]string, drop []string) {
	want = map[string]string{}
	for name, value := range p.Settings {
		if got, ok := m.SQL.Persisted[name]; (!ok || got != value) && !p.undone(name) && !p.refuses(m, name) {
			want[name] = value
		}
	}
	for name := range m.SQL.Persisted {
		if name == maxConnections && p.plan.Records.Members[m.Name].MaxConnections != 0 {
			continue // it is raised to let replicas in, which its default might shut out again
		}
		if _, ok := p.Settings[name]; !ok || p.undone(name) {
			drop = append(drop, name)
		}
	}
	slices.Sort(drop)
	return want, drop
}

// asked says whether something that happened at a time is to be done again, because a person wants it to be younger than
// wanted. Times are told to the second.
func asked(wanted, happened, now time.Time) bool {
	return !wanted.IsZero() && !wanted.After(now) && !happened.IsZero() && happened.Before(wanted.Truncate(time.Second))
}

// RestartDue says whether a member's mysqld is to be restarted: persisted values wait for it, or a person asked for it.
func (d Desired) RestartDue(m *Member, now time.Time) bool {
	return m.SQL.RestartPending || asked(d.RestartedAt, m.SQL.StartedAt, now)
}

// restarting is the step of a member whose mysqld is being restarted.
var restarting = Step{Restarting, "restarting mysqld"}

// replacedSoon says whether a member is about to get a new instance, on which its mysqld starts anyway: it is not restarted before
// that, and so disturbed once and not twice. Where the turns do not begin, because EC2 is not asked for such instances, a permission is missing
// or EC2 does not answer whether it is, an upgrade was in vain too often, or somebody has no vote, the restart does not wait for them: it
// may be what helps.
func (p *settings) replacedSoon(m *Member) bool {
	if !p.turns.outdated(m) || !p.Launchable || p.Untried != "" || p.Rehearsal.blocks() || p.unconfirmed || p.provisioning.mayCreate().Waits() || p.standsStill() {
		return false
	}
	return !slices.ContainsFunc(p.ordered(), func(other *Member) bool {
		v := p.views[other.Name]
		return other.Ordinal < p.Replicas && (v == nil || !v.Voter && v.Role != v1alpha1.RolePrimary || p.turns.outdated(other) && p.upgrades.upgradedInVain(other))
	})
}

// turnPatience is how long a member's turn may be begun without an instance before a restart no longer waits for it.
const turnPatience = 10 * time.Minute

// standsStill says whether the member whose turn it is goes on as it was, because it gets no instance: nothing was done to it yet.
func (p *settings) standsStill() bool {
	m := p.Members[p.plan.Records.Rolling]
	if m == nil || !m.verified() || m.Ordinal >= p.Replicas {
		return false
	}
	in, v := m.CurrentInstance(), p.views[m.Name]
	if in == nil || v == nil || !v.Voter && v.Role != v1alpha1.RolePrimary || p.successorOf(m, in) != nil {
		return false
	}
	return m.CapacityRefused != "" || p.Now.Sub(time.Unix(p.plan.Records.RollingAt, 0)) > turnPatience
}

// restartPending restarts one member that is due for it and not replaced soon, only while everybody else is well: replicas
// first by ordinal, the primary last.
func (p *settings) restartPending() {
	if p.plan.Records.Rolling != "" && !p.standsStill() {
		return // one member at a time, whatever is done to it
	}
	next := p.nextRestart()
	switch {
	case next == nil:
	case p.Hold != "":
		p.handover.restartStep = waits(fmt.Sprintf("%s is to be restarted next: %s", next.Name, p.Hold))
	case next.Name == p.plan.Primary:
		p.handover.restartPrimary(next)
	case p.acks.holdsUp(next, p.Members[p.plan.Primary]):
		p.handover.restartStep = waits(fmt.Sprintf("%s is to be restarted next: %s", next.Name, awaitsOthers))
	default:
		p.retry(waitMySQL, Restart{next.Name})
		p.views[next.Name].Step = restarting
		p.views[next.Name].Phase = v1alpha1.PhaseReplicating
	}
}

// nextRestart returns the member whose mysqld is restarted next, the primary last; nil while not all are well, or for none.
func (p *settings) nextRestart() *Member {
	var next *Member
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		switch {
		case v == nil:
		case v.Phase != v1alpha1.PhaseReady || v.Step.Waits() || p.busy(m.Name):
			return nil
		case m.Ordinal < p.Replicas && p.RestartDue(m, p.Now) && !p.replacedSoon(m) && (next == nil || next.Name == p.plan.Primary):
			next = m
		}
	}
	return next
}
