package controllers

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/engine"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// What mysqld refuses is wanted as much in the next pass, and in all that follow until a person changes it. Nothing else may wait for
// that: no restart, no new machine, no switchover. So the brain is shown as done what was refused, and once in a while, or as soon as
// something else is wanted, it is shown what is the case, and it is tried again.

// refusedSetting is a value that a member's mysqld did not take.
type refusedSetting struct {
	value, why string
	at         time.Time
}

// refusedPassword is a password that MySQL did not take, by what EnsureDatabase would have made with it.
type refusedPassword struct {
	key     string
	problem *engine.Problem
	at      time.Time
}

// refuseSettings notes the settings that a member's mysqld refused; several members are served at the same time.
func (c *settingCache) refuseSettings(member string, want map[string]string, refused map[string]error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[member] == nil {
		c.refused[member] = map[string]refusedSetting{}
	}
	for name, err := range refused {
		c.refused[member][name] = refusedSetting{value: want[name], why: err.Error(), at: now}
	}
}

// overlookRefused shows settings as persisted that were refused a while ago, and tells of them.
func (r *mysqlObserver) overlookRefused(s *pass, m *topology.Member) {
	s.cache.settings.mu.Lock()
	defer s.cache.settings.mu.Unlock()
	values, whys := map[string]string{}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(s.cache.settings.refused[m.Name])) {
		refused := s.cache.settings.refused[m.Name][name]
		want, wanted := s.desired.Settings[name]
		switch {
		case !wanted || want != refused.value:
			delete(s.cache.settings.refused[m.Name], name)
		case m.SQL.PersistedIgnored || undone(s, name, want): // it is taken out everywhere, and that is told
		case r.Clock.Since(refused.at) < settingPauseMost:
			m.SQL.Persisted[name] = want
			values[name], whys = want, append(whys, refused.why)
		}
	}
	if len(whys) > 0 {
		action := topology.ApplySettings{Member: m.Name, Want: values}
		s.unmet = append(s.unmet, topology.Finding{Reason: v1alpha1.ReasonSettingRefused, Message: action.String() + ": " + settingsRefused(whys)})
	}
}

// undone says whether a setting was taken out because some member did not start well with it, or with others beside it.
func undone(s *pass, name, value string) bool {
	for _, rec := range s.records().Members {
		if slices.Contains(strings.Split(rec.Undone, "\n"), name+"="+value) {
			return true
		}
	}
	return false
}

// settingsRefused says why settings were refused, and what to do.
func settingsRefused(whys []string) string {
	return strings.Join(whys, "; ") + "; change it in spec.mysqld"
}

// refusedDatabase says whether MySQL refused a while ago what EnsureDatabase would do now, and tells of it. A cluster whose
// application has no account yet is not Ready without.
func (r *mysqlObserver) refusedDatabase(s *pass) bool {
	refused := s.cache.settings.refusedPassword
	if s.records().Database == "" || refused.problem == nil || refused.key != databaseKey(s) || r.Clock.Since(refused.at) >= settingPauseMost {
		return false
	}
	action := topology.EnsureDatabase{Member: s.observed.Records.Bootstrapped}
	s.unmet = append(s.unmet, topology.Finding{Reason: refused.problem.Reason, Message: action.String() + ": " + refused.problem.Message})
	return true
}
