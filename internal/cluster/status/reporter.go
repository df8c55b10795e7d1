// Package status writes the status of a cluster: phase, conditions, members, the last promotion.
package status

import (
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// Reporter writes what is known of a cluster into its status.
type Reporter struct {
	*pass.Ports
	Announcer *announce.Announcer
	Backups   *backups.Backups
}
