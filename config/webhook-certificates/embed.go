// Package certificates holds what the operator may do besides, where it makes the webhook's certificate itself.
package certificates

import _ "embed"

// Roles are a ClusterRole, and a Role in the operator's own namespace, generated from the markers in internal/webhook.
//
//go:embed role.yaml
var Roles []byte
