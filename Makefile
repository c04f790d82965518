# AutoBot Fleet. `make` alone lists what there is.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
MODULE  := github.com/autobot-fleet/autobot
LDFLAGS := -s -w -X $(MODULE)/internal/buildinfo.Version=$(VERSION) -X $(MODULE)/internal/buildinfo.Commit=$(COMMIT)
GOBUILD := CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'
TOOL    := go tool -modfile=scripts/tools/go.mod
EXECUTORS := $(notdir $(wildcard executors/*/cmd/autobot-executor-*))
FUZZTIME ?= 20s
BENCHFLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint bench bench-queue bench-engines bench-smoke bench-lint fuzz build setup clean vet race vuln notice generate chaos

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

run: setup build ## set up what is missing, then a whole fleet on this machine with one real task per executor
	@bin/autobot-control dev --demo

test: ## set up what is missing and run every test
	@scripts/setup --test
	go test -timeout 25m ./...

setup: ## install what is missing (apt-get, with sudo if needed); a second run changes nothing
	@scripts/setup

build: ## bin/autobot-agent, bin/autobot-control, bin/executors/* with their manifests
	@mkdir -p bin/executors
	$(GOBUILD) -o bin/ ./cmd/autobot-agent ./cmd/autobot-control
	$(GOBUILD) -o bin/executors/ $(foreach e,$(EXECUTORS),./$(wildcard executors/*/cmd/$(e)))
	@go run ./scripts/manifest bin/executors/autobot-executor-*

lint: ## golangci-lint with the import rules
	$(TOOL) golangci-lint run --timeout 15m ./...

vet: ## go vet
	go vet ./...

race: ## the tests under the race detector, but those that only start other programs
	@scripts/setup --test
	go test -race -timeout 25m $$(go list ./... | grep -v /internal/e2e)

bench: bench-queue bench-engines ## figures next to asynq, BullMQ, Celery and the usual engines (about half an hour; BENCHFLAGS=--write puts the queue's into docs/performance.md)

bench-queue:
	@scripts/setup --test
	@scripts/bench-peers queues
	cd scripts/bench && go run . $(BENCHFLAGS)

bench-engines: build
	@scripts/setup --test
	@scripts/bench-peers engines
	go test -run '^$$' -bench . -benchtime 3s -timeout 20m ./internal/e2e/bench

bench-smoke: ## each row of the queue's benchmark once, with few tasks (a minute); the figures mean nothing
	@scripts/setup --test
	cd scripts/bench && go run . --quick --peers asynq

bench-lint:
	cd scripts/bench && go mod tidy -diff && go vet . && go test . && go tool -modfile=../tools/go.mod golangci-lint run ./...

chaos: ## faults at random for MINUTES against real processes, then proof that no task was lost or doubled; SEED repeats a run
	@scripts/setup --test
	@go build -o bin/tools/chaos ./internal/e2e/chaos/cmd/chaos
	@bin/tools/chaos $(foreach o,MINUTES SEED TASKS RATE REDIS BREAK,$(if $($(o)),-$(shell echo $(o) | tr A-Z a-z) $($(o))))

fuzz: ## each fuzz test for FUZZTIME
	@scripts/fuzz $(FUZZTIME)

vuln: ## govulncheck; needs its database, so it is not part of CI
	$(TOOL) govulncheck ./...

notice: ## NOTICE with the licences of everything that is linked in
	@scripts/notice

generate: ## protobuf code; needs protoc
	go build -modfile=scripts/tools/go.mod -o bin/tools/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	PATH=$(CURDIR)/bin/tools:$$PATH protoc -I executors/proto --go_out=. --go_opt=module=$(MODULE) --go-grpc_out=. --go-grpc_opt=module=$(MODULE) executors/proto/executor.proto

clean: ## remove what was built
	rm -rf bin dist
