// Package execute gives the actions of a plan their effect. It implements the ports of internal/engine with EC2, MySQL and Kubernetes.
package execute

import (
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/announce"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/backups"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/restore"
)

// Executor gives the actions of a plan their effect: it is where the ports of internal/engine are made.
type Executor struct {
	*pass.Ports
	Announcer *announce.Announcer
	Database  *observe.Database
	Archive   *backups.Archive
	Restorer  *restore.Restorer
}
