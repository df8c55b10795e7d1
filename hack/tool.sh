#!/usr/bin/env bash
# Prints the path of a development tool, after building it when it is not in the cache.
#
#   hack/tool.sh NAME [PROGRAM]
#
# The version is the one that hack/tools/NAME/go.mod pins with its "tool" lines. A tool lives in its own Go module, so that
# its dependencies never meet the operator's; a module may pin several programs of one release, of which PROGRAM picks one
# (default: NAME). They are kept in $NAIROBI_CACHE/NAME-VERSION-GOVERSION (default folder ~/.cache/nairobi-mysql): linters
# refuse code that is newer than the Go they were built with, and generators write the name that they were called by.
# Build tags and linker flags, where a tool needs some, are in hack/tools/NAME/tags and ldflags (@version@ is the version).
set -euo pipefail

name=${1:?usage: hack/tool.sh NAME [PROGRAM]}
program=${2:-$name}
module="$(cd "$(dirname "$0")" && pwd)/tools/$name"
cache=${NAIROBI_CACHE:-$HOME/.cache/nairobi-mysql}

# Both forms of the directive: one line, or a block in brackets.
mapfile -t packages < <(awk '$1 == "tool" && $2 != "(" { print $2 } $1 == ")" { block = 0 } block { print $1 }
  $1 == "tool" && $2 == "(" { block = 1 }' "$module/go.mod")
version=$(cd "$module" && go list -f '{{.Module.Version}}' "${packages[0]}")
entry="$cache/$name-$version-$(go env GOVERSION)"

if [[ ! -x $entry/$program ]]; then
  echo "building $name $version" >&2
  mkdir -p "$cache"
  fresh=$(mktemp -d "$entry.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  tags=$(cat "$module/tags" 2>/dev/null || true)
  ldflags="-s -w $(cat "$module/ldflags" 2>/dev/null || true)"
  # A compiler that collects garbage less often is an eighth faster; the limit keeps it small on a small machine. Without the
  # debugging information, which the linker would leave out, it is a seventh faster.
  (cd "$module" && GOGC=400 GOMEMLIMIT=1536MiB CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -tags="$tags" -ldflags="${ldflags//@version@/$version}" -o "$fresh/" "${packages[@]}")
  # Somebody else may have built it meanwhile: theirs is as good.
  mv -T "$fresh" "$entry" 2>/dev/null || [[ -x $entry/$program ]]
fi
[[ -x $entry/$program ]] || { echo "hack/tool.sh: $name has no program $program" >&2; exit 1; }
echo "$entry/$program"
