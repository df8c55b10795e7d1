//go:build tools

// Package tools pins the CoreDNS that answers names in the lab's cluster.
package tools

import (
	_ "github.com/coredns/coredns"
)
