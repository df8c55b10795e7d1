#!/usr/bin/env bash
# Makes the tree that of the release after the present one: the Makefile's version, and the catalog's template, whose channel has the new
# release replace the present one. `make bundle catalog` then writes the rest.
#
#   hack/release.sh PRESENT NEXT
#
# Both without a v. NEXT must be higher than PRESENT, and PRESENT in the template.
set -euo pipefail

present=${1:?usage: hack/release.sh PRESENT NEXT}
next=${2:?usage: make next-release NEXT=x.y.z}
readonly package=nairobi-mysql-operator template=catalog/template.yaml
cd "$(dirname "$0")/.."

if [[ ! $next =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
  echo "next-release: $next is no version x.y.z" >&2
  exit 1
fi
if [[ $next == "$present" || $(printf '%s\n' "$present" "$next" | sort -V | tail -n 1) != "$next" ]]; then
  echo "next-release: $next does not follow $present, the version of the Makefile" >&2
  exit 1
fi
if ! grep -qx " *- name: $package.v$present" "$template"; then
  echo "next-release: $template has no $present to replace" >&2
  exit 1
fi

# The image of a release that is to come has no digest yet.
sed -Ei "s|^VERSION \?= .*|VERSION ?= $next|; s|^PUBLISHED_IMAGE \?= .*|PUBLISHED_IMAGE ?= \$(IMAGE)|" Makefile
awk -v name="$package.v$next" -v replaces="$package.v$present" '
  /schema: olm.bundle/ && !done { printf "      - name: %s\n        replaces: %s\n", name, replaces; done = 1 }
  { print }' "$template" >"$template.new"
printf '  - schema: olm.bundle\n    image: ghcr.io/alx-ke/%s-bundle:v%s\n' "$package" "$next" >>"$template.new"
mv "$template.new" "$template"
