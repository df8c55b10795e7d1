// Package rbac holds what the operator may do in Kubernetes.
package rbac

import _ "embed"

// Roles are the operator's ClusterRole, and its Role in its own namespace, generated from the markers in controllers.
//
//go:embed role.yaml
var Roles []byte
