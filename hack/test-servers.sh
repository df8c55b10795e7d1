#!/usr/bin/env bash
# Runs Go tests that talk to real servers: an API server, mysqld, the lab's EC2 API and S3.
#
#   hack/test-servers.sh "PACKAGE..." [ARGUMENT OF GO TEST...]
#
# A test that fails is run once more, alone. One that passes then fails nothing, but it is named at the end, and in the file
# that NAIROBI_UNSTABLE names: a test that fails once in a while is a defect, of the test or of what it tests, and not to be lived
# with. More than three that fail, a data race and a package that does not end by itself are never tried again.
#
# With NAIROBI_SLICE=4, as in CI, every fourth test of the packages is run, others with each NAIROBI_SEED, unless -run says which.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=${1?usage: hack/test-servers.sh "PACKAGE..." [ARGUMENT OF GO TEST...]}
shift
if [[ -z $packages ]]; then
  exit 0
fi
gotestsum=$(hack/tool.sh gotestsum)

# slice prints a pattern of every NAIROBI_SLICE-th test.
slice() {
  local wanted folders
  read -ra wanted <<<"$packages"
  mapfile -t folders < <(go list -f '{{ if or .TestGoFiles .XTestGoFiles }}{{ .Dir }}{{ end }}' "${wanted[@]}")
  find "${folders[@]}" -maxdepth 1 -name '*_test.go' -exec grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' {} + |
    awk '{ print $2 }' | sort -u |
    awk -v of="$NAIROBI_SLICE" -v seed="${NAIROBI_SEED:-0}" 'NR % of == seed % of { printf "%s%s", separator, $0; separator = "|" }'
}

format=standard-quiet chosen=
for argument; do
  case $argument in
    -v) format=standard-verbose ;;
    -run | -run=*) chosen=yes ;;
  esac
done
if [[ ${NAIROBI_SLICE:-1} != 1 && -z $chosen ]]; then
  set -- -run "^($(slice))\$" "$@"
  echo "one of every $NAIROBI_SLICE tests, NAIROBI_SEED=${NAIROBI_SEED:-0}"
fi
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
