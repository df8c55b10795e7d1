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
