package observe

import (
	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// refusals are the settings of the spec that a member's mysqld refused a short while ago, and those that it has no room for. Once in a
// while, or as soon as something else is wanted, the former are tried again.
func (r *Database) refusals(s *pass.Pass, m *topology.Member) map[string]topology.RefusedSetting {
	recent := oversized(s, m)
	for name, refused := range s.Cache.Settings.Refusals(m.Name) {
		switch want, wanted := s.Desired.Settings[name]; {
		case !wanted || want != refused.Value:
			s.Cache.Settings.ForgetRefusal(m.Name, name)
		case r.Clock.Since(refused.At) < pass.SettingPauseMost:
			recent[name] = topology.RefusedSetting{Value: refused.Value, Why: refused.Why}
		}
	}
	return recent
}

// refusedDatabase says whether what EnsureDatabase would do now was refused a while ago, and reports it. A cluster whose application has no
// account yet, because its password is refused, is not Ready without.
func (r *Database) refusedDatabase(s *pass.Pass) bool {
	refused := s.Cache.Settings.RefusedDatabase
	if refused.Problem == nil || refused.Key != DatabaseRequest(s) || r.Clock.Since(refused.At) >= pass.SettingPauseMost {
		return false
	}
	if s.Records().Database == "" && refused.Problem.Reason == v1alpha1.ReasonPasswordRefused {
		return false
	}
	action := topology.EnsureDatabase{Member: s.Observed.Records.Bootstrapped}
	s.Unmet = append(s.Unmet, topology.Finding{Reason: refused.Problem.Reason, Message: action.String() + ": " + refused.Problem.Message})
	return true
}
