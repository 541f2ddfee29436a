// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrainingRecorded: a training job's callbacks keep the rules, and the ranks of a communicator agree.
func TestTrainingRecorded(t *testing.T) {
	j := start(t, spec{ranks: 8, hosts: 4, record: true, flags: "--layout dp2,pp2,tp2 --steps 12 --compute-ms 1"})
	j.succeed()
	members := map[string]int{}
	for rank := range 8 {
		r := mustRecord(t, j.dir, rank)
		checkOrderly(t, r, false)
		names := map[string]bool{}
		for _, c := range r.comms {
			names[c.field["name"]] = true
			members[c.field["id"]]++
			if c.field["nnodes"] != c.field["nranks"] {
				t.Errorf("%s: %s nodes of %s ranks; every rank is its own node here", c.field["name"], c.field["nnodes"], c.field["nranks"])
			}
		}
		if len(names) != 4 || !names["world"] || !names["dp"] || !names["tp"] || !names["pp"] {
			t.Errorf("rank %d: communicators %v", rank, names)
		}
	}
	// One world of 8; 4 pairs each of dp, tp, pp.
	if len(members) != 13 {
		t.Errorf("%d communicators in the job, want 13: %v", len(members), members)
	}
}

// TestBytes: a ring AllReduce moves 2(n-1)/n of the buffer out of each rank, as the transfers' sizes say.
func TestBytes(t *testing.T) {
	const ranks, bytes, steps = 4, 1 << 20, 3
	j := start(t, spec{ranks: ranks, record: true, flags: "--layout dp4 --steps 3 --compute-ms 1 --bytes 1M --barrier-every 0"})
	j.succeed()
	for rank := range ranks {
		r := mustRecord(t, j.dir, rank)
		checkOrderly(t, r, false)
		sent, received := 0, 0
		for _, s := range r.of("ProxyStep", "dp") {
			for _, state := range s.states {
				switch state.num("state") {
				case sendWait:
					sent += state.num("arg")
				case recvFlushWait:
					received += state.num("arg")
				}
			}
		}
		if want := steps * bytes * 2 * (ranks - 1) / ranks; sent != want || received != want {
			t.Errorf("rank %d: sent %d, received %d bytes, want %d", rank, sent, received, want)
		}
	}
}

// TestOlderVersions: an older plugin gets what NCCL's converters let through.
func TestOlderVersions(t *testing.T) {
	t.Run("v5", func(t *testing.T) {
		j := start(t, spec{record: true, flags: "--abi 5 --steps 2 --compute-ms 1"})
		j.succeed()
		r := mustRecord(t, j.dir, 0)
		if v := r.comms[1].field["version"]; v != "5" {
			t.Fatalf("version %s", v)
		}
		checkOrderly(t, r, false)
	})
	t.Run("v4", func(t *testing.T) {
		j := start(t, spec{record: true, flags: "--abi 4 --layout pp2 --steps 2 --compute-ms 1"})
		j.succeed()
		r := mustRecord(t, j.dir, 0)
		if v := r.comms[1].field["version"]; v != "4" {
			t.Fatalf("version %s", v)
		}
		for _, s := range r.spans {
			switch s.kind {
			case "GroupApi", "CollApi", "P2pApi", "KernelLaunch", "Other":
				t.Errorf("%s under v4", s.kind)
			case "Coll", "P2p":
				if s.parent == nil || s.parent.kind != "Group" {
					t.Errorf("parent of %s is %v, want the Group", s.kind, s.parent)
				}
			}
			// Not copied by the converter: rubbish.
			if s.kind == "P2p" && s.num("channels") <= 64 {
				t.Errorf("P2p has %d channels; the converter forgets them", s.num("channels"))
			}
		}
		checkProxyOps(t, r)
		checkEnd(t, r)
	})
}

