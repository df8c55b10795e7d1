#!/usr/bin/env bash
# Writes what is generated from the Go code: deep copies and apply configurations beside the API's types, CRDs, the
# operator's ClusterRole, the webhook configurations, the alerts and the dashboards under config/.
set -euo pipefail
cd "$(dirname "$0")/.."

gen=$(hack/tool.sh controller-gen)

# A copy of the API's module that has nothing generated: so nothing is left of a type that is gone, and the tree compiles meanwhile,
# also after an interrupt. bin/ is on the file system of the tree, where mv renames.
mkdir -p bin
copy=$(mktemp -d bin/generate.XXXXXX)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/hack"
cp -r go.mod go.sum api "$copy"
cp hack/boilerplate.go.txt "$copy/hack"
rm -rf "$copy/api/v1alpha1/applyconfiguration"
(cd "$copy" && "$gen" object:headerFile=hack/boilerplate.go.txt applyconfiguration:headerFile=hack/boilerplate.go.txt \
  crd:maxDescLen=2048 paths=./api/... output:crd:artifacts:config=config/crd/bases)
for path in api/v1alpha1/applyconfiguration api/v1alpha1/zz_generated.deepcopy.go config/crd/bases; do
  if [[ -e $path ]]; then mv "$path" "$copy/old"; fi
  mv "$copy/$path" "$path"
  rm -rf "$copy/old"
done
"$gen" rbac:roleName=nairobi-mysql-manager-role paths="{./controllers/...,./}" output:rbac:artifacts:config=config/rbac
"$gen" rbac:roleName=nairobi-mysql-webhook-certificates-role webhook paths=./internal/webhook/... \
  output:rbac:artifacts:config=config/webhook-certificates output:webhook:artifacts:config=config/webhook
go run ./hack/alerts config/prometheus
go run ./hack/dashboards config/grafana
