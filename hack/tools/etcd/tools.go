//go:build tools

// Package tools pins the etcd that the lab and envtest run.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
