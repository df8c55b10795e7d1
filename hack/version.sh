#!/usr/bin/env bash
# Writes the version of the Makefile wherever manifests and documentation say it. A part of `make generate`.
#
#   hack/version.sh VERSION
#
# VERSION without a v. What is written: tags of our images but that of the catalog, and the version that a ClusterExtension asks for.
set -euo pipefail

version=${1:?usage: hack/version.sh VERSION}
cd "$(dirname "$0")/.."
readonly number='[0-9]+\.[0-9]+\.[0-9]+'

sed -Ei "s|^( +newTag: )v$number\$|\1v$version|" config/manager/kustomization.yaml config/overlays/custom/kustomization.yaml
sed -Ei "s#(ghcr.io/alx-ke/nairobi-mysql-operator(-bundle)?:v)$number#\1$version#; s#^( +version: )$number\$#\1$version#" \
  config/samples/doctor.yaml docs/install.md
