# Sluice's house-keeping. `make` alone lists what there is.
#
# Everything is built without cgo; only -race needs a C compiler.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export CGO_ENABLED := 0

GO ?= go
CACHE := $(CURDIR)/.cache/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)

# Packages that start goroutines or share state between those of others: the race
# pass runs over these, and internal/lint holds the list against the code.
RACE := agent api bench chaos chaos/disaster chaos/origin chaos/process chaos/servers cli coordinator coordinator/owner ingest internal/mariadb meta objstore objstore/objstoretest pipeline playground redo schemafeed server sim/shells sink/blackhole sink/mysql sorter transport transport/badline upstream upstream/fake upstream/fake/workload

# Where `make golden` takes recordings from.
GOLDEN_SRC ?= ../shared/golden
# How long `make fuzz` spends on each target, and a pattern of those that it takes.
FUZZTIME ?= 60s
FUZZ ?=
# Arguments for `make playground`, such as ARGS='--recording testdata/golden --verify'.
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

.PHONY: playground
playground: ## a recorded TiDB stream through Sluice into a database in this process, with a verdict
	@mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/playground ./cmd/playground
	@# The command itself gets Ctrl-C and ends in good order; its status counts. After a
	@# Ctrl-C make ends with its own, 130, whatever the command's was.
	@exec $(CACHE)/playground $(ARGS)

.PHONY: test
test: mariadb objstores ## all tests, then the race pass; installs what they need
	$(GO) test -timeout 20m ./...
	$(MAKE) --no-print-directory race
	@echo 'left to make heavy: redo at all crash points on S3; upstream with the largest recordings, and with a hundred living clusters instead of two; sink/mysql with all recordings by one worker too, and all random cases; under race sink/mysql without its largest recording, and redo with a few recordings and a third of its crashes'

.PHONY: heavy
heavy: ## the tests of some minutes that make test leaves out, and says so
	SLUICE_HEAVY=1 $(GO) test -timeout 30m ./upstream/... ./sink/mysql ./redo

# How many seeds `make chaos-capture` runs, from which on, and how many at the same time.
RUNS ?= 200
SEED ?= 1
AT_ONCE ?= 3

.PHONY: chaos-capture
chaos-capture: ## RUNS seeds from SEED on: a capture killed with -9 amid faults of all kinds; a line a run, and docs/results/chaos-capture.md
	$(GO) test ./chaos -run TestChaos -v -timeout 6h -args -runs $(RUNS) -seed $(SEED) -at-once $(AT_ONCE) \
		-summary $(CURDIR)/docs/results/chaos-capture.md $(ARGS)

# One run of all trials, or RUNS of them from SEED on; ARGS='-only kill,drain' has those
# trials alone. It measures lag: let the machine do nothing else.
.PHONY: chaos
chaos: mariadb ## three captures and etcd in processes of their own under load and DDL: restarts, kills, cuts, moves, with the lag around each; docs/results/chaos.md
	mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/sluice ./cmd/sluice
	$(GO) test ./chaos/servers -run TestCluster -v -timeout 6h -args -sluice $(CACHE)/sluice -seed $(SEED) \
		-runs $(if $(filter command line environment,$(origin RUNS)),$(RUNS),1) -summary $(CURDIR)/docs/results/chaos.md $(ARGS)

# How often `make chaos-server` kills the server of a run; it runs one seed, SEED,
# unless RUNS is given. ARGS='-servers 2 -script pauses' stops two of them in turn,
# ARGS='-script outages' kills the downstream.
KILLS ?= 100

.PHONY: chaos-server
chaos-server: mariadb ## the real server killed KILLS times with -9 under load and DDL, judged by the binary log; docs/results/chaos-server.md
	mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/sluice ./cmd/sluice
	$(GO) test ./chaos/servers -run TestServers -v -timeout 6h -args -sluice $(CACHE)/sluice -events $(KILLS) -seed $(SEED) \
		-runs $(if $(filter command line environment,$(origin RUNS)),$(RUNS),1) -summary $(CURDIR)/docs/results/chaos-server.md $(ARGS)

