#!/usr/bin/env bash
# Fails when the bundle of a release changed, when the CRDs break what the last release stored, or when generated files are not what the code says: generates them into the tree and compares with what was there.
# In a clean clone that is what is committed; in a work tree it is what you have.
#
#   hack/verify.sh VERSION
set -euo pipefail
version=${1:?usage: hack/verify.sh VERSION}
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
readonly generated=(api config bundle bundle.Dockerfile catalog docs/install.md)
cp -a --parents "${generated[@]}" "$before"

make bundle catalog
# Objects and clients of the last release go on working.
go run ./hack/crds -released config/crd/released -present config/crd/bases

# A bundle that is out never changes: who has it installed is offered no other of the same version. A tag says which are out.
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null && ! git --no-pager diff --exit-code --stat "v$version" -- bundle; then
  echo "verify: the bundle of $version is released and changed since: make next-release NEXT=x.y.z" >&2
  exit 1
fi

stale=
for path in "${generated[@]}"; do
  git --no-pager diff --no-index --exit-code -- "$before/$path" "$path" || stale=yes
done
if [[ -n $stale ]]; then
  echo "verify: generated files were stale; they are up to date in the tree now, commit them" >&2
  exit 1
fi
