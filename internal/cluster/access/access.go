// Package access finds the way to the AWS account of a cluster: what the administrator's policy allows, and with which credentials.
package access

import (
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/release"
)

// Access finds the way to the AWS account of a cluster, and asks whether the policy allows it.
type Access struct {
	*pass.Ports
	Releaser *release.Releaser
}
