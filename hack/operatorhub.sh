#!/usr/bin/env bash
# Lays a bundle out as a pull request to OperatorHub's repositories (community-operators, community-operators-prod) wants it:
# FOLDER/operators/nairobi-mysql-operator/ci.yaml, and the bundle in a folder of its version beside it.
#
#   hack/operatorhub.sh BUNDLE FOLDER
#
# They refuse an operator whose image goes by a tag; so does this.
set -euo pipefail

bundle=${1:?usage: hack/operatorhub.sh BUNDLE FOLDER}
folder=${2:?FOLDER}
readonly package=nairobi-mysql-operator
readonly csv=$bundle/manifests/$package.clusterserviceversion.yaml

image=$(sed -n 's/^    containerImage: //p' "$csv")
if [[ ! $image =~ @sha256:[0-9a-f]{64}$ ]]; then
  echo "operatorhub: the bundle runs ${image:-no image}, which does not go by a digest: make bundle PUBLISHED_IMAGE=name@sha256:..." >&2
  exit 1
fi
version=$(sed -n 's/^  version: //p' "$csv")
target=$folder/operators/$package
rm -rf "${target:?}/${version:?}"
mkdir -p "$target/$version"
cp -r "$bundle/manifests" "$bundle/metadata" "$bundle/tests" "$target/$version/"
# A catalog's edges there are those of `replaces` in each ClusterServiceVersion; reviewers may merge without a maintainer.
cat >"$target/ci.yaml" <<'YAML'
---
updateGraph: replaces-mode
reviewers:
  - alx-ke
YAML
echo "$target/$version"
