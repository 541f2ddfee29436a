# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# One line each, the same lines a person would type. `make help` lists the targets.

SHELL   := /bin/bash
GO      ?= go
BIN     := bin
VERSION ?= $(shell cat VERSION)
# The date of the last commit, so that the same sources give the same programs.
REVISION := $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
DATE    := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
PKG     := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(PKG).Version=$(VERSION) -X $(PKG).Revision=$(REVISION) -X $(PKG).BuildDate=$(DATE) \
           -X $(PKG).Branch=$(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)

# All of these programs are there: command -v with several names is content with one.
have = $(foreach program,$(1),command -v $(program) >/dev/null &&) true

.PHONY: all help build release test-release shim ringjob ncclrun go-build tools nccl test test-waiting test-beside test-go test-c test-fakegpu test-ncclrun test-nccl test-nccl-short test-nccl-ci test-nccl-flaky nccl-report test-rules test-pyspy test-recordings record-dumps test-e2e test-levels test-slow test-transfers test-slurm test-launchers test-kubernetes test-victoriametrics test-thanos test-mimir test-systemd test-chart test-upgrade test-page pictures dashboard-pictures check-dashboards demo lint bench bench-page bench-latency bench-logs generate \
        check-generated scorecard scorecard-full gpu-e2e soak sanitizers nccl-behaviour nccl-record bench-nccl chaos fuzz corpus vulncheck clean

all: build

help: ## List the targets.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: shim ringjob ncclrun go-build ## Build the shim, the training programs and the Go programs into bin/.

shim:
	@echo "building the shim"
	@$(MAKE) --silent --no-print-directory -C ncclshim VERSION=$(VERSION) REVISION=$(REVISION) DATE=$(DATE)

ringjob:
	@echo "building ringjob"
	@$(MAKE) --silent --no-print-directory -C sim/ringjob

ncclrun:
	@echo "building ncclrun, its played GPU and the recorder"
	@$(MAKE) --silent --no-print-directory -C sim/ncclrun
	@$(MAKE) --silent --no-print-directory -C sim/ncclrecord

go-build:
	@echo "building culprit-exporter, culprit-analyzer, culprit-sim, culprit-demo, culprit-nccl"
	@mkdir -p $(BIN)
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/culprit-exporter ./exporter
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/culprit-analyzer ./analyzer
	@$(GO) build -C sim/scorecard -trimpath -ldflags '$(LDFLAGS)' -o $(CURDIR)/$(BIN)/culprit-sim ./cmd/culprit-sim
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/culprit-demo ./sim/demo
	@$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/culprit-nccl ./sim/cmd/culprit-nccl

ZIG := .cache/zig/zig

$(ZIG): tools/release/zig.txt
	@echo "installing zig, the C compiler of a release, into .cache/zig"
	@python3 -m venv --clear .cache/zig
	@.cache/zig/bin/pip install --quiet --disable-pip-version-check --require-hashes -r tools/release/zig.txt
	@.cache/zig/bin/python -c 'import os, ziglang; os.symlink(os.path.join(os.path.dirname(ziglang.__file__), "zig"), "$@")'

release: $(ZIG) ## Build what is published into build/release/dist: tarballs, deb, rpm, images, SBOM, provenance, checksums. DEBIAN_MIRROR= takes another mirror.
	$(GO) run -C tools/release . --root=$(CURDIR) --version=$(VERSION) --revision=$(REVISION) --date=$(DATE) --zig=$(CURDIR)/$(ZIG) \
	  --cache=$(CURDIR)/.cache/debian --out=$(CURDIR)/$(or $(OUT),build/release)

REBUILD := build/release-again

