# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Each target is a task of tools/ci, which builds and installs what the task needs: `make demo FAULT=stop` is
# `go run ./tools/ci run demo FAULT=stop`. `make help` lists them all, `go run ./tools/ci help NAME` shows what one of them runs.

CI := @go run ./tools/ci

.PHONY: help build demo test test-go test-c test-rules test-e2e test-page test-recordings test-busy test-long lint generate check-generated \
        bench bench-latency scorecard chaos fuzz gpu-e2e release images clean

build: ## Build the shim, the training programs and the Go programs into bin/.
	$(CI) run $@

demo: ## Run a small cluster, inject FAULT at RANK, print the verdict. FAULT=none stays healthy; NCCL=2.30.7 runs on the real library.
	$(CI) run $@

test: ## Run every test that a change must pass; builds and installs what it needs. NCCL=none downloads no library.
	$(CI) run $@

test-go: ## Unit tests in Go; fuzz targets on their seeds. Of tests that draw jobs at random, a share.
	$(CI) run $@

test-c: ## The suites of the shim and of ringjob.
	$(CI) run $@

test-rules: ## Unit tests of the shipped rules and dashboards, and of the configuration in deploy/.
	$(CI) run $@

test-e2e: ## Real processes, Prometheus and Alertmanager: every fault names its rank.
	$(CI) run $@

test-page: ## The analyzer's pages in Chromium: light, dark, phone, print, keyboard, axe-core. PICTURES=folder saves what they look like.
	$(CI) run $@

test-recordings: ## Run PyTorch programs that go wrong, record what they leave, and judge the analysis; a version takes half an hour.
	$(CI) run $@

test-busy: ## make test's tests N times beside four busy loops: no test may depend on the machine's pace.
	$(CI) run $@

test-long: ## Run the long list, all of it; goes on where it was ended on the same sources, FRESH=1 starts over.
	$(CI) run $@

lint: ## Run the pinned linters on Go and on the rules.
	$(CI) run $@

generate: ## Render rules/ (for every scrape interval) and dashboards/ from mixin/; write THIRD_PARTY_NOTICES and the trace file's code.
	$(CI) run $@

check-generated: ## Fail when rules/, dashboards/ or THIRD_PARTY_NOTICES differ from what is generated, or a licence is not on the list.
	$(CI) run $@

bench: ## Print measured costs beside the budgets of the design.
	$(CI) run $@

bench-latency: ## From trigger to verdict at 10,240 simulated ranks under a real Prometheus. Wants a quiet machine.
	$(CI) run $@

scorecard: ## Run the quick scorecard; fails under the committed floors.
	$(CI) run $@

chaos: ## For MINUTES kill, stop, delay and fill the disks of all services at random beside faulty jobs: nothing lost, paged twice or paged for an innocent. CLOCK=yes lets the machine's clock jump, too; SEED= repeats. Needs root.
	$(CI) run $@

fuzz: ## Run every fuzz target for TIME, one after another, and print what each did. PACKAGES="./trace …" runs some.
	$(CI) run $@

gpu-e2e: ## On a machine with an NVIDIA GPU and PyTorch: the end-to-end check on real NCCL.
	$(CI) run $@

release: ## Build what is published into build/release/dist: tarballs, deb, rpm, images, SBOM, provenance, checksums.
	$(CI) run $@

images: ## Build images for this machine, and the chart, into build/images/dist. TO=kind, k3s, containerd or REGISTRY/FOLDER loads or pushes them.
	$(CI) run $@

help: ## List the targets, and all tasks of tools/ci.
	$(CI) list

clean: ## Remove what the build made, but for bin/tools.
	[ ! -d bin ] || find bin -maxdepth 1 -type f -delete
	rm -rf bin/fakegpu build
