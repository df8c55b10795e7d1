package settings

import "flag"

// Update rewrites what is generated: go test ./internal/settings -update.
var Update = flag.Bool("update", false, "rewrite what is generated")

// InForceValues is inForce, for the tests that ask servers.
var InForceValues = inForce
