package observe

import (
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// What mysqld refuses is wanted as much in the next pass, and in all that follow until a person changes it. Nothing else may wait for
// that: no restart, no new machine, no switchover. So the brain is shown as done what was refused, and once in a while, or as soon as
// something else is wanted, it is shown what is the case, and it is tried again.

// overlookRefused shows settings as persisted that were refused a while ago, and tells of them.
func (r *Database) overlookRefused(s *pass.Pass, m *topology.Member) {
	refusals := s.Cache.Settings.Refusals(m.Name)
	values, whys := map[string]string{}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		refused := refusals[name]
		want, wanted := s.Desired.Settings[name]
		switch {
		case !wanted || want != refused.Value:
			s.Cache.Settings.ForgetRefusal(m.Name, name)
		case m.SQL.PersistedIgnored || undone(s, name, want): // it is taken out everywhere, and that is told
		case r.Clock.Since(refused.At) < pass.SettingPauseMost:
			m.SQL.Persisted[name] = want
			values[name], whys = want, append(whys, refused.Why)
		}
	}
	if len(whys) > 0 {
		action := topology.ApplySettings{Member: m.Name, Want: values}
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonSettingRefused, Message: action.String() + ": " + SettingsRefused(whys)})
	}
}

// undone says whether a setting was taken out because some member did not start well with it, or with others beside it.
func undone(s *pass.Pass, name, value string) bool {
	for _, rec := range s.Records().Members {
		if slices.Contains(strings.Split(rec.Undone, "\n"), name+"="+value) {
			return true
		}
	}
	return false
}

// SettingsRefused says why settings were refused, and what to do.
func SettingsRefused(whys []string) string {
	return strings.Join(whys, "; ") + "; change it in spec.mysqld"
}

// refusedDatabase says whether MySQL refused a while ago what EnsureDatabase would do now, and tells of it. A cluster whose
// application has no account yet is not Ready without.
func (r *Database) refusedDatabase(s *pass.Pass) bool {
	refused := s.Cache.Settings.RefusedPassword
	if s.Records().Database == "" || refused.Problem == nil || refused.Key != DatabaseKey(s) || r.Clock.Since(refused.At) >= pass.SettingPauseMost {
		return false
	}
	action := topology.EnsureDatabase{Member: s.Observed.Records.Bootstrapped}
	s.Unmet = append(s.Unmet, topology.Finding{Reason: refused.Problem.Reason, Message: action.String() + ": " + refused.Problem.Message})
	return true
}
