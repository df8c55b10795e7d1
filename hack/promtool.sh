#!/usr/bin/env bash
# Prints the path of promtool: the one in PATH, or Debian's, kept in $NAIROBI_CACHE/promtool-VERSION (default folder
# ~/.cache/nairobi-mysql). Debian's package prometheus is only unpacked: installing it would start a server.
set -euo pipefail

command -v promtool && exit

cache=${NAIROBI_CACHE:-$HOME/.cache/nairobi-mysql}
candidate() { apt-cache show --no-all-versions prometheus 2>/dev/null | awk '$1 == "Version:" { print $2; exit }'; }

version=$(candidate || true)
if [[ -z $version ]]; then
  apt-get update >&2
  version=$(candidate)
fi
entry="$cache/promtool-$version"
if [[ ! -x $entry/promtool ]]; then
  echo "fetching promtool $version" >&2
  mkdir -p "$cache"
  fresh=$(mktemp -d "$entry.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  # The lists may be stale on a fresh machine: refresh them only when the first try fails.
  (cd "$fresh" && { apt-get download -q "prometheus=$version" || { apt-get update && apt-get download -q prometheus; }; }) >&2
  dpkg-deb --fsys-tarfile "$fresh"/prometheus_*.deb | tar -x -C "$fresh" --strip-components=3 ./usr/bin/promtool
  rm "$fresh"/prometheus_*.deb
  # Somebody else may have fetched it meanwhile: theirs is as good.
  mv -T "$fresh" "$entry" 2>/dev/null || [[ -x $entry/promtool ]]
fi
echo "$entry/promtool"
