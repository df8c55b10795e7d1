#!/usr/bin/env bash
# Writes the OLM bundle of one version: bundle/ and bundle.Dockerfile below FOLDER.
#
#   hack/bundle.sh FOLDER VERSION IMAGE [REPLACES]
#
# VERSION without a v; REPLACES is the version before, empty for the first. The same tree gives the same bundle: the time of
# generation, which operator-sdk notes in createdAt, stays as it was while nothing else changes.
set -euo pipefail

folder=${1:?usage: hack/bundle.sh FOLDER VERSION IMAGE [REPLACES]}
version=${2:?VERSION}
image=${3:?IMAGE}
replaces=${4:-}
readonly package=nairobi-mysql-operator
readonly csv=bundle/manifests/$package.clusterserviceversion.yaml
# Before 1.0 there is one channel, for the curious; fast-v1 and stable-v1 come with what their names promise.
readonly channels=candidate-v0
# The first OpenShift that has Kubernetes 1.33, which the CSV asks for as minKubeVersion, and those after it.
readonly openshift=v4.20

cd "$(dirname "$0")/.."
sdk=$(hack/tool.sh operator-sdk)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# operator-sdk writes into the working directory, and takes the project's layout from the PROJECT file there.
cp PROJECT "$work"
hack/render.sh config/manifests "$image" |
  (cd "$work" && "$sdk" generate bundle --quiet --overwrite --package "$package" --version "$version" \
    --channels "$channels" --default-channel "${channels%%,*}")

# operator-sdk needs the webhook's Service to find the deployment behind it; OLM makes one of its own.
rm "$work/bundle/manifests/nairobi-mysql-webhook-service_v1_service.yaml"

# Which operator-sdk it was is no property of the bundle.
sed -i '/operators.operatorframework.io.metrics.builder/d; /operators.operatorframework.io\/builder/d' \
  "$work/bundle.Dockerfile" "$work/bundle/metadata/annotations.yaml" "$work/$csv"

# From minKubeVersion on. The pipeline of OpenShift's catalog refuses a bundle that names the one without the other.
sed -i "/bundle.package.v1/a\\  com.redhat.openshift.versions: $openshift" "$work/bundle/metadata/annotations.yaml"
sed -i "/bundle.package.v1/a LABEL com.redhat.openshift.versions=$openshift" "$work/bundle.Dockerfile"

go run ./hack/csv -bundle "$work/bundle" -icon config/manifests/icon.svg -version "$version" \
  -replaces "${replaces:+$package.v$replaces}"

if [[ -e $folder/$csv ]]; then
  created=$(grep -m1 '^    createdAt: ' "$folder/$csv")
  cp "$work/$csv" "$work/dated.yaml"
  sed -i "s|^    createdAt: .*|$created|" "$work/dated.yaml"
  if cmp --silent "$work/dated.yaml" "$folder/$csv"; then
    cp "$work/dated.yaml" "$work/$csv"
  fi
fi
rm -rf "${folder:?}/bundle"
cp -r "$work/bundle" "$folder/bundle"
cp "$work/bundle.Dockerfile" "$folder/bundle.Dockerfile"
