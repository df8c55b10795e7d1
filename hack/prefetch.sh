#!/usr/bin/env bash
# Fetches the Go modules that the tools and Kubernetes are built from, so that nobody waits for them later. Only what is needed is
# fetched. It says nothing, and what fails here fails again, and is told, where it is needed.
set -uo pipefail
cd "$(dirname "$0")/tools" || exit

# fetch NAME looks at all packages of a module's programs: those of the "tool" lines of its go.mod, or what its tools.go imports.
fetch() {
  local packages=tool
  [[ ! -f $1/tools.go ]] || packages=.
  (cd "$1" && nice go list -e -deps -tags tools "$packages") &>/dev/null || true
}

for name in golangci-lint controller-gen etcd kubernetes coredns versitygw operator-sdk opm actionlint; do
  fetch "$name"
done
