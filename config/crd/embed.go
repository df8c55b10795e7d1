// Package crd holds the CRDs that belong to this build.
package crd

import "embed"

// Bases are the CRDs, generated from api/v1alpha1.
//
//go:embed bases/*.yaml
var Bases embed.FS
