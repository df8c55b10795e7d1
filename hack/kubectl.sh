#!/usr/bin/env bash
# Runs kubectl: the one that KUBECTL names, else the one in PATH, else the lab's, which is built when it is not in the cache.
set -euo pipefail

if [[ -n ${KUBECTL:-} ]]; then
  exec "$KUBECTL" "$@"
fi
if command -v kubectl >/dev/null; then
  exec kubectl "$@"
fi
assets=$(cd "$(dirname "$0")/.." && go run ./test/lab envtest-assets)
exec "$assets/kubectl" "$@"
