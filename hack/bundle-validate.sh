#!/usr/bin/env bash
# Validates a bundle (default: bundle/) by every check that OperatorHub's pipeline makes of its files. A warning fails it too.
set -euo pipefail
cd "$(dirname "$0")/.."

bundle=${1:-bundle}
sdk=$(hack/tool.sh operator-sdk)
# operator-sdk says this of its own validator, whatever it validates; the successors it speaks of are in the suite.
readonly about_itself='The \"operatorhub\" validator is deprecated'

code=0
for selector in suite=operatorframework name=operatorhub name=good-practices; do
  said=$("$sdk" bundle validate "$bundle" --select-optional "$selector" 2>&1) || code=1
  printf '%s: %s\n' "$selector" "$(grep -o 'All validation tests have completed successfully' <<<"$said" || echo 'not valid')"
  grep -E 'level=(warning|error|fatal)|^Error' <<<"$said" | grep -vF "$about_itself" && code=1
done
exit "$code"
