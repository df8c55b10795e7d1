# The Nairobi MySQL Operator. `make help` lists what there is.

SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The order of prerequisites is the order of work; the tools below use all cores themselves.
.NOTPARALLEL:

# What is built, and under which name. The version is said here alone: `make generate` writes it wherever else it stands, and
# `make next-release` sets it.
VERSION ?= 0.1.0
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
IMAGE   ?= ghcr.io/alx-ke/nairobi-mysql-operator:v$(VERSION)
# What the bundle and dist/ call it: once a release was pushed, its name by digest (name@sha256:...).
PUBLISHED_IMAGE ?= $(IMAGE)
# The images beside it, and the version that this one replaces, as the catalog's template says; empty for the first.
BUNDLE_IMAGE    ?= ghcr.io/alx-ke/nairobi-mysql-operator-bundle:v$(VERSION)
CATALOG_IMAGE   ?= ghcr.io/alx-ke/nairobi-mysql-operator-catalog:latest
SCORECARD_IMAGE ?= ghcr.io/alx-ke/nairobi-mysql-operator-scorecard:v$(VERSION)
REPLACES ?= $(shell sed -n '/name: nairobi-mysql-operator\.v$(VERSION)$$/ { n; s/^ *replaces: nairobi-mysql-operator\.v//p }' catalog/template.yaml)
PLATFORMS ?= linux/amd64,linux/arm64
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)

# Everything that is slow to make is kept here, by name and version.
export NAIROBI_CACHE ?= $(HOME)/.cache/nairobi-mysql
# Where a running lab keeps its state and its kubeconfig.
export NAIROBI_LAB ?= /var/lib/nairobi-lab

LAB := go run ./test/lab
# kubectl, from wherever it is to be had; KUBECTL=... names another.
KUBECTL_SH := hack/kubectl.sh

# Packages by what their tests need: an API server; parts of the lab (its EC2 API, real mysqld, root); or little more than Go.
ENVTEST_PKGS := ./api/... ./controllers/... ./internal/scrape/... ./internal/doctor/...
PARTS_PKGS   := ./internal/ec2/... ./internal/mysql/...
DUMP_PKGS    := ./internal/backup/...
LAB_PKGS     := ./test/lab/...
# The planner and what runs it; the simulation runs both in one goroutine.
PASS_PKGS    := ./internal/topology ./internal/engine ./internal/cluster/... ./internal/steps ./internal/leader
UNIT_PKGS     = $$(go list ./... | grep -vE '/(api|controllers|internal/ec2|internal/mysql|internal/backup|internal/scrape|internal/doctor|internal/topology|internal/engine|internal/cluster|internal/steps|internal/leader|test/lab)(/|$$)')
# The longest that one package's tests may take. The first run builds what the cache does not hold yet.
TEST_TIMEOUT ?= 45m
# Arguments for every `go test`, for example TESTFLAGS='-run Promotion -v'.
TESTFLAGS ?=
# Where goroutines share what decides about data, the race detector looks on; RACE= leaves it out, which takes a fifth less time.
RACE ?= -race
# `make lint` vets everything; a second time, with all that is imported, would be an eighth of a first compilation.
GO_TEST := go test -vet=off

##@ General

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z0-9_-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install the Debian packages that are missing (root).
	@hack/deps.sh

.PHONY: demo
demo: deps ## Bring up the lab and the operator, and a three-member cluster until Ready. Leaves the lab up.
	@go run ./test/demo

.PHONY: test
test: deps test-unit test-envtest test-parts test-lab e2e ## Everything that tests the operator, from pure functions to the lab.

##@ Development

.PHONY: generate
generate: ## Regenerate deep copies, CRDs, RBAC, webhooks, apply configurations, alerts and dashboards from the code.
	@hack/generate.sh
	@hack/version.sh "$(VERSION)"

.PHONY: manifests
manifests: generate ## The same as generate: code and manifests come from one run.

.PHONY: fmt
fmt: ## Format the code.
	@"$$(hack/tool.sh golangci-lint)" fmt

.PHONY: fmt-check
fmt-check: ## Fail when a file is not formatted.
	@"$$(hack/tool.sh golangci-lint)" fmt --diff

.PHONY: vet
vet: ## go vet, with the scenarios of the lab and its own tests.
	@go vet -tags e2e,lab ./...

.PHONY: lint
lint: ## golangci-lint, with the walls between the packages.
	@GOGC=400 GOMEMLIMIT=4GiB "$$(hack/tool.sh golangci-lint)" run

.PHONY: structure
structure: ## Measure how the packages are built, and fail when that got worse than hack/structure/limits.yaml allows.
	@go run ./hack/structure