// TestMask: a bit brings its event and the parents, and nothing else.
func TestMask(t *testing.T) {
	for _, c := range []struct{ mask, want string }{
		{"0", ""},
		{"1", "GroupApi Group"},
		{"2", "GroupApi CollApi Group Coll"},
		{"4", "GroupApi P2pApi Group P2p"},
		{"8", "GroupApi CollApi P2pApi Group Coll P2p ProxyOp"},
		{"16", "GroupApi CollApi P2pApi Group Coll P2p ProxyOp ProxyStep"},
		{"64", "GroupApi CollApi P2pApi Group Coll P2p KernelCh"},
		{"256", "GroupApi"},
		{"512", "GroupApi CollApi"},
		{"1024", "GroupApi P2pApi"},
		{"2048", "GroupApi KernelLaunch"},
	} {
		t.Run(c.mask, func(t *testing.T) {
			j := start(t, spec{
				ranks: 4, record: true, env: []string{"RECORDER_MASK=" + c.mask},
				flags: "--layout dp2,pp2 --steps 2 --compute-ms 1 --bytes 64K",
			})
			j.succeed()
			r := mustRecord(t, j.dir, 0)
			seen := map[string]bool{}
			for _, s := range r.spans {
				seen[s.kind] = true
			}
			want := strings.Fields(c.want)
			for _, kind := range want {
				if !seen[kind] {
					t.Errorf("no %s", kind)
				}
			}
			if len(seen) != len(want) {
				t.Errorf("kinds %v, want %v", seen, want)
			}
			checkEnd(t, r)
		})
	}
}

// TestHiddenBroadcast: Broadcast is AllGatherV inside, with API events only.
func TestHiddenBroadcast(t *testing.T) {
	j := start(t, spec{record: true, flags: "--selftest ops"})
	j.succeed()
	r := mustRecord(t, j.dir, 0)
	calls := 0
	for _, s := range r.of("CollApi", "") {
		if s.field["func"] == "Broadcast" {
			calls++
			if len(s.children) != 0 {
				t.Errorf("a Broadcast has %d events below its call", len(s.children))
			}
		}
	}
	if calls == 0 {
		t.Error("no Broadcast was called")
	}
}

// TestIntraHost: edges inside a host over SHM have kernels and no proxy operations.
func TestIntraHost(t *testing.T) {
	j := start(t, spec{ranks: 4, hosts: 2, record: true, flags: "--layout dp2,tp2 --intra shm --steps 2 --compute-ms 1"})
	j.succeed()
	for rank := range 4 {
		r := mustRecord(t, j.dir, rank)
		checkOrderly(t, r, false)
		if ops := r.of("ProxyOp", "tp"); len(ops) != 0 {
			t.Errorf("rank %d: %d proxy operations inside a host", rank, len(ops))
		}
		if len(r.of("ProxyOp", "dp")) == 0 || len(r.of("KernelCh", "tp")) == 0 {
			t.Errorf("rank %d: no proxy operations between hosts or no kernels inside one", rank)
		}
		for _, c := range r.comms {
			want := map[string]string{"world": "2", "dp": "2", "tp": "1"}[c.field["name"]]
			if c.field["nnodes"] != want {
				t.Errorf("%s spans %s nodes, want %s", c.field["name"], c.field["nnodes"], want)
			}
		}
	}
}

// TestPluginNames: the plugin is found as NCCL finds it, and its absence or failure stops nothing.
func TestPluginNames(t *testing.T) {
	path := filepath.Join(buildDir, "libnccl-profiler-recorder.so")
	for _, c := range []struct {
		name   string
		env    []string
		loaded bool
	}{
		{"path", []string{"NCCL_PROFILER_PLUGIN=" + path}, true},
		{"short", []string{"NCCL_PROFILER_PLUGIN=recorder"}, true},
		{"file", []string{"NCCL_PROFILER_PLUGIN=libnccl-profiler-recorder.so"}, true},
		{"preloaded", []string{"NCCL_PROFILER_PLUGIN=STATIC_PLUGIN", "LD_PRELOAD=" + path}, true},
		{"none", []string{"NCCL_PROFILER_PLUGIN=none"}, false},
		{"missing", []string{"NCCL_PROFILER_PLUGIN=nowhere"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := start(t, spec{record: true, env: c.env, flags: "--steps 2 --compute-ms 1"})
			j.succeed()
			text, err := os.ReadFile(filepath.Join(j.dir, "rank.0.log"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if loaded := strings.Contains(string(text), "verb=start"); loaded != c.loaded {
				t.Errorf("loaded %v, want %v", loaded, c.loaded)
			}
		})
	}
	t.Run("init fails", func(t *testing.T) {
		j := start(t, spec{record: true, env: []string{"RECORDER_FAIL=init"}, flags: "--steps 2 --compute-ms 1"})
		j.succeed()
		r := mustRecord(t, j.dir, 0)
		if len(r.spans) != 0 {
			t.Errorf("%d events after a failed init", len(r.spans))
		}
	})
}
