#!/usr/bin/env bash
# Writes a file-based catalog and has opm validate it.
#
#   hack/catalog.sh FOLDER TEMPLATE IMAGE=BUNDLE...
#
# The catalog is FOLDER/nairobi-mysql-operator/catalog.yaml, made from TEMPLATE; a bundle that the template calls IMAGE is taken
# from the folder BUNDLE. The others are out, and stay as the catalog that is there has them; one that it lacks comes from its registry.
set -euo pipefail

folder=${1:?usage: hack/catalog.sh FOLDER TEMPLATE IMAGE=BUNDLE...}
template=${2:?TEMPLATE}
shift 2

cd "$(dirname "$0")/.."
opm=$(hack/tool.sh opm)
target=$folder/nairobi-mysql-operator
mkdir -p "$target"
go run ./hack/catalog -opm "$opm" -template "$template" -kept "$target/catalog.yaml" "$@" >"$target/catalog.yaml.new"
mv "$target/catalog.yaml.new" "$target/catalog.yaml"
"$opm" validate "$folder"