test-release: build release ## Build the release again elsewhere and compare; install, upgrade and remove it. Needs root and a committed tree.
	@$(call have,rpm qemu-aarch64 readelf) || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rpm qemu-user binutils; }
	@rm -rf $(REBUILD) && mkdir -p $(REBUILD)
	git clone --quiet . $(REBUILD)/clone
	@GOCACHE=$(CURDIR)/$(REBUILD)/gocache ZIG_GLOBAL_CACHE_DIR=$(CURDIR)/$(REBUILD)/zigcache $(MAKE) --no-print-directory -C $(REBUILD)/clone release
	diff build/release/dist/SHA256SUMS $(REBUILD)/clone/build/release/dist/SHA256SUMS && echo "both builds are the same"
	$(GO) test -C tools/release -tags dist -count=1 -v ./dist

tools: ## Build Prometheus, Alertmanager and promtool, or take them from the PATH when new enough.
	@tools/build.sh prometheus promtool alertmanager

FAULT ?= link-stall
RANK  ?= 5

demo: build tools ## Run a small cluster, inject FAULT at RANK, print the verdict. FAULT=none stays healthy; NCCL=2.30.7 runs on the real library.
	@$(BIN)/culprit-demo --fault=$(FAULT) --rank=$(RANK) --nccl=$(NCCL)

# Releases of NCCL: versions, minors, all, ci, short, or none. NCCL_LIB=/path/libnccl.so.2 takes a library of your own.
NCCL ?=

nccl: build ## Download the releases NCCL=... (all), once, into .cache/nccl.
	@$(BIN)/culprit-nccl get $(or $(NCCL),all)

# What waits for alerts leaves the processors idle for most of its time: the tests that compute fill that, and give way.
test: build tools ## Run every test. NCCL=none downloads no library.
	@$(MAKE) --no-print-directory -j2 --output-sync=line test-waiting test-beside
	@$(MAKE) --no-print-directory test-fakegpu test-nccl-short

test-waiting:
	@$(MAKE) --no-print-directory -j1 test-e2e test-slow

test-beside:
	@nice -n 10 $(MAKE) --no-print-directory -j1 test-c test-rules test-go test-page test-pyspy

test-go:
	$(GO) test -timeout 30m $$($(GO) list ./... | grep -v -e /sim/e2e -e /sim/ringjob/ -e /sim/fakegpu/ -e /sim/ncclrun/)
	$(GO) test -C sim/scorecard -timeout 30m ./...

test-fakegpu: build ## The played GPU and its NVML, on the newest and the oldest release of NCCL.
	@$(if $(filter none,$(NCCL)),,$(BIN)/culprit-nccl get $(or $(NCCL),short))
	@$(MAKE) --silent --no-print-directory -C sim/fakegpu tests
	@$(MAKE) --silent --no-print-directory -C sim/fakegpu/nvml tests
	$(GO) test -timeout 60m -count=1 ./sim/fakegpu/...

test-ncclrun: build ## The training program on the newest and the oldest release of NCCL.
	@$(if $(filter none,$(NCCL)),,$(BIN)/culprit-nccl get $(or $(NCCL),short))
	$(GO) test -timeout 60m -count=1 ./sim/ncclrun/...

test-nccl: build tools ## Every fault on every release of NCCL, to the page; goes on where it was ended. VERSIONS= FAULTS= MODES= PARALLEL= FRESH=1 FORGET=1. Takes hours.
	@$(BIN)/culprit-nccl test --nccl='$(or $(VERSIONS),$(NCCL),all)' --faults='$(FAULTS)' --modes='$(MODES)' $(if $(FRESH),--fresh) $(if $(FORGET),--forget-wrong)

test-nccl-short test-nccl-ci: test-nccl-%: build tools ## A few faults on the newest and the oldest release of NCCL; on four releases.
	@$(BIN)/culprit-nccl test --list=$* --nccl='$(or $(NCCL),$*)' --fresh --out=build/nccl-$*

N ?= 20

test-nccl-flaky: build tools ## The list of test-nccl-ci N times on a machine kept busy; goes on where it was interrupted, FRESH=1 starts over.
	@$(BIN)/culprit-nccl test --list=ci --nccl='$(or $(NCCL),ci)' $(if $(FRESH),--fresh) --out=build/nccl-flaky --repeat=$(N) --load=4

nccl-report: ## Print the results of test-nccl again.
	@$(BIN)/culprit-nccl report

