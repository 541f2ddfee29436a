// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/culprit-project/culprit/tools/ci/plan"
	"github.com/culprit-project/culprit/tools/ci/setup"
)

// where says which runs have a task without being told to.
type where int

const (
	byHand where = iota
	inTest       // make test, and with it each run of .ci/run.
	inCI         // Each run of .ci/run.
	inLong       // make test-long; each run of .ci/run has a slice.
)

func (w where) String() string {
	switch w {
	case inTest:
		return "`make test`"
	case inCI:
		return "`.ci/run`"
	case inLong:
		return "long list"
	case byHand:
	}
	return "by hand"
}

// task is something that somebody runs by name.
type task struct {
	name     string
	about    string
	settings string // Variables that it takes, with what they are otherwise.
	where    where
	lane     plan.Lane
	took     time.Duration // On two quiet cores, when everything that it needs is there; 0: see about.
	first    string        // What comes on top the first time, with a reason.
	needs    setup.Needs
	more     func(getenv func(string) string) setup.Needs // What settings need on top.
	script   string                                       // Bash, at the root of the repository.
}

const (
	second = time.Second
	minute = time.Minute
)

// What several tasks need.
var (
	nothing = setup.Needs{}
	renders = []string{"jsonnet"} // What mixin/generate.sh takes.
	built   = setup.Needs{Programs: setup.AllPrograms()}
	stack   = setup.Needs{Programs: cluster, Tools: []string{"prometheus", "promtool", "alertmanager"}}
	// What runs in a cluster of real processes: all but culprit-sim, which has Prometheus in it and takes as long to build as the rest.
	cluster  = slices.DeleteFunc(setup.AllPrograms(), func(name string) bool { return name == "culprit-sim" })
	mixin    = setup.Needs{Tools: []string{"promtool", "amtool", "jsonnet", "jsonnetfmt", "jsonnet-lint"}}
	jobs     = setup.Needs{Programs: []string{"shim", "ringjob"}}
	nccl     = setup.Needs{Programs: []string{"shim", "ncclrun", "nccl-get"}}
	chromium = setup.Packages("Chromium", `command -v chromium || command -v chromium-browser || command -v google-chrome || [[ -n ${CHROMIUM:-} ]]`, "chromium")
	clang    = setup.Packages("clang 19, LLVM 19, libbpf", `command -v clang-19 && command -v llvm-strip-19 && [[ -e /usr/include/bpf/bpf_helpers.h ]]`, "clang-19", "llvm-19", "libbpf-dev")
	npm      = setup.Packages("npm", `command -v npm || [[ -e $AXE ]]`, "npm")
	// axe-core finds what keeps people out of a page; npm only fetches it.
	axe = setup.Install{Name: "axe-core", Have: `[[ -e $AXE ]]`, Get: `
		dir=.cache/axe-core-4.10.3
		mkdir -p $dir && cd $dir && npm pack --silent axe-core@4.10.3
		echo '0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292  axe-core-4.10.3.tgz' | sha256sum --check --quiet
		tar -xzf axe-core-4.10.3.tgz package/axe.min.js`}
	pySpy = setup.Install{Name: "py-spy", Have: `[[ -x $PY_SPY ]]`, Get: `
		python3 -m venv .cache/py-spy
		.cache/py-spy/bin/pip install --quiet --disable-pip-version-check py-spy==0.4.1`}
	zig = setup.Install{Name: "zig", Have: `[[ -e .cache/zig/zig && ! tools/release/zig.txt -nt .cache/zig/zig ]]`, Get: `
		python3 -m venv --clear .cache/zig
		.cache/zig/bin/pip install --quiet --disable-pip-version-check --require-hashes -r tools/release/zig.txt
		.cache/zig/bin/python -c 'import os, ziglang; os.symlink(os.path.join(os.path.dirname(ziglang.__file__), "zig"), ".cache/zig/zig")'`}
	debootstrap = setup.Packages("debootstrap, systemd-nspawn", `command -v debootstrap && command -v systemd-nspawn`, "debootstrap", "systemd-container")
	systemdRoot = setup.Install{Name: "a root directory with systemd", Root: true, Have: `[[ -d .cache/systemd-root ]]`, Get: `
		rm -rf .cache/systemd-root.new
		debootstrap --variant=minbase --include=systemd,systemd-sysv,procps bookworm .cache/systemd-root.new "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >/dev/null
		mv .cache/systemd-root.new .cache/systemd-root`}
	slurm = setup.Packages("Slurm", `command -v slurmctld && command -v slurmd && command -v srun && command -v munged && [[ -e /usr/include/slurm/spank.h ]]`,
		"slurmctld", "slurmd", "slurm-client", "munge", "libslurm-dev")
	openMPI   = setup.Packages("Open MPI", `command -v mpirun`, "openmpi-bin")
	valgrind  = setup.Packages("valgrind", `command -v valgrind`, "valgrind")
	packagers = setup.Packages("rpm, qemu-user, binutils", `command -v rpm && command -v qemu-aarch64 && command -v readelf`, "rpm", "qemu-user", "binutils")
	browser   = setup.Needs{Installs: []setup.Install{chromium, npm, axe}}
)