.PHONY: structure-limits
structure-limits: ## Write the limits that the code keeps today.
	@go run ./hack/structure -write

.PHONY: actionlint
actionlint: ## Check the workflows of GitHub Actions.
	@"$$(hack/tool.sh actionlint)" -color=false

.PHONY: shellcheck
shellcheck: deps ## shellcheck on every script. What an instance runs is checked as rendered, by the tests of internal/bootstrap.
	@git ls-files -co --exclude-standard -- '*.sh' '.ci/run' ':!internal/bootstrap' | xargs -r shellcheck

.PHONY: verify
verify: ## Fail when generated files are not what the code says (code, CRDs, RBAC, webhooks, alerts, bundle, catalog), a released bundle changed, or the CRDs break the last release's objects.
	@hack/verify.sh "$(VERSION)"

.PHONY: released-crds
released-crds: ## Make the CRDs and samples of the tree those of the last release, which verify compares with. A part of releasing.
	@cp config/crd/bases/*.yaml config/crd/released/
	@cp $(addprefix config/samples/,mysql_v1alpha1_mysqlbackup.yaml mysql_v1alpha1_mysqlcluster.yaml restore-from-snapshot.yaml smallest.yaml) config/crd/released/samples/

.PHONY: build
build: ## The operator's binary, as bin/manager, and what exports metrics, as bin/exporter.
	@CGO_ENABLED=0 go build -trimpath -ldflags='$(LDFLAGS)' -o bin/manager .
	@CGO_ENABLED=0 go build -trimpath -ldflags='$(LDFLAGS)' -o bin/exporter ./cmd/exporter

.PHONY: run
run: ## Run the operator here, against the cluster of the current kubeconfig.
	@go run -ldflags='$(LDFLAGS)' . --probe-through-service=false --webhook-certs=none $(ARGS)

##@ Tests

.PHONY: test-unit
test-unit: deps ## Tests that need no server but the mysqld that some of them boot in namespaces of their own (root).
	@$(GO_TEST) $(RACE) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(PASS_PKGS)
	@packages=$(UNIT_PKGS); $(GO_TEST) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $$packages

.PHONY: test-envtest
test-envtest: deps ## Tests against a real API server: CRD, CEL, webhooks, RBAC, the reconciler.
	@assets="$$($(LAB) envtest-assets)"; KUBEBUILDER_ASSETS="$$assets" GOGC=400 GOMEMLIMIT=3GiB hack/test-servers.sh "$(ENVTEST_PKGS)" -vet=off $(RACE) -timeout $(TEST_TIMEOUT) $(TESTFLAGS)

.PHONY: test-parts
test-parts: deps ## Tests against parts of the lab: EC2 API, mysqld, its own machinery (root). Not beside a lab that is up.
	@$(LAB) down --if-killed
	@hack/test-servers.sh "$(PARTS_PKGS)" -vet=off $(RACE) -p 2 -timeout $(TEST_TIMEOUT) $(TESTFLAGS)
	@hack/test-servers.sh "$(DUMP_PKGS)" -vet=off -p 2 -timeout $(TEST_TIMEOUT) $(TESTFLAGS)
	@hack/test-servers.sh "$(LAB_PKGS)" -vet=off -p 1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS)

.PHONY: test-lab
test-lab: deps ## The lab leaves the machine as it was after it was killed or interrupted. lab-test tries every way in which it can end.
	@$(LAB) down --if-killed
	@$(GO_TEST) -tags lab -vet=off -count=1 -p 1 -timeout $(TEST_TIMEOUT) -v -run 'TestDownIfKilled|TestSecondUp|TestInterruptedUp' $(TESTFLAGS) ./test/lab

.PHONY: e2e
e2e: deps ## The scenarios on the lab and a few seeded faults: real API server, real instances, real mysqld.
	@gotestsum="$$(hack/tool.sh gotestsum)"; hack/with-lab.sh "$$gotestsum" --format standard-verbose --hide-summary skipped --packages './test/e2e/... ./test/chaos' -- \
	  -vet=off -tags e2e -count=1 -p 1 -timeout 45m -v -run '$(SCENARIOS)' -skip '$(LONG_SCENARIO)' $(TESTFLAGS)

# All of them; but where only a slice is run, as in CI, the chaos with a cluster's life from its beginning to its deletion when NAIROBI_SEED
# is even, or with what goes on without the cluster, backups and copies, and the smallest sample when it is odd.
SCENARIOS = $(if $(filter-out 1,$(NAIROBI_SLICE)),$(if $(filter %1 %3 %5 %7 %9,$(NAIROBI_SEED)),$(AFTERLIFE),$(LIFE)),.)
LIFE      := ^Test(0|1[0-4]|[A-Z])
AFTERLIFE := ^Test(0[1-3]|15|16|17|19|ChaosSlice)

# Most of its ten minutes are waits of the operator's, so it is no part of e2e.
LONG_SCENARIO = ^Test18

.PHONY: failed-upgrade
failed-upgrade: deps ## On the lab: an upgrade whose second member fails, and both ways back to the old version. Ten minutes.
	@hack/with-lab.sh go test -tags e2e -count=1 -timeout 30m -v -run '$(LONG_SCENARIO)' $(TESTFLAGS) ./test/e2e

# How many faults, and how often each interruption is measured.
CHAOS_FAULTS ?= 100
BENCH_TIMES  ?= 20

.PHONY: alerts
alerts: deps ## Each alert made to fire on the lab by its fault, and to end: an hour. ALERTS_FLAGS="-only Archive" for some; "-quiet 2h" for a day without any.
	@hack/with-lab.sh go run ./test/chaos/alarm $(ALERTS_FLAGS)

.PHONY: chaos
chaos: deps ## Faults on real parts under a write load, the ledger compared after each. CHAOS_FAULTS=100 NAIROBI_SEED=number.
	@hack/with-lab.sh go run ./test/chaos/soak -faults $(CHAOS_FAULTS) $(if $(NAIROBI_SEED),-seed $(NAIROBI_SEED)) $(CHAOS_FLAGS)

.PHONY: changes
changes: deps ## Everything that people change on a running cluster, under a write load. CHANGES=plain, or cut: a power cut in each.
	@hack/with-lab.sh go run ./test/chaos/soak -changes $(or $(CHANGES),plain) $(if $(NAIROBI_SEED),-seed $(NAIROBI_SEED)) $(CHAOS_FLAGS)

.PHONY: bench-failover
bench-failover: deps ## How long writes stop at a power cut, a crash of mysqld and a switchover, on the lab. BENCH_TIMES=20.
	@hack/with-lab.sh go run ./test/chaos/soak -bench $(BENCH_TIMES) $(CHAOS_FLAGS)

.PHONY: sweep
sweep: deps ## Kill the operator before and after every call to AWS, and lose every answer. CI tries an eighth of it.
	@assets="$$($(LAB) envtest-assets)"; KUBEBUILDER_ASSETS="$$assets" NAIROBI_SWEEP_SHARE=1 \
	  go test -count=1 -timeout 3h -run TestCrashSweep -v $(TESTFLAGS) ./controllers

.PHONY: points
points: deps ## Restore to 20 random points of a history with a failover in it, and compare row by row. POINTS=20 NAIROBI_SEED=number.
	@NAIROBI_PITR_POINTS=$(or $(POINTS),20) go test -count=1 -timeout 1h -run TestAnyPointInHistory -v $(TESTFLAGS) ./internal/backup/pitr

.PHONY: schemas
schemas: deps ## Dump, verify, restore and compare random databases with all that MySQL can hold. SCHEMAS=200 NAIROBI_SEED=number; CI tries 16.
	@NAIROBI_SCHEMAS=$(or $(SCHEMAS),200) go test -count=1 -timeout 3h -run TestHostileSchemas -v $(TESTFLAGS) ./internal/backup

.PHONY: simulate
simulate: ## Play random schedules of faults against the brain: SCHEDULES=1000000 SEED=1. A failing one says how to repeat it.
	@NAIROBI_SEED=$(or $(SEED),1) NAIROBI_SCHEDULES=$(or $(SCHEDULES),1000000) \
	  go test -count=1 -timeout 24h -run 'TestSchedules$$' -v $(TESTFLAGS) ./internal/simulation

.PHONY: mutants
mutants: ## Break the brain in every way that a test must notice, half an hour; `make test` tries an eighth. MUTANTS='a part of a name'.
	@NAIROBI_MUTANTS=settled go test -count=1 -timeout 3h -run 'TestMutants$$/$(subst $(eval) ,_,$(MUTANTS))' -v $(TESTFLAGS) ./internal/simulation

.PHONY: model
model: ## Check the promotion rules in every state of a small cluster, up to an hour. MODEL_FLAGS='-members 3 -writes 2'; -help lists them.
	@go run ./test/model/check $(MODEL_FLAGS)

.PHONY: bench
bench: bench-operator bench-backup bench-restore bench-snapshot bench-ready bench-writes bench-appliers ## Figures: what Ready clusters cost, backups and restores beside the same by hand, snapshots, what the operator adds to the way to Ready, commits and appliers.

.PHONY: bench-operator
bench-operator: deps ## What 100 and 1,000 Ready clusters cost, and a hand-over. Members and EC2 are stubs. BENCH_SECONDS=60, BENCH_SCALE=1000.
	@assets="$$($(LAB) envtest-assets)"; KUBEBUILDER_ASSETS="$$assets" \
	  go test -count=1 -timeout 3h -run '^$$' -bench . -benchtime 1x $(TESTFLAGS) ./test/bench

.PHONY: bench-backup
bench-backup: deps ## Dump beside mysqldump | zstd by hand, and restore, with their memory. BENCH_BACKUP_GIB=5 (room for 3 times that), BENCH_BACKUP_ROUNDS=3.
	@assets="$$($(LAB) envtest-assets)"; KUBEBUILDER_ASSETS="$$assets" \
	  go test -count=1 -timeout 3h -run '^$$' -bench Backup -benchtime 1x $(TESTFLAGS) ./test/bench/dump

.PHONY: bench-restore
bench-restore: deps ## Restore beside the same in one stream and by hand. BENCH_RESTORE_GIB=1 (room for 3 times that), BENCH_RESTORE_TABLES=20, BENCH_RESTORE_ROUNDS=1.
	@assets="$$($(LAB) envtest-assets)"; KUBEBUILDER_ASSETS="$$assets" \
	  go test -count=1 -timeout 3h -run '^$$' -bench Restore -benchtime 1x $(TESTFLAGS) ./test/bench/dump

.PHONY: bench-snapshot
bench-snapshot: deps ## In the lab: a snapshot and a new cluster from it, small beside large. BENCH_SNAPSHOT_GIB=1,5 (room for 5 times that).
	@hack/with-lab.sh go test -count=1 -timeout 2h -run '^$$' -bench . -benchtime 1x $(TESTFLAGS) ./test/bench/snapshot

.PHONY: bench-ready
bench-ready: deps ## In the lab: from apply to Ready, less the members' own time. BENCH_READY_ROUNDS=3.
	@hack/with-lab.sh go test -count=1 -timeout 1h -run '^$$' -bench . -benchtime 1x $(TESTFLAGS) ./test/bench/ready

# Room for four servers whose files are in memory.
BENCH_MEMORY := 7g

.PHONY: bench-writes
bench-writes: deps ## Commits, acknowledged from memory, from disk and by nobody, on volumes with 1 ms an fsync. BENCH_WRITES_CLIENTS=1,8,64,256, _ROUNDS=3, _SECONDS=10.
	@hack/in-memory.sh $(BENCH_MEMORY) go test -count=1 -timeout 3h -run '^$$' -bench Writes -benchtime 1x $(TESTFLAGS) ./test/bench/writes

.PHONY: bench-appliers
bench-appliers: deps ## Whether replicas keep up with 64 clients, by their number of applier threads. BENCH_APPLIER_THREADS=1,2,4,8,16, BENCH_WRITES_ROUNDS=3, _SECONDS=10.
	@hack/in-memory.sh $(BENCH_MEMORY) go test -count=1 -timeout 3h -run '^$$' -bench Appliers -benchtime 1x $(TESTFLAGS) ./test/bench/writes

##@ Lab

.PHONY: lab-up
lab-up: deps ## Bring up the local stack. KUBECONFIG is $NAIROBI_LAB/kubeconfig.
	@$(LAB) up

.PHONY: lab-down
lab-down: ## Take the local stack away, whatever is left of it.
	@$(LAB) down

.PHONY: lab-status
lab-status: ## What runs in the local stack.
	@$(LAB) status

.PHONY: lab-test
lab-test: deps ## The lab leaves the machine as it was, however it ends (no lab may be up).
	@go test -tags lab -count=1 -timeout 30m -v $(TESTFLAGS) ./test/lab

##@ OLM

.PHONY: bundle
bundle: generate ## Write bundle/ and bundle.Dockerfile from config/ and the CRDs. The version before is that of the catalog's template.
	@hack/bundle.sh . "$(VERSION)" "$(PUBLISHED_IMAGE)" "$(REPLACES)"

.PHONY: bundle-validate
bundle-validate: ## Validate bundle/ as OperatorHub does. A warning fails it too.
	@hack/bundle-validate.sh

.PHONY: catalog
catalog: ## Write the file-based catalog below catalog/ from its template and validate it.
	@hack/catalog.sh catalog catalog/template.yaml "$(BUNDLE_IMAGE)=bundle"

# The suites of scorecard tests, and where they run. aws makes a cluster in AWS: see docs/install.md.
SUITES ?= basic,olm,default
SCORECARD_NAMESPACE := nairobi-mysql-scorecard

.PHONY: scorecard
scorecard: ## operator-sdk scorecard on bundle/, in the cluster of the current kubeconfig. SUITES=basic,olm,default.
	@$(KUBECTL_SH) apply -k config/scorecard/access
	@"$$(hack/tool.sh operator-sdk)" scorecard bundle --selector='suite in ($(SUITES))' --wait-time=30m \
	  --namespace=$(SCORECARD_NAMESPACE) --service-account=scorecard --pod-security=restricted $(SCORECARD_FLAGS)

.PHONY: run-bundle
run-bundle: ## operator-sdk run bundle with BUNDLE_IMAGE, in the cluster of the current kubeconfig. OLM must be installed.
	@$(KUBECTL_SH) create namespace nairobi-mysql-system --dry-run=client -o yaml | $(KUBECTL_SH) apply -f -
	@"$$(hack/tool.sh operator-sdk)" run bundle $(BUNDLE_IMAGE) --namespace=nairobi-mysql-system --install-mode=AllNamespaces --security-context-config=restricted --timeout=5m

.PHONY: olm-install
olm-install: ## Install OLM into the cluster of the current kubeconfig, from the internet.
	@"$$(hack/tool.sh operator-sdk)" olm install

.PHONY: olm-e2e
olm-e2e: deps ## On the lab, with a real OLM: install from a catalog, scorecard, upgrade, uninstall, operator-sdk run bundle.
	@hack/with-lab.sh go test -tags e2e -count=1 -timeout 45m -v $(TESTFLAGS) ./test/olm

.PHONY: bundle-image
bundle-image: ## Build the bundle's image. PUSH=--push publishes it.
	docker buildx build --file bundle.Dockerfile --tag $(BUNDLE_IMAGE) $(PUSH) .

.PHONY: catalog-image
catalog-image: ## Build the catalog's image. PUSH=--push publishes it.
	docker buildx build --platform $(PLATFORMS) --file catalog.Dockerfile --tag $(CATALOG_IMAGE) $(PUSH) .

.PHONY: scorecard-image
scorecard-image: ## Build the image of our own scorecard tests. PUSH=--push publishes it.
	docker buildx build --platform $(PLATFORMS) --file test/scorecard/Dockerfile --tag $(SCORECARD_IMAGE) $(PUSH) .

##@ Release and installation

.PHONY: version
version: ## Print the version of the tree.
	@echo "$(VERSION)"

.PHONY: next-release
next-release: ## Make the tree that of the release after this one: NEXT=x.y.z. The catalog keeps the bundle of this one as it is.
	@hack/release.sh "$(VERSION)" "$(NEXT)"
	@$(MAKE) bundle catalog

.PHONY: operatorhub
operatorhub: ## Lay bundle/ out as a pull request to OperatorHub's repositories: dist/operatorhub. Its image must go by a digest.
	@hack/operatorhub.sh bundle dist/operatorhub

.PHONY: image
image: ## Build the image for amd64 and arm64. PUSH=--push publishes it.
	docker buildx build --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) \
	  --build-arg DATE=$(DATE) --tag $(IMAGE) $(PUSH) .

.PHONY: dist
dist: ## Write dist/crds.yaml, dist/install.yaml and dist/install-cert-manager.yaml.
	@mkdir -p dist
	@hack/render.sh config/crd > dist/crds.yaml
	@hack/render.sh config/default "$(PUBLISHED_IMAGE)" > dist/install.yaml
	@hack/render.sh config/overlays/with-certmanager "$(PUBLISHED_IMAGE)" > dist/install-cert-manager.yaml
	@ls -l dist

.PHONY: install
install: ## Install the CRDs into the cluster of the current kubeconfig.
	@hack/render.sh config/crd | $(KUBECTL_SH) apply --server-side -f -

.PHONY: uninstall
uninstall: ## Remove the CRDs. Clusters that are protected against deletion stay, and so do the CRDs.
	@hack/render.sh config/crd | $(KUBECTL_SH) delete --ignore-not-found -f -

.PHONY: deploy
deploy: install ## Install the CRDs and the operator.
	@hack/render.sh config/default "$(IMAGE)" | $(KUBECTL_SH) apply --server-side -f -

.PHONY: undeploy
undeploy: ## Remove the operator and its namespace, with the tenancy policy in it. CRDs and clusters stay, unattended.
	@hack/render.sh config/default "$(IMAGE)" | $(KUBECTL_SH) delete --ignore-not-found -f -