test-c:
	@$(MAKE) --silent --no-print-directory -C ncclshim test
	@$(MAKE) --silent --no-print-directory -C sim/ringjob test

test-rules:
	mixin/test.sh

PYSPY := .cache/py-spy

$(PYSPY)/bin/py-spy:
	@echo "installing py-spy 0.4.1 into $(PYSPY)"
	@python3 -m venv $(PYSPY)
	@$(PYSPY)/bin/pip install --quiet --disable-pip-version-check py-spy==0.4.1

test-pyspy: $(PYSPY)/bin/py-spy
	PY_SPY=$(CURDIR)/$(PYSPY)/bin/py-spy PYTHON=$$(command -v python3) $(GO) test -tags pyspy ./analyzer/offline/stackdump

TORCH_VERSIONS ?= 2.8.0 2.9.1 2.10.0 2.15.0
TORCH_DUMPS := analyzer/offline/testdata/torch

record-dumps: ## Record Flight Recorder dumps of faulty PyTorch jobs (TORCH_VERSIONS="2.9.1 …", FORCE=1 again); wheels are large.
	@for v in $(TORCH_VERSIONS); do \
	  if [[ -d $(TORCH_DUMPS)/torch-$$v && -z "$(FORCE)" ]]; then echo "torch $$v is recorded (FORCE=1 records it again)"; continue; fi; \
	  env=.cache/torch-$$v; \
	  if [[ ! -e $$env/installed ]]; then \
	    echo "installing torch $$v into $$env"; \
	    python3 -m venv $$env && $$env/bin/pip install --quiet --disable-pip-version-check torch==$$v numpy && touch $$env/installed || exit 1; \
	  fi; \
	  $$env/bin/python $(TORCH_DUMPS)/record.py $(TORCH_DUMPS) || exit 1; \
	  $$env/bin/python $(TORCH_DUMPS)/record_nccl.py $(TORCH_DUMPS) || exit 1; \
	done

JOBS := analyzer/offline/testdata/jobs
RECORDING_VERSIONS ?= 2.9.1 2.10.0 2.15.0

test-recordings: $(PYSPY)/bin/py-spy ## Run PyTorch programs that go wrong, record what they leave, and judge the analysis. RECORDING_VERSIONS= PROGRAMS=; wheels are large, a version takes half an hour.
	@rm -rf build/recordings
	@for v in $(RECORDING_VERSIONS); do \
	  env=.cache/torch-$$v; \
	  if [[ ! -e $$env/installed ]]; then \
	    echo "installing torch $$v into $$env"; \
	    python3 -m venv $$env && $$env/bin/pip install --quiet --disable-pip-version-check torch==$$v numpy && touch $$env/installed || exit 1; \
	  fi; \
	  PY_SPY=$(CURDIR)/$(PYSPY)/bin/py-spy $$env/bin/python $(JOBS)/record.py build/recordings $(PROGRAMS) || exit 1; \
	done
	RECORDINGS=$(CURDIR)/build/recordings $(GO) test -count=1 -v -run TestRecordings ./analyzer/offline

test-e2e: build tools ## Real processes, Prometheus and Alertmanager: every fault names its rank.
	$(GO) test -timeout 60m -count=1 -parallel 3 -v ./sim/e2e

test-levels: build tools ## Real processes at each level of evidence: every fault at which a job stands still names its rank or nobody.
	$(GO) test -timeout 30m -count=1 -parallel 3 -v -run TestLevelsOfEvidence ./sim/e2e -e2e.levels

test-slow: build tools ## Real processes that only get slow: every fault names its rank.
	$(GO) test -tags slow -timeout 30m -count=1 -parallel 3 -v -run 'TestSlow|TestThrottledGPU' ./sim/e2e

test-transfers: build tools ## A job with ten minutes of history whose transfers get slow: CulpritTransfersSlow names the rank. Takes eleven minutes.
	$(GO) test -tags transfers -timeout 30m -count=1 -v -run 'TestTransfersSlow' ./sim/e2e

