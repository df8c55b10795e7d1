#!/usr/bin/env bash
# Copies the tarball of a MySQL release with its signature from MySQL's download site to a mirror, in the same layout.
#
#   hack/mirror-mysql.sh VERSION ARCHITECTURE DESTINATION
#   hack/mirror-mysql.sh 8.4.6 x86_64 s3://my-mirror/mysql
#   hack/mirror-mysql.sh 8.4.6 aarch64 /srv/www/mysql
#
# DESTINATION is an S3 address, for which it calls the AWS CLI, or a folder. Name it to clusters as spec.aws.download.mirror. The
# signature is verified by the keys of this repository, or by those in the file that MYSQL_KEYS names. MYSQL_SITE is where to copy
# from, MySQL's own site unless it is set.
set -euo pipefail

fail() {
  echo "mirror-mysql: $*" >&2
  exit 1
}

[[ $# == 3 ]] || fail "usage: $0 VERSION x86_64|aarch64 s3://BUCKET/FOLDER|FOLDER"
version=$1 destination=${3%/}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$version is no version of MySQL; write for example 8.4.6"
case $2 in
  x86_64) architecture=x86_64-minimal ;;
  aarch64) architecture=aarch64 ;;
  *) fail "there is no architecture $2; it is x86_64 or aarch64" ;;
esac
site=${MYSQL_SITE:-https://cdn.mysql.com}
keys=${MYSQL_KEYS:-$(dirname "$0")/../internal/releasekeys/mysql.asc}
series=${version%.*} name=mysql-$version-linux-glibc2.28-$architecture.tar.xz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch downloads a file of the release from where it is: the current place, or the archives.
fetch() {
  local folder
  for folder in "Downloads/MySQL-$series" "archives/mysql-$series"; do
    if curl -fsSL --retry 5 --connect-timeout 10 -o "$work/$1" "$site/$folder/$1" 2>"$work/log"; then
      return
    fi
  done
  fail "$site has $1 neither in Downloads/MySQL-$series nor in archives/mysql-$series: $(cat "$work/log")"
}

# store puts a file below the destination. What is mirrored does not move, so the archives are its only place.
store() {
  local to=$destination/archives/mysql-$series
  if [[ $destination == s3://* ]]; then
    aws s3 cp --only-show-errors "$work/$1" "$to/$1"
  else
    mkdir -p "$to"
    cp "$work/$1" "$to/$1.new"
    mv -f "$to/$1.new" "$to/$1"
  fi
}

fetch "$name.asc"
fetch "$name"
gpg --batch --quiet --dearmor <"$keys" >"$work/keys"
# gpgv accepts a key that has expired; members do not.
gpgv --homedir "$work" --keyring "$work/keys" --status-fd 1 "$work/$name.asc" "$work/$name" >"$work/status" 2>"$work/log" || :
grep -q '^\[GNUPG:\] GOODSIG ' "$work/status" || fail "the signature of $name is not a good one by the keys in $keys, so nothing is stored: $(cat "$work/log")"
# The signature last: members look for it first.
store "$name"
store "$name.asc"
echo "mirror-mysql: $name is in $destination"