# How many seeds `make disaster` runs, from SEED on: one where SEED is given, unless RUNS is.
DISASTERS = $(if $(call given,RUNS),$(RUNS),$(if $(call given,SEED),1,10))

.PHONY: disaster
disaster: mariadb objstores ## RUNS upstreams lost for good, from SEED on: redo apply, every table against the upstream's snapshot; docs/results/disaster.md
	mkdir -p $(CACHE)
	$(GO) build -o $(CACHE)/sluice ./cmd/sluice
	$(GO) test ./chaos/disaster -run TestDisasters -v -timeout 6h -args -sluice $(CACHE)/sluice -runs $(DISASTERS) -seed $(SEED) \
		-summary $(CURDIR)/docs/results/disaster.md $(ARGS)

# How many seeds `make sim` plays from SEED on: one where SEED is given, unless RUNS is.
given = $(filter command line environment,$(origin $(1)))
SIMS = $(if $(call given,RUNS),$(RUNS),$(if $(call given,SEED),1,200000))

.PHONY: sim
sim: ## the scheduler in a simulated cluster: many seeds, or SEED=n alone; then each wrong line, there and in the shells, to see it caught
	$(GO) test ./sim -run TestSchedules -v -timeout 2h -args -runs $(SIMS) -seed $(SEED) $(ARGS)
	$(if $(call given,SEED),,$(GO) test ./sim -run TestMutants -v -timeout 2h -args -mutants all)
	$(if $(call given,SEED),,$(GO) test ./sim/shells -run TestMutants -v -timeout 2h -args -mutants all)

.PHONY: race
race: cc mariadb objstores ## the packages with goroutines or locks under the race detector, in short form
	CGO_ENABLED=1 $(GO) test -race -short -timeout 20m $(addprefix ./,$(RACE))

.PHONY: lint
lint: $(GOLANGCI) ## go vet, golangci-lint and the house rules
	$(GO) vet ./...
	$(GOLANGCI) run --allow-serial-runners --timeout 10m ./...
	$(GO) test ./internal/lint

.PHONY: bench
bench: mariadb objstores ## what the data path costs beside a bare stream, how late it is, and what a redo log costs; ARGS='-only redo' for that alone
	@# Each is run whatever the others came to; one that fails fails all, at the end.
	failed=; \
	$(GO) run ./cmd/bench $(ARGS) || failed=1; \
	$(GO) test -run '^$$' -bench . -benchmem ./pipeline || failed=1; \
	$(GO) test -run '^$$' -bench Million -benchtime 1x ./scheduler || failed=1; \
	test -z "$$failed"

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZTIME each; FUZZ='word' takes those that it matches
	@.ci/fuzz-targets | { grep -E -- "$(FUZZ)" || true; } | while read -r pkg target; do \
		echo "$$pkg $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x -parallel 2 "$$pkg" </dev/null; \
	done

.PHONY: golden
golden: ## refresh testdata/golden from GOLDEN_SRC
	@test -f "$(GOLDEN_SRC)"/README.md || { echo 'GOLDEN_SRC=$(GOLDEN_SRC) holds no recordings' >&2; exit 1; }
	mkdir -p testdata/golden
	cp -R --no-preserve=mode '$(GOLDEN_SRC)/.' testdata/golden/
	@# A pointer out of the folder leads nowhere here: drop the sentence's tail that holds it.
	find testdata/golden -name '*.md' -exec sed -i -E 's#[:;,]? *see \.\./[^ ]*[a-zA-Z0-9]##g' {} +

# What the targets above stand on.

$(GOLANGCI):
	mkdir -p $(CACHE)
	GOBIN=$(CACHE) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(CACHE)/golangci-lint $@

.PHONY: mariadb
mariadb:
	.ci/install-mariadb

.PHONY: objstores
objstores:
	@.ci/install-objstores $(CACHE)

# The race detector's C compiler: there, or installed where that can be done,
# or a failure that says so. Never left out quietly.
.PHONY: cc
cc:
	@if ! command -v gcc >/dev/null; then \
		echo 'the race detector needs gcc: installing it'; \
		apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev; \
	fi