MINUTES ?= 5
chaos: build tools ## For MINUTES= kill, stop, delay and fill the disks of all services at random beside faulty jobs: nothing lost, told twice or told of an innocent. CLOCK=yes lets the machine's clock jump, too. SEED= repeats. Needs root.
	$(GO) test -tags chaos -timeout 0 -count=1 -v ./sim/chaos -minutes $(MINUTES) $(if $(CLOCK),-clock) $(if $(SEED),-seed $(SEED))

test-slurm: build tools ## Real slurmctld and slurmd on loopback: the page names the rank with Slurm's job and step, and a verdict drains a node. Installs them; needs root.
	@$(call have,slurmctld slurmd srun munged) && [[ -e /usr/include/slurm/spank.h ]] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge libslurm-dev; }
	$(GO) test -tags slurm -timeout 15m -count=1 -v ./deploy/slurm ./deploy/actions

LAUNCHER_TORCH ?= 2.9.1

test-launchers: build tools ## Real mpirun and torchrun: the page calls the job as they do. Installs them; a wheel is large.
	@command -v mpirun >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openmpi-bin; }
	@env=.cache/torch-$(LAUNCHER_TORCH); \
	if [[ ! -e $$env/installed ]]; then \
	  echo "installing torch $(LAUNCHER_TORCH) into $$env"; \
	  python3 -m venv $$env && $$env/bin/pip install --quiet --disable-pip-version-check torch==$(LAUNCHER_TORCH) numpy && touch $$env/installed; \
	fi
	TORCHRUN=$(CURDIR)/.cache/torch-$(LAUNCHER_TORCH)/bin/torchrun $(GO) test -tags launchers -timeout 15m -count=1 -v ./sim/launchers

# The last release; OLD=commit takes another.
OLD ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)

test-upgrade: build tools ## Parts of this tree with parts of release OLD: shim, exporter and analyzer, each older and newer, up to the page.
	@[[ -n "$(OLD)" ]] || { echo "no release is tagged: make test-upgrade OLD=commit"; exit 1; }
	@rm -rf build/upgrade && mkdir -p build/upgrade/old && git archive $(OLD) | tar -x -C build/upgrade/old
	@echo "building $(OLD)"
	@$(MAKE) --silent --no-print-directory -C build/upgrade/old/ncclshim
	@$(GO) build -C build/upgrade/old -buildvcs=false -o bin/culprit-exporter ./exporter
	@$(GO) build -C build/upgrade/old -buildvcs=false -o bin/culprit-analyzer ./analyzer
	$(GO) test -tags upgrade -timeout 40m -count=1 -v ./sim/upgrade

test-kubernetes: build ## A real kube-apiserver takes the chart's objects, the policies and the recipes' jobs, and asks the webhook. The first build takes a quarter of an hour.
	@tools/build.sh etcd kube-apiserver kyverno helm
	$(GO) test -C tools/helm -tags server -timeout 20m -count=1 -v -run Server .

test-victoriametrics: build tools ## VictoriaMetrics and vmalert with the rules that ship: the page names the rank, the doctor finds nothing wrong.
	@tools/build.sh victoria-metrics vmalert
	$(GO) test -tags storage -timeout 15m -count=1 -v -run VictoriaMetrics ./sim/storage

test-thanos: build tools ## Thanos Query and Ruler over a Prometheus for each host: the page names the rank, also while one of them is down.
	@tools/build.sh thanos
	$(GO) test -tags storage -timeout 15m -count=1 -v -run Thanos ./sim/storage

test-mimir: build tools ## Mimir with its ruler, as one of its tenants: the page names the rank.
	@tools/build.sh mimir
	$(GO) test -tags storage -timeout 15m -count=1 -v -run Mimir ./sim/storage

SYSTEMD_ROOT := .cache/systemd-root

