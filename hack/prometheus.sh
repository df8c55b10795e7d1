#!/usr/bin/env bash
# Prints the path of a program of Prometheus': promtool, prometheus or prometheus-alertmanager.
#
#   hack/prometheus.sh PROGRAM
#
# It is the one in PATH, or Debian's, kept in $NAIROBI_CACHE/PACKAGE-VERSION (default folder ~/.cache/nairobi-mysql). Debian's packages are
# only unpacked: installing them would start servers.
set -euo pipefail

program=${1?usage: hack/prometheus.sh PROGRAM}
command -v "$program" && exit

case $program in
  promtool | prometheus) package=prometheus ;;
  prometheus-alertmanager) package=prometheus-alertmanager ;;
  *)
    echo "no package of Prometheus' has $program" >&2
    exit 2
    ;;
esac
cache=${NAIROBI_CACHE:-$HOME/.cache/nairobi-mysql}
candidate() { apt-cache show --no-all-versions "$package" 2>/dev/null | awk '$1 == "Version:" { print $2; exit }'; }

version=$(candidate || true)
if [[ -z $version ]]; then
  apt-get update >&2
  version=$(candidate)
fi
entry="$cache/$package-$version"
if [[ ! -x $entry/bin/$program ]]; then
  echo "fetching $package $version" >&2
  mkdir -p "$cache"
  fresh=$(mktemp -d "$entry.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  chmod 755 "$fresh"
  # The lists may be stale on a fresh machine: refresh them only when the first try fails.
  (cd "$fresh" && { apt-get download -q "$package=$version" || { apt-get update && apt-get download -q "$package"; }; }) >&2
  dpkg-deb --fsys-tarfile "$fresh/$package"_*.deb | tar -x -C "$fresh" --strip-components=2 --wildcards './usr/bin' './usr/share/prometheus*'
  rm "$fresh/$package"_*.deb
  # Somebody else may have fetched it meanwhile: theirs is as good.
  mv -T "$fresh" "$entry" 2>/dev/null || [[ -x $entry/bin/$program ]]
fi
echo "$entry/bin/$program"
