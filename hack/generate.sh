#!/usr/bin/env bash
# Writes what is generated from the Go code: deep copies and apply configurations beside the API's types, CRDs, the
# operator's ClusterRole, the webhook configurations and the alerts under config/.
set -euo pipefail
cd "$(dirname "$0")/.."

gen=$(hack/tool.sh controller-gen)

# Nothing is left of a type that is gone.
rm -rf api/v1alpha1/applyconfiguration config/crd/bases
"$gen" object:headerFile=hack/boilerplate.go.txt applyconfiguration:headerFile=hack/boilerplate.go.txt \
  crd:maxDescLen=2048 paths=./api/... output:crd:artifacts:config=config/crd/bases
"$gen" rbac:roleName=nairobi-mysql-manager-role paths="{./controllers/...,./}" output:rbac:artifacts:config=config/rbac
"$gen" rbac:roleName=nairobi-mysql-webhook-certificates-role webhook paths=./internal/webhook/... \
  output:rbac:artifacts:config=config/webhook-certificates output:webhook:artifacts:config=config/webhook
go run ./hack/alerts config/prometheus
go run ./hack/dashboards config/grafana
