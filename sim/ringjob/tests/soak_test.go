// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package tests

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/trace"
)

var soakSteps = flag.Int("steps", 60, "steps of the soak, 16 operations a rank each")

const (
	soakRanks = 8
	soakComms = 16
	// soakWarm is the share of the run after which memory must not grow: the rings of a trace file of 1 MiB have been
	// written once by then.
	soakWarm = 0.6
	// soakGrowth is what a rank may grow by afterwards, KiB: a few pages that the allocator or a stack touches late.
	soakGrowth = 256
)

// memory of a process, KiB: its own, and of files: the trace and what it is linked with.
type memory struct{ anonymous, file int }

func memoryOf(t *testing.T, pid int) memory {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var m memory
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.Atoi(f[1])
		switch {
		case err != nil:
		case f[0] == "RssAnon:":
			m.anonymous = n
		case f[0] == "RssFile:", f[0] == "RssShmem:":
			m.file += n
		}
	}
	if m.anonymous == 0 || m.file == 0 {
		t.Fatalf("no memory in %s", text)
	}
	return m
}

// TestSoak runs 8 ranks with 16 communicators and 32 channels under the shim, all events on, communicators coming and
// going, and wants every rank's memory flat after the warm-up, a file of fixed size, and every operation accounted for.
func TestSoak(t *testing.T) {
	plugin, err := filepath.Abs("../../../bin/libnccl-profiler-culprit.so")
	if err != nil {
		t.Fatal(err)
	}
	j := start(t, spec{
		ranks: soakRanks, hosts: soakRanks, launch: "--timeout 3000",
		flags: fmt.Sprintf("--selftest soak --steps %d --channels 32 --bytes 4K --step-bytes 1K --link-mbps 0 --link-latency-us 0", *soakSteps),
		env:   []string{"NCCL_PROFILER_PLUGIN=" + plugin, "CULPRIT_EVENTS=all", "CULPRIT_SIZE_MB=1", "CULPRIT_TRANSFERS=1", "MALLOC_ARENA_MAX=1"},
	})
	warmStep := int(float64(*soakSteps) * soakWarm)
	var warm, last [soakRanks]memory
	var size [soakRanks]int64
	for step := 0; step < *soakSteps-1; step++ {
		j.awaitStep(step)
		if step < warmStep {
			continue
		}
		for rank := range soakRanks {
			last[rank] = memoryOf(t, j.pid(rank))
			if step == warmStep {
				warm[rank] = last[rank]
				size[rank] = traceOf(t, j, rank).size
			}
		}
	}
	j.succeed()

	fmt.Printf("%d steps, %d operations a rank on %d communicators of 32 channels\n", *soakSteps, *soakSteps*soakComms, soakComms)
	fmt.Printf("%4s %22s %22s %10s %8s %6s %6s\n", "rank", "own memory KiB", "files in memory KiB", "file KiB", "ops", "comms", "lost")
	for rank := range soakRanks {
		f := traceOf(t, j, rank)
		s := f.snapshot
		lost := s.Status.DroppedComms + s.Status.DroppedOps + s.Status.DroppedFlows + s.Status.StaleEvents + s.Status.ContendedEvents
		fmt.Printf("%4d %10d -> %8d %10d -> %8d %10d %8d %6d %6d\n", rank, warm[rank].anonymous, last[rank].anonymous,
			warm[rank].file, last[rank].file, f.size/1024, s.Status.CompletionsHead, len(s.Comms), lost)
		if grown := last[rank].anonymous - warm[rank].anonymous; grown > soakGrowth {
			t.Errorf("rank %d: its own memory grew by %d KiB", rank, grown)
		}
		if grown := last[rank].file - warm[rank].file; grown > soakGrowth {
			t.Errorf("rank %d: its files' memory grew by %d KiB", rank, grown)
		}
		if f.size != size[rank] {
			t.Errorf("rank %d: the trace file went from %d to %d bytes", rank, size[rank], f.size)
		}
		if want := uint64(*soakSteps * soakComms); s.Status.CompletionsHead != want {
			t.Errorf("rank %d: %d operations ended, %d were called", rank, s.Status.CompletionsHead, want)
		}
		if lost != 0 {
			t.Errorf("rank %d: lost: %+v", rank, s.Status)
		}
		if len(s.Ops) != 0 || len(s.Flows) != 0 {
			t.Errorf("rank %d: %d operations and %d flows keep their slots", rank, len(s.Ops), len(s.Flows))
		}
	}
}

type soakTrace struct {
	size     int64
	snapshot trace.Snapshot
}

// traceOf reads a rank's trace file.
func traceOf(t *testing.T, j *job, rank int) soakTrace {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(j.dir, fmt.Sprintf("host%d", rank), "u*", "*.trace"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("trace files of rank %d: %v, %v", rank, paths, err)
	}
	info, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := soakTrace{size: info.Size()}
	if err := f.Snapshot(&out.snapshot); err != nil {
		t.Fatal(err)
	}
	return out
}
