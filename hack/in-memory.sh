#!/usr/bin/env bash
# Runs a command that finds an empty file system of a bounded size in memory at /dev/shm, and has its temporary files there (root).
#
#   hack/in-memory.sh SIZE COMMAND [ARGUMENT...]
#
# The file system belongs to a mount namespace of the command's own: the kernel frees it with the last process there, however
# that ends. The command ends with whoever started it.
set -euo pipefail

size=${1?usage: hack/in-memory.sh SIZE COMMAND [ARGUMENT...]}
shift
# shellcheck disable=SC2016 # the inner shell expands them
exec setpriv --pdeathsig KILL unshare --mount --propagation private \
  bash -c 'mount -t tmpfs -o "size=$0,mode=1777" tmpfs /dev/shm && TMPDIR=/dev/shm exec "$@"' "$size" "$@"
