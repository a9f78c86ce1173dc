# Everything a contributor types. Each target does its own set-up.
.DEFAULT_GOAL := help
SHELL := bash

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Static and reproducible, as in deploy/Dockerfile: the same commit gives the
# same program on every machine.
GO_BUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags="-s -w -X github.com/leasehold/leasehold/internal/app.Version=$(VERSION)"
PROGRAMS = ./cmd/worker ./cmd/dispatcher ./cmd/reconciler ./cmd/leasehold ./examples/payments

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## See a stale worker refused and a crashed dispatcher not charge twice
	@.ci/setup.sh demo
	go run ./examples/demo -bin bin

.PHONY: test
test: ## Run every test on real PostgreSQL, race detector on
	@.ci/setup.sh test
	@.ci/test.sh

.PHONY: accept
accept: ## Run experiments A to H on real processes and print what was observed
	@.ci/setup.sh test
	@mkdir -p artifacts
	@LEASEHOLD_ACCEPTANCE_REPORT=$(CURDIR)/artifacts go test -C test/acceptance -count=1 -parallel 4 -timeout 10m

.PHONY: chaos
chaos: ## Break everything for DURATION (default 60s) and compare the ledgers; SEED repeats a storm
	@.ci/setup.sh test
	@go run ./test/chaos -duration '$(or $(DURATION),60s)' -seed '$(or $(SEED),0)' $(CHAOS)

.PHONY: mutants
mutants: ## Remove each guard in turn and see the test that holds it fail
	@.ci/setup.sh test
	@go run ./internal/pgtest/cmd/testcluster -- go run ./test/mutants -only '$(ONLY)'

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME each (default 20s)
	@FUZZTIME='$(or $(FUZZTIME),20s)' .ci/fuzz.sh

.PHONY: lint
lint: ## Check style and the mistakes listed in .golangci.yml
	@.ci/lint.sh

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p bin
	$(GO_BUILD) -o bin/ $(PROGRAMS)

.PHONY: fmt
fmt: ## Format the code
	go tool -modfile=tools/go.mod gofumpt -w .

.PHONY: tidy
tidy: ## Tidy every module, the root first: the others follow its versions
	@for mod in $$(.ci/modules.sh) tools; do (cd "$$mod" && echo "$$mod" && go mod tidy) || exit 1; done

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin
