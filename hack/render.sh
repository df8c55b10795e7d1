#!/usr/bin/env bash
# Prints the manifests of a kustomization, with the operator's image replaced when one is given.
#
#   hack/render.sh config/default [IMAGE]
#
# The kustomization in the tree is left as it is.
set -euo pipefail

folder=${1:?usage: hack/render.sh FOLDER [IMAGE]}
image=${2:-}
# What the manifests in the tree call the operator's image.
readonly placeholder=ghcr.io/alx-ke/nairobi-mysql-operator

cd "$(dirname "$0")/.."
if [[ -z $image ]]; then
  exec hack/kubectl.sh kustomize "$folder"
fi

# An overlay of the folder, beside it, because kustomize accepts only relative paths.
overlay=$(mktemp -d "$(dirname "$folder")/.render.XXXXXX")
trap 'rm -rf "$overlay"' EXIT
# name@digest or name:tag, where the name may begin with host:port; a name alone is of the tag latest.
name=${image%%@*} version="newTag: \"latest\""
if [[ $image == *@* ]]; then
  version="digest: \"${image#*@}\""
elif [[ ${image##*/} == *:* ]]; then
  name=${image%:*} version="newTag: \"${image##*:}\""
fi
cat >"$overlay/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../$(basename "$folder")
images:
  - name: $placeholder
    newName: $name
    $version
YAML
hack/kubectl.sh kustomize "$overlay"
