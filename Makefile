# The commands that matter: `make run`, `make quick` while you work, `make test` before you
# push. `make run` and `make test` install what they need on a Debian machine that has only
# Go and make. CONTRIBUTING.md explains the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := bin/weir
GO_FILES := cmd internal $(wildcard *.go)

# Packages do not depend on where the clone is, so all clones of a machine share what is built.
export GOFLAGS := -trimpath $(GOFLAGS)

# How long `make fuzz` spends on each target, and which targets and packages it fuzzes.
FUZZTIME ?= 20s
FUZZ ?= ^Fuzz
FUZZPKG ?= ./...

# Which benchmarks `make bench` runs, how often (benchstat wants six), and the
# saved output of an earlier run to compare with.
BENCH ?= .
BENCHCOUNT ?= 6
BENCHPKG ?= ./...
BASE ?=

# More flags of `weir up` for `make run`, such as RUNFLAGS='--nodes 3 --port 7171'.
RUNFLAGS ?=

# Property tests draw from this seed, so that a commit has one verdict. SEED=0 draws a
# new seed each time, which finds what one seed does not.
SEED ?= 1
export RAPID_SEED := $(SEED)

# How many cases each property tries in `make long`.
CHECKS ?= 100000

# Tests with real clocks, sockets and processes run each time. So do tests whose child
# processes read the source tree (READS_TREE), because Go's test cache does not see what they
# read. All other results may come from the cache, unless SEED is set: it does not see the seed.
# go test need not vet: make lint does.
AGAIN := -vet=off -count=1 -timeout 20m
CACHED = -vet=off -timeout 20m $(if $(filter 1,$(SEED)),,-count=1)
READS_TREE = $(shell go list . ./packaging ./internal/node/cgroup ./internal/node/jobproxy)

# These packages start no goroutine, so the race detector would only make their tests ten
# times slower; TestFloorsTestedWithoutTheRaceDetectorAreSequential enforces this. A core lets
# its caller update trees in several goroutines, so its tests also run with the detector, with
# fewer histories.
SEQUENTIAL = $(shell go list . ./internal/value/... ./internal/engine/... ./internal/sim/... ./packaging ./test/expected)
CORE := github.com/weirhq/weir/internal/engine/core

