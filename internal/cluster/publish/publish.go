// Package publish shows clients where the members are: Services, EndpointSlices, the application's Secret.
package publish

import (
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/objects"
	"github.com/alx-ke/nairobi-mysql-operator/internal/cluster/pass"
)

// Publisher leads clients to the members.
type Publisher struct {
	*pass.Ports
	Objects *objects.Objects
}
