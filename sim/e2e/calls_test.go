// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/sim/stack"
)

const (
	callers = 4 // Ranks of the jobs here, two a host.
	missing = 2 // The one that does not come.
)

// hastyRules are the shipped rules, but for ranks that wait in a call: seconds stand for the minutes that a job may take to start.
func hastyRules(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "rules", "culprit-triggers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const wait = ") > 300\n"
	if n := strings.Count(string(text), wait); n != 1 {
		t.Fatalf("%d rules wait for 300 s", n)
	}
	file := filepath.Join(t.TempDir(), "triggers.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), wait, ") > 8\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// startCallers starts ranks of a job that only the preload hooks report: programs that call the stand-in NCCL of the shim's
// tests, which comes back from making a communicator when all have come to it. args are further ones of each rank.
func startCallers(t *testing.T, s *stack.Stack, root, jobID string, start []int, args func(rank int) []string) {
	t.Helper()
	if out, err := exec.Command("make", "-C", filepath.Join(root, "ncclshim"), "trainer").CombinedOutput(); err != nil {
		t.Fatalf("building the job: %v\n%s", err, out)
	}
	programs := filepath.Join(root, "build", "ncclshim", "tests")
	dir := t.TempDir()
	for _, rank := range start {
		cmd := exec.Command(filepath.Join(programs, "trainer"),
			append([]string{strconv.Itoa(rank), strconv.Itoa(callers), filepath.Join(dir, "steps")}, args(rank)...)...)
		cmd.Env = append(os.Environ(),
			"CULPRIT_DIR="+s.TraceDir(s.HostOfRank(rank, callers)), "CULPRIT_JOB_ID="+jobID, fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", callers),
			fmt.Sprint("LOCAL_RANK=", rank%2),
			"LD_LIBRARY_PATH="+programs, "LD_PRELOAD="+filepath.Join(root, "bin", "libculprit-preload.so"), "FAKENCCL_MEET="+dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// TestCallThatDoesNotComeBack has a rank paged for that does not come to a communicator which the others make: no operation is
// in flight anywhere, and before the first communicator the rank has not even said that it is there.
func TestCallThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "analyzer.yml")
	if err := os.WriteFile(config, []byte("analysis: {first_step_idle: 10s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stack.Config{Hosts: 2, Rules: hastyRules(t, root), Analyzer: config})
	never := []string{"0"}
	startCallers(t, s, root, "first", []int{0, 1, 3}, func(int) []string { return never })
	startCallers(t, s, root, "later", []int{0, 1, 2, 3}, func(rank int) []string {
		const step = "40"
		if rank == missing {
			return []string{step, "init", step}
		}
		return []string{"0", "init", step}
	})
	startCallers(t, s, root, "well", []int{0, 1, 2, 3}, func(int) []string { return never })
	for _, job := range []string{"first", "later"} {
		page, err := s.WaitPageThat(waiting(t), job, func(p *stack.Page) bool { return p.Labels["rank"] != "" })
		if err != nil {
			t.Fatalf("%v\n%s", err, describe(t, s, job))
		}
		t.Logf("%s: %s", job, page.Annotations["summary"])
		if page.Labels["rank"] != strconv.Itoa(missing) || page.Labels["class"] != "not_entered" {
			t.Errorf("%s: paged %v", job, page.Labels)
		}
		triggers, err := s.Triggers(t.Context(), job)
		blocked := func(a stack.Alert) bool { return a.Labels["alertname"] == "CulpritCallBlocked" }
		// CulpritLaunchesStopped is right as well. It needs Prometheus to have seen the job call operations, which "later" did for
		// less than a second.
		if err != nil || !slices.ContainsFunc(triggers, blocked) {
			t.Errorf("%s: triggers %v %v", job, triggers, err)
		}
	}
	if pages := s.Pages("well"); len(pages) > 0 {
		t.Errorf("paged for a healthy job: %+v", pages)
	}
}
