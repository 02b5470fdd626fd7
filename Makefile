# Toolwire. `make help` lists the targets; CONTRIBUTING.md says what each needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO       ?= go
FUZZTIME ?= 10s
STRESS   ?= 20
BENCH    ?= .
LINT     := bin/golangci-lint
GOFUMPT  := bin/gofumpt

# Directories of all packages with goroutines worth stressing, as far as they exist.
STRESSED := $(foreach d,workers dispatcher agent internal/jet internal/console,$(if $(wildcard $(d)/*.go),./$(d)/...))

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: all
all: fmt lint test ## format, lint and test: what to run before a commit

.PHONY: build
build: ## build every package, and the static binary into bin/toolwire
	$(GO) build ./...
	@if [ -d cmd/toolwire ]; then CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/toolwire ./cmd/toolwire; fi

.PHONY: test
test: ## run the tests: go test ./... (needs nothing but Go)
	$(GO) test ./...

.PHONY: race
race: ## run the tests with the race detector, shuffled (needs a C compiler)
	GOFLAGS="$(GOFLAGS) -race -shuffle=on" $(GO) test ./...

.PHONY: stress
stress: ## run the concurrent packages STRESS (20) times with the race detector
	$(if $(STRESSED),GOFLAGS="$(GOFLAGS) -race -shuffle=on" $(GO) test -count=$(STRESS) $(STRESSED),@echo "nothing to stress yet")

.PHONY: fuzz
fuzz: ## fuzz every Fuzz function for FUZZTIME (10s) each
	.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## run the Go benchmarks that match BENCH (all)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: golden
golden: ## rewrite golden files (-update), then show what changed
	@grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -r -n1 dirname | sort -u | xargs -r -I{} $(GO) test {} -update
	@git status --short

.PHONY: lint
lint: $(LINT) $(GOFUMPT) ## run golangci-lint, gofumpt, go mod tidy -diff and the test of the import rules
	$(LINT) config verify
	$(LINT) run ./...
	@d="$$($(GOFUMPT) -l .)"; [ -z "$$d" ] || { echo "not formatted: $$d" >&2; exit 1; }
	$(GO) mod tidy -diff
	$(GO) test -tags lint ./internal/lint

.PHONY: fmt
fmt: $(LINT) ## format all Go files (gofumpt, import groups)
	$(LINT) fmt ./...

.PHONY: tidy
tidy: ## tidy go.mod and tools/go.mod
	$(GO) mod tidy
	$(GO) -C tools mod tidy

.PHONY: docker-test
docker-test: ## start the compose file with images FROM scratch (needs root and apt-get, or docker and compose)
	.ci/with-docker $(GO) test -tags docker -count=1 -v ./test/docker

.PHONY: e2e
e2e: ## run the tests with real processes and kill -9, uncached
	$(GO) test -count=1 -v ./cmd/...

.PHONY: tour
tour: ## repeat docs/tour.md with the plain nats CLI (needs network once, to install it)
	$(GO) test -tags natscli -count=1 -v -run Tour ./cmd/toolwire

.PHONY: cluster
cluster: ## test on three servers, in real time
	$(GO) test -tags cluster -count=1 ./test/cluster

.PHONY: chromium
chromium: ## test the console in a real browser (needs Chromium in the path, or named in CHROMIUM)
	$(GO) test -tags chromium -count=1 -run Browser ./internal/console

.PHONY: examples
examples: ## test the examples, which are modules of their own
	for mod in examples/*/go.mod; do $(GO) -C $${mod%/go.mod} test -count=1 ./... || exit 1; done

.PHONY: ci
ci: ## run what CI runs, all of it
	.ci/run

.PHONY: clean
clean: ## remove what make built
	rm -rf bin

# The tools are pinned in tools/go.mod and built once (about two minutes when cold).
$(LINT): tools/go.mod tools/go.sum
	$(GO) build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(GOFUMPT): tools/go.mod tools/go.sum
	$(GO) build -modfile=tools/go.mod -o $@ mvdan.cc/gofumpt