$(SYSTEMD_ROOT):
	@$(call have,debootstrap systemd-nspawn) || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap systemd-container; }
	@echo "making a root directory with systemd"
	@rm -rf $@.new && debootstrap --variant=minbase --include=systemd,systemd-sysv,procps bookworm $@.new $(or $(DEBIAN_MIRROR),http://deb.debian.org/debian) >/dev/null && mv $@.new $@

test-systemd: release $(SYSTEMD_ROOT) ## The packages under a real systemd: installed, started, scraped, upgraded, removed. Needs root and a kernel that lets systemd-nspawn boot.
	SYSTEMD_ROOT=$(CURDIR)/$(SYSTEMD_ROOT) $(GO) test -C tools/release -tags systemd -count=1 -v -run TestSystemd ./dist

test-chart: ## Render the Helm chart for each kind of site, compare with golden files, check it with the types of Kubernetes and its operators.
	$(GO) test -C tools/helm -count=1 ./...

# What make test-page needs: Chromium, and axe-core, which finds what keeps people out of a page. npm only fetches it.
AXE_VERSION := 4.10.3
AXE_SHA256  := 0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292
AXE         := .cache/axe-core-$(AXE_VERSION)/package/axe.min.js

$(AXE): | chromium
	@mkdir -p .cache/axe-core-$(AXE_VERSION)
	@cd .cache/axe-core-$(AXE_VERSION) && npm pack --silent axe-core@$(AXE_VERSION) >/dev/null && echo '$(AXE_SHA256)  axe-core-$(AXE_VERSION).tgz' | sha256sum --check --quiet && tar -xzf axe-core-$(AXE_VERSION).tgz package/axe.min.js

.PHONY: chromium

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || [[ -n "$$CHROMIUM" ]] || \
	  { echo "installing chromium"; apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
	@command -v npm >/dev/null || [[ -e $(AXE) ]] || { echo "installing npm"; apt-get update -qq && apt-get install -y -qq --no-install-recommends npm >/dev/null; }

test-page: chromium $(AXE) ## Look at the analyzer's pages in Chromium: light, dark, phone, print, keyboard, axe-core. PICTURES=folder saves what they look like.
	AXE=$(CURDIR)/$(AXE) PICTURES=$(if $(PICTURES),$(abspath $(PICTURES))) $(GO) test -C sim/browser -timeout 20m -count=1 ./...

bench-page: chromium ## How long after it is asked for the page of 8 to 102,400 ranks can be used; the budget is 1 s on two cores. Wants a quiet machine.
	$(GO) test -C sim/browser -run '^$$' -bench Usable -benchtime 9x -timeout 10m ./...

pictures: build tools chromium $(AXE) ## Take pictures of the analyzer's pages from runs of the demo, into docs/pictures. Takes minutes.
	AXE=$(CURDIR)/$(AXE) sim/browser/pictures.sh

check-dashboards: ## Hold the dashboards against the types of Grafana's schema, and build the page that draws them. The first time npm installs 600 MB.
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends npm >/dev/null; }
	tools/dashboards/build.sh

dashboard-pictures: build tools chromium check-dashboards ## Draw the dashboards with Grafana's panels from runs of the demo, into docs/pictures; each query returns data. Takes minutes.
	sim/browser/dashboards.sh

lint: ## Run the pinned linters.
	@tools/build.sh golangci-lint
	$(BIN)/tools/golangci-lint run ./...
	cd sim/scorecard && $(CURDIR)/$(BIN)/tools/golangci-lint run ./...

bench: build ## Print measured costs beside the budgets of the design.
	$(MAKE) --no-print-directory -C ncclshim bench
	$(GO) test -run '^$$' -bench . -benchtime 1s ./trace ./exporter/... ./analyzer/...

bench-latency: build tools ## From trigger to verdict at 10,240 simulated ranks under a real Prometheus. Takes minutes, wants a quiet machine.
	$(GO) test -run '^$$' -bench . -benchtime 12x -timeout 20m -v ./sim/latency

LOG_GB ?= 5

bench-logs: ## `analyze` on LOG_GB gigabytes of logs of eight hosts: time and peak memory. Writes them into TMPDIR.
	LOG_GB=$(LOG_GB) $(GO) test -run '^$$' -bench 'Logs$$' -benchtime 1x -timeout 20m ./analyzer/offline

generate: ## Render rules/ (for every scrape interval) and dashboards/ from mixin/, and write THIRD_PARTY_NOTICES.
	@tools/build.sh jsonnet
	mixin/generate.sh
	$(GO) generate ./trace/...
	$(GO) run ./tools/notices

check-generated: ## Fail when rules/, dashboards/ or THIRD_PARTY_NOTICES differ from what is generated, or a licence is not on the list.
	@tools/build.sh jsonnet
	mixin/generate.sh --check
	$(GO) run ./tools/notices --check

vulncheck: ## Look linked code up in Go's vulnerability database; says so when that cannot be reached. GOVULNDB=file:///path takes a copy.
	@tools/vulncheck.sh

TIME ?= 10s

fuzz: ## Run every fuzz target for TIME, one after another, and print what each did. PACKAGES="./trace …" runs some.
	@tools/fuzz.sh $(TIME) $(PACKAGES)

corpus: ## Keep in testdata/fuzz the smallest inputs of earlier fuzzing that reach what all of them do. PACKAGES="./trace …" takes some.
	@tools/corpus.sh $(PACKAGES)

scorecard: ## Run the quick scorecard; fails under the committed floors.
	$(GO) build -C sim/scorecard -o $(CURDIR)/$(BIN)/culprit-sim ./cmd/culprit-sim
	$(BIN)/culprit-sim scorecard --quick

BLIND ?= 1001,1002,1003

scorecard-full: ## Run the scorecard at every scale to 10,240 ranks and on drawn jobs, and write results/scorecard.md: an hour on two cores; goes on where it was ended.
	$(GO) build -C sim/scorecard -o $(CURDIR)/$(BIN)/culprit-sim ./cmd/culprit-sim
	$(BIN)/culprit-sim scorecard --full --blind=$(BLIND) --resume --out build/scorecard-full --markdown results/scorecard.md

STEPS ?= 60

soak: build ## 8 ranks, 16 communicators, 32 channels for STEPS steps: memory stays flat. Takes minutes.
	$(GO) test -tags soak -timeout 60m -count=1 -v -run TestSoak ./sim/ringjob/tests -steps $(STEPS)

sanitizers: ## The shim and ringjob under AddressSanitizer, UBSan, ThreadSanitizer and valgrind. Takes minutes.
	@$(MAKE) --silent --no-print-directory -C ncclshim sanitizers
	@$(MAKE) --silent --no-print-directory -C sim/ringjob asan tsan

gpu-e2e: build ## On a machine with an NVIDIA GPU: the end-to-end check on real NCCL.
	@sim/gpu/run.sh .cache/gpu-e2e

nccl-behaviour: ## Write results/nccl-behaviour.md, what NCCL's callbacks did in the recordings in sim/ncclrecord/testdata.
	@mkdir -p results
	$(GO) run ./sim/ncclrecord document > results/nccl-behaviour.md

bench-nccl: ## What the shim's callbacks cost inside the real NCCL=2.30.7 (in .cache/nccl). Takes minutes, wants a quiet machine.
	@$(MAKE) --silent --no-print-directory -C ncclshim
	@$(MAKE) --silent --no-print-directory -C sim/ncclrun
	@$(MAKE) --silent --no-print-directory -C sim/ncclrecord
	$(GO) run ./sim/ncclrecord bench --library .cache/nccl/$(or $(NCCL),2.30.7)/libnccl.so.2 $(if $(OTHERS),--others $(OTHERS))

nccl-record: ## Record the callbacks of NCCL="2.30.7 …" (in .cache/nccl) that sim/ncclrecord/testdata lacks; AGAIN=1 records all again.
	@$(MAKE) --silent --no-print-directory -C sim/ncclrun
	@$(MAKE) --silent --no-print-directory -C sim/ncclrecord
	$(GO) run ./sim/ncclrecord record $(if $(AGAIN),--again) $(NCCL)

clean: ## Remove what the build made, but for bin/tools.
	find $(BIN) -maxdepth 1 -type f -delete 2>/dev/null || true
	rm -rf build
