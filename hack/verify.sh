#!/usr/bin/env bash
# Fails when the CRDs break what the last release stored, or when generated files are not what the code says: generates them into the tree and compares with what was there.
# In a clean clone that is what is committed; in a work tree it is what you have.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
readonly generated=(api config bundle bundle.Dockerfile catalog)
cp -a "${generated[@]}" "$before"

make bundle catalog
# Objects and clients of the last release go on working.
go run ./hack/crds -released config/crd/released -present config/crd/bases

stale=
for path in "${generated[@]}"; do
  git --no-pager diff --no-index --exit-code -- "$before/$path" "$path" || stale=yes
done
if [[ -n $stale ]]; then
  echo "verify: generated files were stale; they are up to date in the tree now, commit them" >&2
  exit 1
fi
