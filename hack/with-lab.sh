#!/usr/bin/env bash
# Runs a command with the lab up, and takes the lab away afterwards, also after a failure or Ctrl-C.
#
#   hack/with-lab.sh COMMAND [ARGUMENT...]
#
# A lab that was up before is used and left up. KEEP_LAB=1 leaves it up in any case, to look around in after a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

lab=$(mktemp -d)/lab
go build -o "$lab" ./test/lab

finish() {
  local code=$?
  trap - EXIT INT TERM
  [[ -n ${mine:-} && -z ${KEEP_LAB:-} ]] && { "$lab" down || code=1; }
  rm -rf "$(dirname "$lab")"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if ! "$lab" status >/dev/null 2>&1; then
  mine=yes
  "$lab" up
fi
"$@"
