package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
)

// configure keeps every answering member's variables as they should be: the pinned ones at their pinned value, the
// user's as the spec has them. Values that need a restart are rolled through the members, replicas first.
func (p *planner) configure() {
	for _, m := range p.ordered() {
		if !m.verified() || m.cloning() || p.busy(m.Name) {
			continue
		}
		if len(m.SQL.Drifted) > 0 {
			p.retry(waitMySQL, PinSettings{m.Name, m.SQL.Drifted})
			continue
		}
		if want, drop := p.settingsDiff(m); len(want)+len(drop) > 0 {
			p.retry(waitMySQL/4, ApplySettings{m.Name, want, drop})
			if v := p.views[m.Name]; v != nil && v.Phase == v1alpha1.PhaseReady {
				v.Message = "applying changed settings"
				p.plan.Rolling = Finding{v1alpha1.ReasonRolling, m.Name + ": " + v.Message}
			}
		}
	}
	p.restartPending()
}

// settingsDiff returns what of the user's settings is not persisted yet, and what is persisted and no longer wanted.
func (p *planner) settingsDiff(m *Member) (want map[string]string, drop []string) {
	want = map[string]string{}
	for name, value := range p.Settings {
		if got, ok := m.SQL.Persisted[name]; !ok || got != value {
			want[name] = value
		}
	}
	for name := range m.SQL.Persisted {
		if _, ok := p.Settings[name]; !ok {
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

// tellRestarts says which mysqlds are still to be restarted.
func (p *planner) tellRestarts() {
	var due []string
	for _, m := range p.ordered() {
		if m.Ordinal < p.Replicas && (!m.verified() || p.RestartDue(m, p.Now)) {
			due = append(due, m.Name)
		}
	}
	if slices.ContainsFunc(p.ordered(), func(m *Member) bool { return p.RestartDue(m, p.Now) }) {
		p.plan.Rolling = Finding{v1alpha1.ReasonRolling, fmt.Sprintf("mysqld of %d of %d members restarted; still to be: %s", p.Replicas-len(due), p.Replicas, strings.Join(due, ", "))}
	}
}

// restartPending restarts one member that is due for it, only while everybody else is well: replicas
// first by ordinal, the primary last.
func (p *planner) restartPending() {
	p.tellRestarts()
	if p.plan.Records.Rolling != "" {
		return // one member at a time, whatever is done to it
	}
	var next *Member
	for _, m := range p.ordered() {
		v := p.views[m.Name]
		if v == nil {
			continue
		}
		if v.Phase != v1alpha1.PhaseReady || v.Message != "" || p.busy(m.Name) {
			return
		}
		if p.RestartDue(m, p.Now) && (next == nil || next.Name == p.plan.Primary) {
			next = m
		}
	}
	if next == nil {
		return
	}
	if p.Hold != "" {
		p.plan.Rolling = Finding{v1alpha1.ReasonRolling, fmt.Sprintf("mysqld of %s is to be restarted next: %s", next.Name, p.Hold)}
		return
	}
	if next.Name == p.plan.Primary {
		p.restartPrimary(next)
		return
	}
	p.retry(waitMySQL, Restart{next.Name})
	p.views[next.Name].Message = "restarting mysqld"
	p.views[next.Name].Phase = v1alpha1.PhaseReplicating
}
