#!/usr/bin/env bash
# Installs the Debian packages that the build, the tests and the lab call, and only those that are missing.
# Needs root when something is missing. Go is expected to be there: go.mod says which version.
set -euo pipefail

# command or file that shows that a package is there -> the package
needs=(
  git:git
  make:make
  shellcheck:shellcheck
  openssl:openssl
  gcc:gcc                     # the race detector is C
  /usr/include/stdio.h:libc6-dev
  mmdebstrap:mmdebstrap       # root file systems of the lab's instances
  ip:iproute2                 # network namespaces, bridge and veth pairs
  nft:nftables                # partitions between instances, masquerading
  iptables:iptables           # what kube-proxy and the CNI plug-ins call
  mkfs.xfs:xfsprogs           # data volumes; xfs_io cuts an instance's power
  losetup:mount               # volumes are files behind loop devices
  nsenter:util-linux          # with setpriv and unshare
  dpkg-deb:dpkg
  /etc/ssl/certs/ca-certificates.crt:ca-certificates
  zstd:zstd                   # the dump by hand that ours is compared with
  curl:curl                   # these six are what an instance downloads and verifies MySQL with
  xz:xz-utils
  gpg:gpg
  gpg-agent:gpg-agent
  gpgv:gpgv
  sqv:sqv
)

missing=()
for need in "${needs[@]}"; do
  command=${need%%:*}
  [[ $command == /* && -e $command ]] || PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null || missing+=("${need#*:}")
done

command -v go >/dev/null || {
  echo "deps: Go is not installed; install the version that go.mod names and put it into PATH" >&2
  exit 1
}

if ((${#missing[@]} == 0)); then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "deps: missing and not to be had without apt-get: ${missing[*]}" >&2
  exit 1
fi
if ((EUID != 0)); then
  echo "deps: run as root, or install: ${missing[*]}" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y --no-install-recommends "${missing[@]}"; }

echo "deps: installing ${missing[*]}"
# The package lists may be absent or stale on a fresh machine: refresh them only when the first try fails.
install || { apt-get update && install; }
