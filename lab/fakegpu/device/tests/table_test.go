// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/lab/fakegpu/layout"
)

const (
	root = "../../../.."
	// patience is how long one operation may take on a loaded machine.
	patience = 5 * time.Minute
)

var (
	full     = flag.Bool("full", false, "every algorithm, protocol, type, size and number of ranks")
	versions = flag.String("versions", "", "versions of NCCL, separated by commas; all; the oldest and the newest if empty")
)

func TestMain(m *testing.M) {
	for _, dir := range []string{"../..", "../check"} {
		if out, err := exec.Command("make", "-C", dir).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building in %s: %v\n%s", dir, err, out)
			os.Exit(1)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// library returns the path of a version's library.
func library(version string) string {
	return filepath.Join(root, ".cache/nccl", version, "libnccl.so.2")
}

// wanted returns the versions that the flag names.
func wanted(t *testing.T) []string {
	t.Helper()
	if os.Getenv("NCCL") == "none" {
		t.Skip("NCCL=none: no real library was run")
	}
	paths, err := filepath.Glob(library("*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		found = append(found, filepath.Base(filepath.Dir(path)))
	}
	slices.SortFunc(found, compareVersions)
	switch {
	case *versions == "all":
	case *versions != "":
		found = strings.Split(*versions, ",")
	case len(found) > 2:
		found = []string{found[0], found[len(found)-1]}
	}
	if len(found) == 0 {
		t.Fatal("no libnccl.so.2 in .cache/nccl: `go run ./tools/ci run nccl` fetches them, NCCL=none does without")
	}
	return found
}

func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.Atoi(as[i])
		y, errY := strconv.Atoi(bs[i])
		if errX == nil && errY == nil && x != y {
			return x - y
		}
	}
	return len(as) - len(bs)
}

// TestTable: every operation gives the right result, on every version, and the algorithm and protocol that were asked for have run.
func TestTable(t *testing.T) {
	var table []string
	for _, version := range wanted(t) {
		t.Run(version, func(t *testing.T) {
			path := library(version)
			if _, err := os.Stat(path); err != nil {
				t.Fatalf("NCCL %s is not in .cache/nccl: %v", version, err)
			}
			places := writeLayout(t, path)
			jobs := shortPlan()
			if *full {
				jobs = fullPlan()
			}
			row := result{functions: map[string]bool{}}
			begun := time.Now()
			for _, j := range jobs {
				t.Run(j.name, func(t *testing.T) { row.add(runJob(t, path, places, j)) })
			}
			table = append(table, fmt.Sprintf("%-8s %5d %6d %6d %5d %9d %6.0f s", version, row.jobs, row.operations, row.wrong, row.failed,
				len(row.functions), time.Since(begun).Seconds()))
		})
	}
	t.Logf("\n%-8s %5s %6s %6s %5s %9s %8s\n%s", "NCCL", "jobs", "ops", "wrong", "fail", "functions", "time", strings.Join(table, "\n"))
}

func writeLayout(t *testing.T, library string) string {
	t.Helper()
	places, err := layout.Read(library)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := places.Write(&text); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "layout")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type result struct {
	jobs, operations, wrong, failed int
	functions                       map[string]bool // "AllReduce sum f32 ring ll"
}

func (r *result) add(other result) {
	r.jobs++
	r.operations += other.operations
	r.wrong += other.wrong
	r.failed += other.failed
	for f := range other.functions {
		r.functions[f] = true
	}
}

// line is what the program says about an operation.
type line struct {
	Rank   int    `json:"rank"`
	Op     string `json:"op"`
	Wrong  int    `json:"wrong"`
	Failed string `json:"failed"`
	Hang   bool   `json:"hang"`
}

// environment is that of a machine without GPUs and with one network interface.
var environment = []string{
	"NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1", "NCCL_CUMEM_ENABLE=0", "NCCL_CUMEM_HOST_ENABLE=0", "NCCL_NVLS_ENABLE=0",
	"NCCL_MNNVL_ENABLE=0", "NCCL_GIN_ENABLE=0", "NCCL_RAS_ENABLE=0", "NCCL_P2P_DISABLE=1", "NCCL_PROFILER_PLUGIN=none", "FAKEGPU_VERBOSE=1",
}

func runJob(t *testing.T, library, places string, j job) result {
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(len(j.ops))*patience/4)
	defer cancel()
	args := []string{
		"-l", library, "-L", places, "-d", t.TempDir(), "-n", strconv.Itoa(j.ranks), "-g", strconv.Itoa(j.perHost),
		"-t", strconv.Itoa(int(patience.Seconds())),
	}
	if j.compute != "" {
		args = append(args, "-c", j.compute)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin/fakegpu/check"), append(args, j.ops...)...)
	cmd.Env = append(append(os.Environ(), environment...), j.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := read(t, stdout.Bytes())
	r.functions = functionsIn(stderr.Bytes())
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		r.failed++
		t.Errorf("%v\n%s", err, tail(stderr.String()))
	}
	if err == nil && r.operations != len(j.ops) {
		t.Errorf("%d operations ended, want %d", r.operations, len(j.ops))
	}
	for _, f := range j.want {
		if !r.functions[f] {
			t.Errorf("%s has not run", f)
		}
	}
	return r
}

func read(t *testing.T, output []byte) result {
	var r result
	scanner := bufio.NewScanner(bytes.NewReader(output))
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) != nil {
			continue // NCCL's own
		}
		bad := l.Hang || l.Failed != "" || l.Wrong >= 0
		if bad {
			t.Errorf("%s", scanner.Text())
		}
		if l.Wrong >= 0 && !l.Hang && l.Failed == "" {
			r.wrong++
		}
		if l.Rank == 0 {
			r.operations++
		}
	}
	return r
}

var played = regexp.MustCompile(`rank 0 channel 0: (.*), \d+ works`)

func functionsIn(stderr []byte) map[string]bool {
	found := map[string]bool{}
	for _, match := range played.FindAllSubmatch(stderr, -1) {
		found[string(match[1])] = true
	}
	return found
}

func tail(text string) string {
	const most = 3000
	lines := []string{}
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, " works") {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines, "\n")
	return text[max(0, len(text)-most):]
}
