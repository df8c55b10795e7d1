#!/usr/bin/env bash
# Runs Go tests that talk to real servers: an API server, mysqld, the lab's EC2 API and S3.
#
#   hack/test-servers.sh "PACKAGE..." [ARGUMENT OF GO TEST...]
#
# A test that fails is run once more, alone. One that passes then fails nothing, but it is named at the end, and in the file
# that NAIROBI_UNSTABLE names: a test that fails once in a while is a defect, of the test or of what it tests, and not to be lived
# with. More than three that fail, a data race and a package that does not end by itself are never tried again.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${1?usage: hack/test-servers.sh "PACKAGE..." [ARGUMENT OF GO TEST...]}
shift
if [[ -z $packages ]]; then
  exit 0
fi
gotestsum=$(hack/tool.sh gotestsum)

format=standard-quiet
for argument; do
  if [[ $argument == -v ]]; then
    format=standard-verbose
  fi
done
report=$(mktemp)
races=$(mktemp -d) # gotestsum shows what a test that fails printed, and a race is reported beside another
export GORACE="${GORACE:-} log_path=$races/race"
trap 'rm -rf "$report" "$races"' EXIT
code=0
"$gotestsum" --format "$format" --hide-summary skipped --packages "$packages" \
  --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
  --rerun-fails-report "$report" -- "$@" || code=$?
if [[ -s $report ]]; then
  printf '\nFailed and run again:\n%s\n' "$(cat "$report")"
  if [[ -n ${NAIROBI_UNSTABLE:-} ]]; then
    cat "$report" >>"$NAIROBI_UNSTABLE"
  fi
fi
if compgen -G "$races/*" >/dev/null; then
  printf '\nData races:\n'
  cat "$races"/*
  code=$((code == 0 ? 1 : code))
fi
exit "$code"