# SQLite is C translated to Go. The detector makes it many times slower and could only find races
# inside it, so that package is compiled without. Not so its neighbours: they instantiate generic code of
# the standard library, and a program has one copy of that.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false
REAL := github.com/weirhq/weir/test/cluster
JOBPROXY := github.com/weirhq/weir/internal/node/jobproxy
BROWSER := github.com/weirhq/weir/test/web
CHART := github.com/weirhq/weir/packaging/helm
KUBE := github.com/weirhq/weir/test/kube
FAULTS := github.com/weirhq/weir/test/faults
CONCURRENT = $(filter-out $(SEQUENTIAL) $(JOBPROXY) $(CHART),$(shell go list ./... | grep -vE '/weir/test/(cluster|faults|kube|threemachines|web)$$'))
PROPERTIES = $(shell go list -f '{{.ImportPath}}: {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | sed -n 's|: .*pgregory.net/rapid.*||p')

# ONLY lists the packages to test, by import path; if it is empty, all are tested.
ONLY ?=
chosen = $(if $(ONLY),$(filter $(ONLY),$(1)),$(1))

# Tests that start weir use the binary that is already built.
WITH_WEIR := WEIR_BINARY=$(CURDIR)/$(BIN)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## build weir and start a whole cluster on this machine with a demonstration workload; Ctrl-C stops it
	@{ scripts/setup.sh page && scripts/web.sh; } || echo "the page is not built; everything else is" >&2
	@$(MAKE) --no-print-directory build
	@$(BIN) up --demo $(RUNFLAGS)

.PHONY: demo
demo: build ## show the offline commands on the documents' example: shares, a verdict, a plot, a simulation
	@scripts/demo.sh $(BIN)

.PHONY: quick
quick: build ## catch most mistakes in two minutes: lint, the page's types and unit tests, all packages with fewer cases
	@$(MAKE) --no-print-directory -j2 --output-sync=target quick-tree quick-tests lint quick-page

.PHONY: quick-page quick-tests quick-tree
quick-page:
	@scripts/web.sh check
quick-tests:
	go test -short -timeout 5m $(filter-out $(READS_TREE),$(SEQUENTIAL) $(CONCURRENT))
quick-tree:
	$(WITH_WEIR) go test -short -count=1 -timeout 5m $(READS_TREE)

.PHONY: test
test: checks tests ## everything CI does: the page, lint, build, all tests, races, real jobs, a real browser

.PHONY: checks
checks: setup ## the part of make test before lint and tests: the page, build
	@scripts/web.sh test
	@$(MAKE) --no-print-directory build

# Three groups run at a time, the longest first: tests of the browser and of real jobs mostly wait for events, so
# that fewer would leave a core idle. Tests with real jobs follow each other.
.PHONY: tests tests-real-ones
tests: build ## lint and the tests of make test (ONLY='IMPORT/PATH ...' selects packages; make -k continues after a failure)
	@$(MAKE) --no-print-directory -j3 tests-concurrent tests-real-ones tests-browser tests-kube tests-sequential lint tests-tree
tests-real-ones:
	@failed=0; for part in jobs supervised core real faults; do $(MAKE) --no-print-directory tests-$$part || failed=1; done; exit $$failed

.PHONY: tests-sequential tests-tree tests-kube tests-jobs tests-supervised tests-concurrent tests-core tests-real tests-browser tests-faults
tests-sequential: packages = $(call chosen,$(filter-out $(READS_TREE),$(SEQUENTIAL)))
tests-sequential:
	$(if $(packages),go test $(CACHED) $(packages))
tests-tree: packages = $(call chosen,$(filter $(READS_TREE),$(SEQUENTIAL)))
tests-tree:
	$(if $(packages),$(WITH_WEIR) go test $(AGAIN) $(packages))
tests-kube: packages = $(call chosen,$(CHART) $(KUBE))
tests-kube: # its tools are built once; where that is impossible the tests are skipped
	$(if $(packages),go run ./test/tools && $(WITH_WEIR) go test -p 1 $(AGAIN) $(packages))
tests-jobs:
	$(if $(call chosen,$(JOBPROXY)),CGO_ENABLED=1 go test $(RACE) $(AGAIN) $(JOBPROXY))
tests-supervised: # jobs run in a supervisor, or have a proxy each: the same tests hold for both
	$(if $(call chosen,$(JOBPROXY)),WEIR_TEST_SUPERVISOR=1 go test -short $(AGAIN) $(JOBPROXY))
tests-concurrent: packages = $(call chosen,$(CONCURRENT))
tests-concurrent:
	$(if $(packages),CGO_ENABLED=1 go test $(RACE) -p 2 $(AGAIN) $(packages))
tests-core:
	$(if $(call chosen,$(CORE)),CGO_ENABLED=1 go test $(RACE) -short $(AGAIN) $(CORE))
tests-real:
	$(if $(call chosen,$(REAL)),$(WITH_WEIR) go test -short $(AGAIN) $(REAL))
tests-browser:
	$(if $(call chosen,$(BROWSER)),$(WITH_WEIR) go test $(AGAIN) $(BROWSER))
tests-faults:
	$(if $(call chosen,$(FAULTS)),$(WITH_WEIR) go test -short $(AGAIN) -run '^TestFaultsOn' $(FAULTS))

.PHONY: long
long: build ## property tests with many cases and a new seed each time (CHECKS=100000 cases for each property, SEED=n repeats a run), 200 kills of a leader, kube-scheduler's rules, 2,000 real jobs
	RAPID_SEED=$(if $(filter command environment,$(firstword $(origin SEED))),$(SEED),0) WEIR_LONG=1 go test -count=1 -timeout 4h $(PROPERTIES) -rapid.checks=$(CHECKS)
	$(WITH_WEIR) WEIR_KILLS=200 go test -v -count=1 -timeout 2h -run '^TestALeaderOnSQLiteMayBeKilledAtAnyTime$$' $(FAULTS)
	go run ./test/tools && WEIR_LONG=1 go test $(AGAIN) -run '^TestOurRulesAreThoseOfKubeScheduler$$|^TestALeaderThatIsPausedAndWokenBindsNothingTwice$$' $(KUBE)
	$(WITH_WEIR) WEIR_LONG=1 go test $(AGAIN) -v -run '^TestManyJobsShareFewUserIDsAndNothingElse$$' $(REAL)

.PHONY: faults
faults: setup build ## end-to-end tests with faults: killed leaders, lost nodes, real jobs, three machines, hostile clients, a campaign of all kinds of faults (as root; WEIR_KILLS and WEIR_FAULTS set how many, WEIR_SEED which, WEIR_SOAK how long)
	$(WITH_WEIR) go test -p 1 -v -count=1 -timeout 6h ./test/cluster ./test/faults ./test/threemachines
	$(WITH_WEIR) WEIR_TEST_PROXIES=1 go test $(AGAIN) ./test/cluster

.PHONY: kube
kube: build ## the chart, and jobs as pods against a real API server and etcd, which are built once with Helm (about fifteen minutes of CPU time), with faults
	@$(MAKE) --no-print-directory tests-kube

# How many pretended nodes make e2e has.
NODES ?= 1000

.PHONY: e2e
e2e: ## the documents' example and gangs on a Kubernetes cluster of pretended nodes, against a real API server (NODES=1000)
	go run ./test/tools
	WEIR_NODES=$(NODES) go test $(AGAIN) -timeout 1h -v -run '^TestLarge' ./test/kube

.PHONY: kubelet
kubelet: build ## jobs and pods on one real kubelet with containerd on this machine, as a transcript (as root; it builds them once, in about twenty minutes of CPU time)
	@scripts/kubelet.sh

.PHONY: v2
v2: ## tests of containers and isolated jobs for a machine without Go, such as one with control groups version 2 only: build them, and say how to run them there
	@scripts/v2.sh bin/v2

.PHONY: bench
bench: ## run benchmarks into bin/bench.txt and summarise them, with the rows of bench/README.md (BENCH=regexp BENCHCOUNT=6 BASE=old.txt)
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -timeout 2h $(BENCHPKG) | tee bin/bench.txt
	go tool benchstat $(BASE) bin/bench.txt
	scripts/benchrows.sh bench/README.md bin/bench.txt

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, deadcode and go mod tidy
	@unformatted=$$(gofmt -l $(GO_FILES)); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	@# -e, and go.mod only: a registry may lack a module that only tests of our modules import.
	@untidy=$$({ go mod tidy -e -diff 2>/dev/null || true; } | sed -n '/^diff .*go.mod$$/,/^diff .*go.sum$$/p'); \
	if [ -n "$$untidy" ]; then echo "go mod tidy would change go.mod:"; echo "$$untidy"; exit 1; fi
	@dead=$$(go tool deadcode -test ./...); if [ -n "$$dead" ]; then echo "unreachable code:"; echo "$$dead"; exit 1; fi

.PHONY: fuzz
fuzz: ## fuzz every parser for a bounded time (FUZZTIME=20s FUZZ=regexp FUZZPKG=./... KEEP=1 keeps what it finds)
	@scripts/fuzz.sh '$(FUZZ)' '$(FUZZTIME)' $(FUZZPKG)

.PHONY: build
build: ## build bin/weir, with the three small programs for jobs inside
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o internal/node/programs/built/ ./cmd/weir-supervisor ./cmd/weir-init ./cmd/weir-pod
	CGO_ENABLED=0 go build -trimpath -tags smallprograms -o $(BIN) ./cmd/weir

.PHONY: web
web: ## build the web page into internal/control/web/dist, if npm is installed
	@scripts/web.sh

.PHONY: screenshots
screenshots: web ## take the screenshots that documents show, in a real browser
	WEIR_SCREENSHOTS=$(CURDIR)/docs/screenshots go test -count=1 -timeout 20m -run '^TestPictures$$' -v ./test/web

.PHONY: dist
dist: ## static binaries and archives for linux amd64 and arm64 with checksums, into dist/
	@scripts/dist.sh dist

.PHONY: setup
setup: ## install what is missing on this machine (idempotent)
	@scripts/setup.sh

.PHONY: clean
clean: ## remove bin/
	rm -rf bin
