// Package aws holds the IAM policies that docs/aws.md shows, byte for byte.
package aws

import "embed"

// Policies are the files: operator.json and backup.json for the identities of the operator and of the backup pods, operator-trust.json
// for the operator's role with IRSA, and tenant-trust.json for a role that spec.aws.roleARN names.
//
//go:embed *.json
var Policies embed.FS
