package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/api/v1alpha1"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/internal/topology"
)

// readSettings reports the settings of the spec that are ignored: the API server refuses them now, and took them earlier.
func readSettings(s *pass.Pass) {
	ignored := settings.NotTaken(s.Cluster.Spec.Settings())
	if len(ignored) == 0 || s.Deleting() {
		return
	}
	var whys, fields []string
	for _, name := range slices.Sorted(maps.Keys(ignored)) {
		whys, fields = append(whys, ignored[name]), append(fields, v1alpha1.SettingFields(name))
	}
	s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("settings that are not accepted are ignored: %s. Change or remove %s",
		strings.Join(whys, "; "), strings.Join(fields, ", "))})
}

// readMonitoring reports an interval that is longer than the API server accepts now, and that the PodMonitor does not get.
func readMonitoring(s *pass.Pass) {
	effective := s.Cluster.EffectiveMonitoring()
	if effective == nil || s.Deleting() {
		return
	}
	if asked := s.Cluster.Spec.Monitoring.Interval; asked != nil && asked.Duration > effective.Interval.Duration {
		s.Unmet = append(s.Unmet, topology.Finding{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
			"spec.monitoring.interval of %s is longer than Prometheus keeps a series without a sample: the PodMonitor has %s instead. Set at most %[2]s",
			asked.Duration, effective.Interval.Duration)})
	}
}

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
