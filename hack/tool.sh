#!/usr/bin/env bash
# Prints the path of a development tool, after building it when it is not in the cache.
#
#   hack/tool.sh NAME
#
# The version is the one that hack/tools/NAME/go.mod pins with its "tool" line. A tool lives in its own Go module, so that
# its dependencies never meet the operator's. It is kept as $NAIROBI_CACHE/NAME-VERSION-GOVERSION/NAME (default folder
# ~/.cache/nairobi-mysql): linters refuse code that is newer than the Go they were built with, and generators write the
# name that they were called by.
set -euo pipefail

name=${1:?usage: hack/tool.sh NAME}
module="$(cd "$(dirname "$0")" && pwd)/tools/$name"
cache=${NAIROBI_CACHE:-$HOME/.cache/nairobi-mysql}

package=$(awk '$1 == "tool" { print $2; exit }' "$module/go.mod")
version=$(cd "$module" && go list -f '{{.Module.Version}}' "$package")
entry="$cache/$name-$version-$(go env GOVERSION)"

if [[ ! -x $entry/$name ]]; then
  echo "building $name $version" >&2
  mkdir -p "$cache"
  fresh=$(mktemp -d "$entry.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  (cd "$module" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$fresh/$name" "$package")
  # Somebody else may have built it meanwhile: theirs is as good.
  mv -T "$fresh" "$entry" 2>/dev/null || [[ -x $entry/$name ]]
fi
echo "$entry/$name"
