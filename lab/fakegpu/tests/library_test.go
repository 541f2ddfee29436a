// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/lab/fakegpu/layout"
)

const (
	root    = "../../.."
	program = root + "/build/fakegpu/tests/nccl_test"
	cache   = root + "/.cache/nccl"
	limit   = 5 * time.Minute // of one run on a loaded machine
)

var all = flag.Bool("all", false, "run every library in .cache/nccl, not only the oldest and the newest")

func TestMain(m *testing.M) {
	flag.Parse()
	if out, err := exec.Command("make", "--silent", "-C", "..", "all", "tests").CombinedOutput(); err != nil {
		fmt.Printf("make: %v\n%s", err, out)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestPrograms runs those that need no real library.
func TestPrograms(t *testing.T) {
	const build = root + "/build/fakegpu/tests/"
	tests := []struct {
		name string
		args []string
	}{
		{"runtime_test", nil},
		{"shared_test", []string{build + "libshared.so"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if out, err := exec.CommandContext(ctx, build+test.name, test.args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// versions returns those to run, oldest first.
func versions(t *testing.T) []string {
	t.Helper()
	if os.Getenv("NCCL") == "none" {
		t.Skip("NCCL=none: no real library was run")
	}
	paths, err := filepath.Glob(cache + "/*/libnccl.so.2")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no libnccl.so.2 in %s: `go run ./tools/ci run nccl` fetches them, NCCL=none does without", cache)
	}
	var found []string
	for _, p := range paths {
		found = append(found, filepath.Base(filepath.Dir(p)))
	}
	slices.SortFunc(found, compareVersions)
	if *all || len(found) < 3 {
		return found
	}
	return []string{found[0], found[len(found)-1]}
}

func compareVersions(a, b string) int { // 2.9 comes before 2.10
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(version string) []int {
	var n []int
	for part := range strings.SplitSeq(version, ".") {
		i, _ := strconv.Atoi(part)
		n = append(n, i)
	}
	return n
}

func library(version string) string { return filepath.Join(cache, version, "libnccl.so.2") }

// writeLayout makes the library's layout file.
func writeLayout(t *testing.T, version string) string {
	t.Helper()
	l, err := layout.Read(library(version))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "layout")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// runProgram runs the test program on a played host with three GPUs.
func runProgram(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "node"), []byte("name test\ngpus 3\np2p 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "FAKEGPU_DIR="+host, "NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1",
		"NCCL_RAS_ENABLE=0", "NCCL_NVLS_ENABLE=0", "NCCL_MAX_CTAS=2")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestOperationsAndFaults(t *testing.T) {
	network := []string{"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}
	tests := []struct {
		name  string
		env   []string
		cases []string
	}{
		{"network", network, []string{"allreduce", "reducescatter", "allgather", "sendrecv", "graph"}},
		{"shared memory", []string{"NCCL_P2P_DISABLE=1"}, []string{"allreduce", "reducescatter", "allgather", "sendrecv", "graph"}},
		{"peer memory", []string{"NCCL_P2P_LEVEL=SYS"}, []string{"allreduce", "reducescatter", "allgather", "sendrecv", "graph"}},
		{"faults", network, []string{"link.stall", "link.rate", "proxy.delay", "freeze", "hold", "lost"}},
		{"helper threads", append(network, "NCCL_SOCKET_NTHREADS=2", "NCCL_NSOCKS_PERTHREAD=2"), []string{"sendrecv", "link.stall"}},
	}
	for _, version := range versions(t) {
		path := writeLayout(t, version)
		for _, test := range tests {
			t.Run(version+"/"+test.name, func(t *testing.T) {
				out, err := runProgram(t, test.env, append([]string{library(version), path}, test.cases...)...)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for _, c := range append(test.cases, "end") {
					if !strings.Contains(out, "ok "+c+"\n") {
						t.Errorf("case %s did not run:\n%s", c, out)
					}
				}
			})
		}
	}
}

// TestLayoutWithoutMember shows that a library whose structs changed is refused by the name of what is missing.
func TestLayoutWithoutMember(t *testing.T) {
	version := versions(t)[0]
	whole, err := os.ReadFile(writeLayout(t, version))
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"conn.tail", "p2p.sendBytes", "batch.funcId"} {
		t.Run(member, func(t *testing.T) {
			var kept []string
			for line := range strings.Lines(string(whole)) {
				if !strings.HasPrefix(line, member+" ") {
					kept = append(kept, line)
				}
			}
			path := filepath.Join(t.TempDir(), "layout")
			if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := runProgram(t, nil, library(version), path, "allreduce")
			if err == nil || !strings.Contains(out, member) {
				t.Errorf("error %v, output %q, want one that names %s", err, out, member)
			}
		})
	}
}

// TestOtherLibraries shows that a library that cannot be played is refused with the reason.
func TestOtherLibraries(t *testing.T) {
	const runtime = "__attribute__((noinline)) static int cudaMalloc(void **p, unsigned long n) { for (unsigned long i = 0; i < n; i++) p[i] = p; return 7; }\n" +
		"int ncclGetVersion(int *v) { void *p[4]; return *v = cudaMalloc(p, 4); }\n"
	tests := []struct {
		name, source string
		flags        []string
		want         string
	}{
		{"stripped", runtime, []string{"-s"}, "stripped"},
		{"without CUDA", "int ncclGetVersion(int *v) { return *v = 0; }\n", nil, "cudaMalloc"},
		{"without transport", runtime, nil, "ncclNetSocket"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			source, lib := filepath.Join(dir, "lib.c"), filepath.Join(dir, "libnccl.so.2")
			if err := os.WriteFile(source, []byte(test.source), 0o644); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"-O1", "-shared", "-fPIC", "-o", lib, source}, test.flags...)
			if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
				t.Fatalf("cc: %v\n%s", err, out)
			}
			out, err := runProgram(t, nil, lib, filepath.Join(dir, "none"), "allreduce")
			if err == nil || !strings.Contains(out, test.want) {
				t.Errorf("error %v, output %q, want one that has %q", err, out, test.want)
			}
		})
	}
}