// torch installs the releases of PyTorch that a variable names.
func torch(versions string) setup.Install {
	return setup.Install{
		Name: "PyTorch",
		Have: `for v in ` + versions + `; do [[ -e .cache/torch-$v/installed ]]; done`,
		Get: `for v in ` + versions + `; do
			env=.cache/torch-$v
			[[ ! -e $env/installed ]] || continue
			python3 -m venv $env
			$env/bin/pip install --quiet --disable-pip-version-check torch==$v numpy
			touch $env/installed
		done`,
	}
}

// real is what a run on the library itself needs on top.
func real(getenv func(string) string) setup.Needs {
	if (getenv("NCCL") == "" || getenv("NCCL") == "none") && getenv("NCCL_LIB") == "" {
		return nothing
	}
	return nccl
}

// library gets releases of NCCL for the tests that run on them.
const library = `[[ ${NCCL:-short} == none ]] || bin/nccl-get "${NCCL:-short}"
`

var tasks = []task{
	// To build and to run.
	{name: "build", about: "Build the shim, the training programs and the Go programs into bin/.", needs: built},
	{
		name: "demo", about: "Run a small cluster, inject FAULT at RANK, print the verdict. FAULT=none stays healthy; NCCL=2.30.7 runs on the real library.",
		settings: "FAULT=link-stall RANK=5 NCCL=", took: 20 * second, first: "2 min to build",
		needs: setup.Needs{
			Programs: []string{"shim", "ringjob", "culprit-exporter", "culprit-analyzer", "culprit-demo"},
			Tools:    []string{"prometheus", "alertmanager"},
		},
		more:   real,
		script: `bin/culprit-demo --fault="${FAULT:-link-stall}" --rank="${RANK:-5}" --nccl="${NCCL:-}"`,
	},
	{name: "shim", about: "Build the shim.", needs: setup.Needs{Programs: []string{"shim"}}},
	{name: "ringjob", about: "Build ringjob, the training program that needs no NCCL.", needs: setup.Needs{Programs: []string{"ringjob"}}},
	{name: "ncclrun", about: "Build ncclrun, its played GPU and the recorder.", needs: setup.Needs{Programs: []string{"ncclrun"}}},
	{name: "go-build", about: "Build the Go programs.", needs: setup.Needs{Programs: setup.GoPrograms()}},
	{
		name: "tools", about: "Get Prometheus, Alertmanager and promtool: from the PATH, the distribution, or their pinned modules. CULPRIT_TOOLS=module takes the last.",
		settings: "CULPRIT_TOOLS=", needs: setup.Needs{Tools: stack.Tools},
	},
	{
		name: "nccl", about: "Download the releases NCCL= of the NCCL library into .cache/nccl, each once.", settings: "NCCL=all", needs: nccl,
		script: `bin/nccl-get "${NCCL:-all}"`,
	},
	{
		name: "release", about: "Build what is published into build/release/dist: tarballs, deb, rpm, images, SBOM, provenance, checksums.",
		settings: "OUT=build/release DEBIAN_MIRROR=", took: 4 * minute, first: "5 min for zig and base images",
		needs: setup.Needs{Tools: renders, Installs: []setup.Install{zig}}, script: release,
	},
	{
		name: "images", about: "Build images for this machine, and the chart, into build/images/dist. TO=kind, k3s, containerd or REGISTRY/FOLDER loads or pushes them.",
		settings: "TO= ARCH= OUT=build/images DEBIAN_MIRROR=", took: 2 * minute, first: "5 min for zig and base images",
		needs:  setup.Needs{Tools: renders, Installs: []setup.Install{zig}},
		script: `OUT=${OUT:-build/images}; ` + release + ` --images --arch="${ARCH:-$(go env GOARCH)}" --to="${TO:-}"`,
	},

	// make test.
	{
		name: "test-e2e", where: inTest, lane: plan.Waits, took: 5 * minute, needs: stack,
		about:  "Real processes, Prometheus and Alertmanager: every fault names its rank.",
		script: `go test -timeout 60m -count=1 -v ./sim/e2e`,
	},
	{
		name: "test-c", where: inTest, took: minute, needs: jobs,
		about: "The suites of the shim and of ringjob.",
		script: `make --silent --no-print-directory -j"$(nproc)" -C ncclshim test
			make --silent --no-print-directory -C sim/ringjob test`,
	},
	{
		name: "test-rules", where: inTest, took: 2 * minute,
		about:  "Unit tests of the shipped rules and dashboards, and of the configuration in deploy/.",
		needs:  mixin,
		script: `mixin/test.sh`,
	},
	{
		name: "test-go", where: inTest, took: 4 * minute, needs: stack,
		about: "Unit tests in Go; fuzz targets on their seeds. Of tests that draw jobs at random, a share.",
		// The linters vet. What draws jobs makes much garbage, and little of it lives.
		script: `export GOGC=400
			go test -short -vet=off -timeout 30m $(go list ./... | grep -v -e /sim/e2e -e /sim/ringjob/ -e /sim/components/attach -e /sim/components/nvml)
			go test -C lab -short -vet=off -timeout 30m ./cmd/... ./nccl/... ./ncclrecord/...
			go test -C sim/scorecard -short -vet=off -timeout 30m ./...`,
	},
	{
		name: "test-page", where: inTest, took: minute, needs: browser, settings: "PICTURES=",
		about:  "The analyzer's pages in Chromium: light, dark, phone, print, keyboard, axe-core. PICTURES=folder saves what they look like.",
		script: `PICTURES=${PICTURES:+$(realpath -m "$PICTURES")} go test -C sim/browser -timeout 20m -count=1 ./...`,
	},
	{
		name: "test-pyspy", where: inTest, took: 30 * second, needs: setup.Needs{Installs: []setup.Install{pySpy}},
		about: "Stacks of live Python processes, by a real py-spy; and verdicts on processes that hang in Python or are busy.",
		script: `PYTHON=$(command -v python3) go test -tags pyspy ./analyzer/offline/stackdump
			PYTHON=$(command -v python3) go test -tags pyspy -run RealPython ./analyzer/app`,
	},
	{
		name: "test-fakegpu", where: inTest, lane: plan.Waits, took: minute, first: "two downloads of NCCL", needs: nccl.And(setup.Needs{Programs: []string{"culprit-exporter"}}), settings: "NCCL=short",
		about: "The played GPU and its NVML, on the newest and the oldest release of NCCL. NCCL=none downloads none.",
		script: library + `make --silent --no-print-directory -C lab/fakegpu tests
			make --silent --no-print-directory -C lab/fakegpu/nvml tests
			go test -C lab -timeout 60m -count=1 ./fakegpu/...
			go test -timeout 60m -count=1 ./sim/components/nvml`,
	},
	{
		name: "test-nccl-short", where: inTest, lane: plan.Waits, took: 2 * minute, first: "two downloads of NCCL", needs: stack, settings: "NCCL=short",
		about:  "A few faults on the newest and the oldest release of NCCL, to the page.",
		script: `bin/culprit-nccl test --list=short --nccl="${NCCL:-short}" --fresh --out=build/nccl-short`,
	},

	// Every run of .ci/run.
	{
		name: "lint", where: inCI, took: minute, first: "4 min to build the linters",
		about: "Run the pinned linters on Go and on the rules.",
		needs: setup.Needs{Tools: []string{"golangci-lint", "pint", "jsonnet"}},
		script: `bin/tools/golangci-lint run ./...
			root=$PWD
			for module in lab sim/scorecard; do (cd "$module" && "$root"/bin/tools/golangci-lint run ./...); done
			rendered=$(mktemp -d)
			trap 'rm -rf "$rendered"' EXIT
			mixin/generate.sh --into "$rendered"
			# Without a Prometheus to ask: what can be told from the rules alone.
			bin/tools/pint --no-color --offline --log-level=error lint --min-severity=info --fail-on=warning "$rendered"/rules/{.,sources,scrape-*}/*.yaml`,
	},
	{
		name: "check-generated", where: inCI, took: 10 * second, needs: setup.Needs{Tools: renders},
		about: "Fail when rules/, dashboards/ or THIRD_PARTY_NOTICES differ from what is generated, or a licence is not on the list.",
		script: `mixin/generate.sh --check
			go run ./tools/notices --check`,
	},

	// The long list.
	{
		name: "check-probes", where: inLong, took: 5 * second, needs: setup.Needs{Installs: []setup.Install{clang}},
		about: "Fail when the objects of exporter/uprobe/bpf are not what its source compiles to.",
		script: `compiled=$(mktemp -d)
			trap 'rm -rf "$compiled"' EXIT
			exporter/uprobe/bpf/generate.sh "$compiled"
			for object in "$compiled"/*.o; do cmp "$object" "exporter/uprobe/bpf/${object##*/}"; done`,
	},
	{
		name: "test-mount", where: inLong, took: 20 * second, needs: setup.Needs{Installs: []setup.Install{pySpy}},
		about:  "Verdicts on Python processes that wait for a file system whose server has stopped answering. Needs root and FUSE.",
		script: `PYTHON=$(command -v python3) go test -tags pyspy,fuse -run RealMount ./analyzer/app`,
	},
	{
		name: "test-slurm", where: inLong, lane: plan.Waits, took: 2 * minute, needs: stack.And(setup.Needs{Installs: []setup.Install{slurm}}),
		about:  "Real slurmctld and slurmd on loopback: the page names the rank with Slurm's job and step, and a verdict drains a node. Needs root.",
		script: `go test -tags slurm -timeout 15m -count=1 -v ./deploy/slurm ./deploy/actions`,
	},
	{
		name: "test-ncclrun", where: inLong, lane: plan.Alone, took: 3 * minute, first: "two downloads of NCCL", needs: built, settings: "NCCL=short",
		about: "The training program on the newest and the oldest release of NCCL; jobs that nobody prepared, by probes. Needs root.",
		script: library + `go test -C lab -timeout 60m -count=1 ./ncclrun/...
			go test -timeout 60m -count=1 ./sim/components/attach`,
	},
	{
		name: "test-nccl-ci", where: inLong, lane: plan.Alone, took: 7 * minute, first: "four downloads of NCCL", needs: stack, settings: "NCCL=ci",
		about:  "Ten faults on each of four releases of NCCL, to the page.",
		script: `bin/culprit-nccl test --list=ci --nccl="${NCCL:-ci}" --fresh --out=build/nccl-ci`,
	},
	{
		name: "test-nccl-draws", where: inLong, lane: plan.Alone, took: 6 * minute, first: "four downloads of NCCL", needs: stack, settings: "NCCL=ci",
		about:  "Jobs and faults drawn from the commit, on NCCL, to the page; and those that failed and have not passed ten times since.",
		script: `bin/culprit-nccl test --draws --nccl="${NCCL:-ci}"`,
	},
	{
		name: "scorecard", where: inLong, took: 4 * minute, needs: setup.Needs{Programs: []string{"culprit-sim"}},
		about:  "Run the quick scorecard; fails under the committed floors.",
		script: `bin/culprit-sim scorecard --quick`,
	},
	{
		name: "test-go-long", where: inLong, took: 76 * second,
		about: "The tests that make test has in part: all that are drawn, each harm of each stall.",
		script: `export GOGC=400
			shortened=$(grep -rlE --include='*_test.go' 'testing\.Short\(\)|rcatest\.Draws\(' analyzer exporter sim/[a-r]* | xargs -n1 dirname | sort -u)
			go test -vet=off -timeout 30m $(printf './%s ' $shortened)
			go test -C sim/scorecard -vet=off -timeout 30m ./trial`,
	},
	{
		name: "test-rules-long", where: inLong, took: 81 * second, needs: mixin,
		about:  "What test-rules runs, and the triggers on the rules for each scrape interval.",
		script: `mixin/test.sh --all`,
	},
	{
		name: "test-chart", where: inLong, took: 20 * second, first: "3 min to build Helm's packages",
		about:  "Render the Helm chart for each kind of site, compare with golden files, check it with the types of Kubernetes and its operators.",
		script: `go test -C tools/helm -count=1 ./...`,
	},
	{
		name: "test-levels", where: inLong, lane: plan.Waits, took: 4 * minute, needs: stack,
		about:  "Real processes at each level of evidence: every fault that stops a job still names its rank or nobody.",
		script: `go test -timeout 60m -count=1 -v -run TestLevelsOfEvidence ./sim/e2e -e2e.long`,
	},
	{
		name: "test-e2e-long", where: inLong, lane: plan.Waits, took: 5 * minute, needs: stack,
		about:  "The end-to-end tests that make test has in part: each version of the profiler interface, jobs of up to 512 simulated ranks, liars.",
		script: `go test -timeout 60m -count=1 -v -run 'TestProfilerVersions|TestSimulatedClusters|TestLargeJobs|TestLiars' ./sim/e2e -e2e.long`,
	},
	{
		name: "test-transfers", where: inLong, lane: plan.Waits, took: 11 * minute, needs: stack,
		about:  "A job with ten minutes of history whose transfers get slow: CulpritTransfersSlow names the rank.",
		script: `go test -tags transfers -timeout 30m -count=1 -v -run 'TestTransfersSlow' ./sim/e2e`,
	},
	{
		name: "test-launchers", where: inLong, lane: plan.Waits, took: 5 * minute, first: "7 GB of PyTorch", settings: "LAUNCHER_TORCH=2.9.1",
		needs:  stack.And(setup.Needs{Installs: []setup.Install{openMPI, torch("${LAUNCHER_TORCH:-2.9.1}")}}),
		about:  "Real mpirun and torchrun on two played hosts: the page calls the job as they do. Needs root.",
		script: `TORCHRUN=$PWD/.cache/torch-${LAUNCHER_TORCH:-2.9.1}/bin/torchrun go test -tags launchers -timeout 15m -count=1 -v ./sim/launchers`,
	},
	{
		name: "test-kubernetes", where: inLong, took: 4 * minute, first: "25 min to build kube-apiserver and Kyverno",
		needs:  built.And(setup.Needs{Tools: []string{"etcd", "kube-apiserver", "kyverno", "helm"}}),
		about:  "A real kube-apiserver takes the chart's objects, the policies and the recipes' jobs, and asks the webhook.",
		script: `go test -C tools/helm -tags server -timeout 20m -count=1 -v -run Server .`,
	},
	{
		name: "test-victoriametrics", where: inLong, lane: plan.Waits, took: 2 * minute, first: "3 min to build VictoriaMetrics",
		needs:  stack.And(setup.Needs{Tools: []string{"victoria-metrics", "vmalert"}}),
		about:  "VictoriaMetrics and vmalert with the rules that ship: the page names the rank, the doctor finds nothing wrong.",
		script: `go test -tags storage -timeout 15m -count=1 -v -run VictoriaMetrics ./sim/storage`,
	},
	{
		name: "test-thanos", where: inLong, lane: plan.Waits, took: minute, first: "4 min to build Thanos",
		needs:  stack.And(setup.Needs{Tools: []string{"thanos"}}),
		about:  "Thanos Query and Ruler over a Prometheus for each host: the page names the rank, also while one of them is down.",
		script: `go test -tags storage -timeout 15m -count=1 -v -run Thanos ./sim/storage`,
	},
	{
		name: "test-mimir", where: inLong, lane: plan.Waits, took: minute, first: "5 min to build Mimir",
		needs:  stack.And(setup.Needs{Tools: []string{"mimir"}}),
		about:  "Mimir with its ruler, as one of its tenants: the page names the rank.",
		script: `go test -tags storage -timeout 15m -count=1 -v -run Mimir ./sim/storage`,
	},
	{
		name: "test-systemd", where: inLong, settings: "OUT=build/release", took: 2 * minute, first: "5 min for the release and the root directory",
		needs: setup.Needs{Tools: renders, Installs: []setup.Install{zig, debootstrap, systemdRoot}},
		about: "The packages under a real systemd: installed, started, scraped, upgraded, removed. Needs root and a kernel that lets systemd-nspawn boot.",
		script: release + `
			SYSTEMD_ROOT=$PWD/.cache/systemd-root go test -C tools/release -tags systemd -count=1 -v -run TestSystemd ./dist`,
	},
	{
		name: "test-release", where: inLong, settings: "OUT=build/release", took: 10 * minute, needs: built.And(setup.Needs{Tools: renders, Installs: []setup.Install{zig, packagers}}),
		about: "Build the release twice and compare; install, upgrade and remove it. Needs root and a committed tree.",
		script: release + `
			again=$PWD/build/release-again
			rm -rf $again && mkdir -p $again
			git clone --quiet . $again/clone
			GOCACHE=$again/gocache ZIG_GLOBAL_CACHE_DIR=$again/zigcache make --no-print-directory -C $again/clone release
			diff build/release/dist/SHA256SUMS $again/clone/build/release/dist/SHA256SUMS
			echo "both builds are the same"
			go test -C tools/release -tags dist -count=1 -v ./dist`,
	},
	{
		name: "test-upgrade", where: inLong, lane: plan.Waits, took: 3 * minute, needs: stack, settings: "OLD=the last tag, else 15f48ea",
		about:  "Parts of this tree with parts of release OLD: shim, exporter and analyzer, each older and newer, up to the page. 15f48ea is the oldest commit that it can start.",
		script: upgrade,
	},
	{
		name: "sanitizers", where: inLong, took: 5 * minute, needs: setup.Needs{Installs: []setup.Install{valgrind}},
		about: "The shim and ringjob under AddressSanitizer, UBSan, ThreadSanitizer and valgrind.",
		script: `make --silent --no-print-directory -C ncclshim sanitizers
			make --silent --no-print-directory -C sim/ringjob asan tsan`,
	},
	{
		name: "soak", where: inLong, lane: plan.Alone, took: 4 * minute, needs: jobs, settings: "STEPS=60",
		about:  "8 ranks, 16 communicators, 32 channels for STEPS steps: memory stays flat.",
		script: `go test -tags soak -timeout 60m -count=1 -v -run TestSoak ./sim/ringjob/tests -steps "${STEPS:-60}"`,
	},
	{
		name: "fuzz", where: inLong, took: 6 * minute, settings: "TIME=10s PACKAGES=",
		about:  "Run every fuzz target for TIME, one after another, and print what each did. PACKAGES=\"./trace …\" runs some.",
		script: `tools/fuzz.sh "${TIME:-10s}" ${PACKAGES:-}`,
	},
	{
		name: "check-dashboards", where: inLong, took: 30 * second, first: "600 MB by npm", needs: setup.Needs{Installs: []setup.Install{npm}},
		about:  "Hold the dashboards against the types of Grafana's schema, and build the page that draws them.",
		script: `tools/dashboards/build.sh`,
	},
	{
		name: "bench-page", where: inLong, lane: plan.Alone, took: minute, needs: setup.Needs{Installs: []setup.Install{chromium}},
		about:  "How long after a request the page of 8 to 102,400 ranks can be used; the budget is 1 s on two cores, scaled to the machine's pace.",
		script: `go test -C sim/browser -run '^$' -bench Usable -benchtime 9x -timeout 10m ./...`,
	},

	// Longer tests and parts of others, by hand.
	{
		name: "test-slow", lane: plan.Waits, took: 3 * minute, needs: stack,
		about:  "Of the end-to-end tests, those of jobs that only get slow: every fault names its rank.",
		script: `go test -timeout 30m -count=1 -v -run 'TestSlow|TestThrottledGPU' ./sim/e2e`,
	},
	{
		name: "test-recordings", needs: setup.Needs{Installs: []setup.Install{pySpy, torch("${RECORDING_VERSIONS:-2.9.1 2.10.0 2.15.0}")}},
		settings: "RECORDING_VERSIONS=\"2.9.1 2.10.0 2.15.0\" PROGRAMS=", took: 90 * minute, first: "20 GB of PyTorch",
		about: "Run PyTorch programs that go wrong, record what they leave, and judge the analysis; a version takes half an hour.",
		script: `rm -rf build/recordings
			for v in ${RECORDING_VERSIONS:-2.9.1 2.10.0 2.15.0}; do
				.cache/torch-$v/bin/python analyzer/offline/testdata/jobs/record.py build/recordings ${PROGRAMS:-}
			done
			RECORDINGS=$PWD/build/recordings go test -count=1 -v -run TestRecordings ./analyzer/offline`,
	},
	{
		name: "test-nccl", needs: stack, settings: "VERSIONS=all FAULTS= MODES= PARALLEL= FRESH= FORGET=", took: 10 * time.Hour, first: "twelve downloads of NCCL, 5 GB",
		about:  "Every fault on every release of NCCL in seven modes, to the page: 1,344 cases; goes on where it was ended. FRESH=1 starts over, FORGET=1 repeats the wrong ones.",
		script: `bin/culprit-nccl test --nccl="${VERSIONS:-${NCCL:-all}}" --faults="${FAULTS:-}" --modes="${MODES:-}" ${FRESH:+--fresh} ${FORGET:+--forget-wrong}`,
	},
	{
		name: "test-nccl-flaky", needs: stack, settings: "N=20 NCCL=ci FRESH=", took: 5 * time.Hour, first: "four downloads of NCCL",
		about:  "The list of test-nccl-ci N times on a machine kept busy; goes on where it was ended, FRESH=1 starts over.",
		script: `bin/culprit-nccl test --list=ci --nccl="${NCCL:-ci}" ${FRESH:+--fresh} --out=build/nccl-flaky --repeat="${N:-20}" --load=4`,
	},
	{name: "nccl-report", took: second, needs: setup.Needs{Programs: []string{"culprit-nccl"}}, about: "Print the results of test-nccl again.", script: `bin/culprit-nccl report`},
	{
		name: "chaos", needs: stack, settings: "MINUTES=5 CLOCK= SEED=", took: 6 * minute,
		about: "For MINUTES kill, stop, delay and fill the disks of all services at random beside faulty jobs: nothing lost, paged twice or paged for an innocent. " +
			"CLOCK=yes lets the machine's clock jump, too; SEED= repeats. Needs root.",
		script: `go test -tags chaos -timeout 0 -count=1 -v ./sim/chaos -minutes "${MINUTES:-5}" ${CLOCK:+-clock} ${SEED:+-seed "$SEED"}`,
	},
	{
		name: "gpu-e2e", needs: built.And(setup.Needs{Tools: []string{"prometheus", "alertmanager"}}), took: 15 * minute,
		about:  "On a machine with an NVIDIA GPU and PyTorch: the end-to-end check on real NCCL.",
		script: `sim/gpu/run.sh .cache/gpu-e2e`,
	},
	{
		name: "test-busy", needs: stack.And(browser), settings: "N=20", took: 5 * time.Hour,
		about:  "make test's tests N times beside four busy loops: no test may depend on the machine's pace.",
		script: `tools/test-busy.sh "${N:-20}"`,
	},
	{
		name: "vulncheck", took: minute, needs: setup.Needs{Tools: []string{"govulncheck"}}, settings: "GOVULNDB=",
		about:  "Look linked code up in Go's vulnerability database; says so when that cannot be reached. GOVULNDB=file:///path takes a copy.",
		script: `tools/vulncheck.sh`,
	},

	// To measure.
	{
		name: "bench", needs: setup.Needs{Programs: []string{"shim"}}, took: 4 * minute,
		about: "Print measured costs beside the budgets of the design.",
		script: `make --no-print-directory -C ncclshim bench
			go test -run '^$' -bench . -benchtime 1s ./trace ./exporter/... ./analyzer/...`,
	},
	{
		name: "bench-latency", needs: stack, took: 5 * minute,
		about:  "From trigger to verdict at 10,240 simulated ranks under a real Prometheus. Wants a quiet machine.",
		script: `go test -run '^$' -bench . -benchtime 12x -timeout 20m -v ./sim/latency`,
	},
	{
		name: "bench-logs", settings: "LOG_GB=5", took: 2 * minute,
		about:  "`analyze` on LOG_GB gigabytes of logs of eight hosts: time and peak memory. Writes them into TMPDIR.",
		script: `LOG_GB=${LOG_GB:-5} go test -run '^$' -bench 'Logs$' -benchtime 1x -timeout 20m ./analyzer/offline`,
	},
	{
		name: "bench-outside", settings: "NVRX= TORCH_VERSIONS=\"2.9.1 2.10.0\"", took: 12 * minute, first: "14 GB of PyTorch",
		needs:  setup.Needs{Programs: []string{"culprit-analyzer"}, Installs: []setup.Install{pySpy, torch("${TORCH_VERSIONS:-2.9.1 2.10.0}")}},
		about:  "Culprit beside fr_trace, NVRx and grep on the same files; writes results/outside.md. NVRX=checkout of nvidia-resiliency-ext.",
		script: `go run ./sim/outside -nvrx="${NVRX:-}" -python="$(printf '.cache/torch-%s/bin/python ' ${TORCH_VERSIONS:-2.9.1 2.10.0})"`,
	},
	{
		name: "bench-nccl", needs: nccl, settings: "NCCL=2.30.7 OTHERS=", took: 5 * minute,
		about: "What the shim's callbacks cost inside the real NCCL. Wants a quiet machine.",
		script: `bin/nccl-get "${NCCL:-2.30.7}"
			go run github.com/culprit-project/culprit/lab/ncclrecord bench --library ".cache/nccl/${NCCL:-2.30.7}/libnccl.so.2" ${OTHERS:+--others "$OTHERS"}`,
	},
	{
		name: "verdict-corpus", needs: setup.Needs{Programs: []string{"culprit-sim"}}, settings: "BLIND=1001,1002,1003 HARM=sample", took: 15 * minute,
		about:  "Write the corpus: evidence and truth of the quick matrix, of drawn jobs, of both under harm, and of what is recorded in the tree.",
		script: `bin/culprit-sim corpus write --blind="${BLIND:-1001,1002,1003}" --harm="${HARM:-sample}"`,
	},
	{
		name: "verdict-diff", needs: setup.Needs{Programs: []string{"culprit-sim"}}, settings: "OLD=", took: 3 * minute,
		about: "Have the engine analyse the corpus again. With OLD=, a file of verdicts: print each verdict that changed, and fail where fewer are right or more accuse an innocent.",
		script: `bin/culprit-sim corpus judge
			[[ -z ${OLD:-} ]] || bin/culprit-sim corpus diff "$OLD" build/corpus/verdicts.jsonl`,
	},
	{
		name: "scorecard-full", needs: setup.Needs{Programs: []string{"culprit-sim"}}, settings: "BLIND=1001,1002,1003", took: 60 * minute,
		about:  "Run the scorecard at every scale to 10,240 ranks and on drawn jobs, and write results/scorecard.md; goes on where it was ended.",
		script: `bin/culprit-sim scorecard --full --blind="${BLIND:-1001,1002,1003}" --resume --out build/scorecard-full --markdown results/scorecard.md`,
	},

	// To write what is committed.
	{
		name: "generate", took: 10 * second, needs: setup.Needs{Tools: renders},
		about: "Render rules/ (for every scrape interval) and dashboards/ from mixin/; write THIRD_PARTY_NOTICES and the trace file's code.",
		script: `mixin/generate.sh
			go generate ./trace/...
			go run ./tools/notices`,
	},
	{
		name: "record-dumps", settings: "TORCH_VERSIONS=\"2.8.0 2.9.1 2.10.0 2.15.0\" FORCE=", took: 10 * minute, first: "25 GB of PyTorch",
		needs: setup.Needs{Installs: []setup.Install{torch("${TORCH_VERSIONS:-2.8.0 2.9.1 2.10.0 2.15.0}")}},
		about: "Record Flight Recorder dumps of faulty PyTorch jobs; FORCE=1 also those that are recorded.",
		script: `dumps=analyzer/offline/testdata/torch
			for v in ${TORCH_VERSIONS:-2.8.0 2.9.1 2.10.0 2.15.0}; do
				if [[ -d $dumps/torch-$v && -z ${FORCE:-} ]]; then
					echo "torch $v is recorded (FORCE=1 records it again)"
					continue
				fi
				.cache/torch-$v/bin/python $dumps/record.py $dumps
				.cache/torch-$v/bin/python $dumps/record_nccl.py $dumps
			done`,
	},
	{
		name: "nccl-record", needs: nccl, settings: "NCCL=\"2.30.7 …\" AGAIN=", took: 10 * minute,
		about:  "Record the callbacks of releases of NCCL (in .cache/nccl) that lab/ncclrecord/testdata lacks; AGAIN=1 records all again.",
		script: `go run github.com/culprit-project/culprit/lab/ncclrecord record ${AGAIN:+--again} ${NCCL:-}`,
	},
	{
		name: "nccl-behaviour", took: 10 * second, about: "Write results/nccl-behaviour.md, what NCCL's callbacks did in the recordings in lab/ncclrecord/testdata.",
		script: `mkdir -p results
			go run github.com/culprit-project/culprit/lab/ncclrecord document >results/nccl-behaviour.md`,
	},
	{
		name: "pictures", needs: stack.And(browser), took: 3 * minute,
		about:  "Take pictures of the analyzer's pages from runs of the demo, into docs/pictures.",
		script: `sim/browser/pictures.sh`,
	},
	{
		name: "dashboard-pictures", needs: stack.And(browser), settings: "NCCL=2.30.7", took: 10 * minute, first: "600 MB by npm, a download of NCCL",
		about: "Draw the dashboards with Grafana's panels from runs of the demo, into docs/pictures; each query returns data.",
		script: `tools/dashboards/build.sh
			sim/browser/dashboards.sh`,
	},
	{
		name: "corpus", settings: "PACKAGES=", took: 10 * minute,
		about:  "Keep in testdata/fuzz the smallest inputs of earlier fuzzing that reach what all of them do. PACKAGES=\"./trace …\" takes some.",
		script: `tools/corpus.sh ${PACKAGES:-}`,
	},

	// Runs of many tasks.
	{
		name: "test", settings: "NCCL=short", took: 13 * minute,
		about: "Run every test that a change must pass; builds and installs what it needs. NCCL=none downloads no library.",
	},
	{
		name: "ci", settings: "CI_BUDGET=1200", took: 20 * minute,
		about: "What .ci/run is: make test, the linters, the generated files, and a slice of the long list.",
	},
	{
		name: "test-long", settings: "FRESH=", took: 90 * minute,
		about: "Run the long list, all of it; goes on where it was ended on the same sources, FRESH=1 starts over.",
	},
}

const release = `go run -C tools/release . --root="$PWD" --version="$BUILD_VERSION" --revision="$BUILD_REVISION" --date="$BUILD_DATE" --zig="$PWD/.cache/zig/zig" \
	--cache="$PWD/.cache/debian" --out="$PWD/${OUT:-build/release}"`

const upgrade = `
OLD=${OLD:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || echo 15f48ea)}
rm -rf build/upgrade && mkdir -p build/upgrade/old
git archive "$OLD" | tar -x -C build/upgrade/old
echo "building $OLD"
make --silent --no-print-directory -j"$(nproc)" -C build/upgrade/old/ncclshim
go build -C build/upgrade/old -buildvcs=false -o bin/culprit-exporter ./exporter
go build -C build/upgrade/old -buildvcs=false -o bin/culprit-analyzer ./analyzer
go test -tags upgrade -timeout 40m -count=1 -v ./sim/upgrade`
