# The two commands that matter: `make run` and `make test`. Both install what
# they need on a Debian machine that has only Go and make.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := bin/weir
GO_FILES := cmd internal $(wildcard *.go)

# How long `make fuzz` spends on each target, and which targets and packages it takes.
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

# -count=1: several tests read the source tree through `go list`, which the
# test cache does not see.
TESTFLAGS ?= -count=1 -timeout 20m

# Property tests draw from this seed, so that a commit has one verdict. SEED=0 draws
# anew each time, which is how to look for what one seed does not find.
SEED ?= 1
PACKAGES = $(shell go list ./... | grep -vE '/test/(cluster|faults|threemachines|web)$$')
PROPERTY_PACKAGES = $(shell go list -f '{{.ImportPath}}: {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | sed -n 's|: .*pgregory.net/rapid.*||p')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## build weir and start a whole cluster on this machine, with something to watch; Ctrl-C stops it
	@{ scripts/setup.sh page && scripts/web.sh; } || echo "the page is not built; everything else is" >&2
	@$(MAKE) --no-print-directory build
	@$(BIN) up --demo $(RUNFLAGS)

.PHONY: demo
demo: build ## show the offline commands on the documents' example: shares, a verdict, a plot, a simulation
	@scripts/demo.sh $(BIN)

.PHONY: test
test: setup ## everything CI does: the page, format, vet, lint, build, all tests with the race detector, a real browser
	@scripts/web.sh test
	@$(MAKE) --no-print-directory lint build
	CGO_ENABLED=1 go test -race $(TESTFLAGS) $(filter-out $(PROPERTY_PACKAGES),$(PACKAGES))
	CGO_ENABLED=1 go test -race $(TESTFLAGS) $(PROPERTY_PACKAGES) -rapid.seed=$(SEED)
	go test -short $(TESTFLAGS) ./test/cluster
	go test $(TESTFLAGS) ./test/web

.PHONY: e2e
e2e: setup ## the long end-to-end tests: faults, real jobs, three machines (as root; WEIR_KILLS and WEIR_FAULTS say how often)
	go test -p 1 $(TESTFLAGS) ./test/...

.PHONY: bench
bench: ## run benchmarks into bin/bench.txt and summarise them (BENCH=regexp BENCHCOUNT=6 BASE=old.txt)
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -timeout 2h $(BENCHPKG) | tee bin/bench.txt
	go tool benchstat $(BASE) bin/bench.txt

.PHONY: lint
lint: ## gofmt, go vet, staticcheck and deadcode
	@unformatted=$$(gofmt -l $(GO_FILES)); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	@dead=$$(go tool deadcode -test ./...); if [ -n "$$dead" ]; then echo "nothing reaches this:"; echo "$$dead"; exit 1; fi

.PHONY: fuzz
fuzz: ## fuzz every parser for a bounded time (FUZZTIME=20s FUZZ=regexp FUZZPKG=./... KEEP=1 keeps what it finds)
	@scripts/fuzz.sh '$(FUZZ)' '$(FUZZTIME)' $(FUZZPKG)

.PHONY: build
build: ## build bin/weir
	go build -trimpath -o $(BIN) ./cmd/weir

.PHONY: web
web: ## build the web page into internal/control/web/dist, if npm is here
	@scripts/web.sh

.PHONY: screenshots
screenshots: web ## make the pictures that documents show, in a real browser
	WEIR_SCREENSHOTS=$(CURDIR)/docs/screenshots go test -count=1 -timeout 20m -run '^TestPictures$$' -v ./test/web

.PHONY: dist
dist: ## static binaries and archives for linux amd64 and arm64 with checksums, into dist/
	@scripts/dist.sh dist

.PHONY: setup
setup: ## install what is missing on this machine (idempotent)
	@scripts/setup.sh

.PHONY: clean
clean: ## remove what make built
	rm -rf bin
