// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace"
)

func TestIdentity(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  environment
		rank int32
		job  string
	}{
		{"torchrun", environment{"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "run-7"}, 3, "run-7"},
		{"torchrun without an id", environment{"RANK": "0", "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "node7.cluster", "MASTER_PORT": "29500"}, 0, "node7:29500"},
		{"on one node", environment{"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}, 0, "here:29500"},
		{"named", environment{"CULPRIT_JOB_ID": "mine", "SLURM_JOB_ID": "17"}, -1, "mine"},
		{"Slurm", environment{"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0"}, 5, "17"},
		{"a step that is the job", environment{"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2"}, 5, "17.2"},
		{"Kubernetes", environment{"RANK": "1", "POD_NAMESPACE": "team", "JOB_NAME": "llm"}, 1, "team/llm"},
		{"Open MPI", environment{"OMPI_COMM_WORLD_RANK": "2", "PMIX_NAMESPACE": "prterun-1"}, 2, "prterun-1"},
		{"no number", environment{"RANK": "-2"}, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := trace.Identity{Hostname: "here"}
			tt.env.fill(&id)
			if id.Rank != tt.rank || id.JobID != tt.job {
				t.Errorf("rank %d of %q, want %d of %q", id.Rank, id.JobID, tt.rank, tt.job)
			}
		})
	}
}

func TestHasShim(t *testing.T) {
	for value, env := range map[bool]environment{
		true:  {"NCCL_PROFILER_PLUGIN": "libnccl-profiler-culprit.so"},
		false: {"NCCL_PROFILER_PLUGIN": "inspector", "LD_PRELOAD": "libjemalloc.so"},
	} {
		if env.hasShim() != value {
			t.Errorf("%v: want %v", env, value)
		}
	}
}

func TestExecutables(t *testing.T) {
	const maps = `7f00-7f10 r--p 00000000 00:1a 77   /usr/lib/libnccl.so.2
7f10-8f10 r-xp 00001000 00:1a 77   /usr/lib/libnccl.so.2
9000-9100 r-xp 00000000 00:1a 78   /a dir/libtorch_cuda.so
a000-a100 rw-p 00000000 00:00 0
nonsense r-xp / x
`
	mapped, err := parseExecutables(strings.NewReader(maps))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/usr/lib/libnccl.so.2", "/a dir/libtorch_cuda.so"}, libraries(mapped)); diff != "" {
		t.Errorf("libraries (-want +got):\n%s", diff)
	}
	if m := mapped[0]; m.start != 0x7f10 || m.end != 0x8f10 || m.offset != 0x1000 {
		t.Errorf("%+v", m)
	}
}

// recorded makes records of one thread on one communicator of 4 ranks.
type recorded struct {
	p      *process
	called [len(counted)]uint64 // As NCCL has counted.
	now    uint64
}

func kindOf(t *testing.T, name string) uint16 {
	t.Helper()
	for i := range functions {
		if functions[i].name == name {
			return uint16(i)
		}
	}
	t.Fatalf("%s is not probed", name)
	return 0
}

func newRecorded(t *testing.T) *recorded {
	t.Helper()
	p, err := newProcess(trace.Identity{PID: 7, Rank: 1, CreatedNS: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return &recorded{p: p}
}

func (r *recorded) enter(t *testing.T, name string) {
	t.Helper()
	r.now += 10
	r.p.see(&head{AtNS: r.now, PID: 7, TID: 8, Kind: kindOf(t, name)}, &enter{
		Comm: 0x1000, Count: 4, Datatype: 7, Identity: identity{Hash: 0xabc, Rank: 1, NRanks: 4}, Called: r.called,
	})
}

func (r *recorded) leave(t *testing.T, name string) {
	t.Helper()
	r.now += 10
	r.p.see(&head{AtNS: r.now, PID: 7, TID: 8, Kind: kindOf(t, name), Leave: 1}, nil)
}

// snapshot reads back what was written, as the sampler does.
func (r *recorded) snapshot(t *testing.T) trace.Snapshot {
	t.Helper()
	r.p.flush()
	f, err := trace.OpenFile(r.p.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s trace.Snapshot
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

const allReduce = 4 // In NCCL's counts.

func TestOperations(t *testing.T) {
	t.Run("inside a call", func(t *testing.T) {
		r := newRecorded(t)
		r.called[allReduce] = 40 // Called before the attach.
		r.enter(t, "ncclAllReduce")
		s := r.snapshot(t)
		if c := s.Comms[0]; c.OpsCalled != 41 || c.OpsStarted != 40 || c.OpsInFlight != 1 || c.ID != 0xabc {
			t.Errorf("%+v", c)
		}
		if op := s.Ops[0]; op.Number != 40 || op.State != trace.OpCalled || op.Bytes != 16 || op.Func != trace.AllReduce {
			t.Errorf("%+v", op)
		}
	})
	t.Run("many", func(t *testing.T) {
		r := newRecorded(t)
		for range 20 {
			r.enter(t, "ncclAllReduce")
			r.called[allReduce]++
			r.leave(t, "ncclAllReduce")
		}
		s := r.snapshot(t)
		if c := s.Comms[0]; c.OpsCalled != 20 || c.OpsStarted != 20 || c.OpsCompleted != 4 || c.OpsUnseen != 4 || c.OpsInFlight != 0 || len(s.Ops) != opTail {
			t.Errorf("%d operations, %+v", len(s.Ops), c)
		}
		if s.Status.DroppedOps != 0 {
			t.Errorf("%d dropped", s.Status.DroppedOps)
		}
	})
	t.Run("a group", func(t *testing.T) {
		r := newRecorded(t)
		r.enter(t, "ncclGroupStart")
		r.leave(t, "ncclGroupStart")
		for range 2 {
			r.enter(t, "ncclAllReduce")
			r.leave(t, "ncclAllReduce")
		}
		r.enter(t, "ncclGroupEnd")
		if s := r.snapshot(t); s.Comms[0].OpsStarted != 0 || s.Comms[0].OpsCalled != 2 || s.Status.GroupOpenSinceNS != r.now {
			t.Errorf("%+v", s.Comms[0])
		}
		r.leave(t, "ncclGroupEnd")
		if s := r.snapshot(t); s.Comms[0].OpsStarted != 2 || s.Status.GroupOpenSinceNS != 0 {
			t.Errorf("%+v", s.Comms[0])
		}
	})
	t.Run("one that calls another", func(t *testing.T) {
		r := newRecorded(t)
		r.enter(t, "ncclBcast")
		r.enter(t, "ncclBroadcast")
		r.leave(t, "ncclBroadcast")
		r.leave(t, "ncclBcast")
		if s := r.snapshot(t); s.Comms[0].OpsCalled != 1 || s.Comms[0].OpsStarted != 1 {
			t.Errorf("%+v", s.Comms[0])
		}
	})
	t.Run("records that were lost", func(t *testing.T) {
		r := newRecorded(t)
		r.enter(t, "ncclAllReduce")
		r.p.dropped(3)
		r.called[allReduce] = 5
		r.enter(t, "ncclAllReduce")
		s := r.snapshot(t)
		if s.Comms[0].OpsCalled != 6 || s.Status.DroppedOps != 3+4 {
			t.Errorf("%d called, %d dropped", s.Comms[0].OpsCalled, s.Status.DroppedOps)
		}
	})
	t.Run("what NCCL does not count", func(t *testing.T) {
		r := newRecorded(t)
		r.enter(t, "ncclAllReduce")
		r.leave(t, "ncclAllReduce")
		r.enter(t, "ncclSend")
		s := r.snapshot(t)
		if len(s.Ops) != 0 || s.Status.DroppedComms != 1 || !s.Comms[0].Ended {
			t.Errorf("%d operations, %+v", len(s.Ops), s.Comms[0])
		}
	})
	t.Run("the end of a communicator", func(t *testing.T) {
		r := newRecorded(t)
		r.enter(t, "ncclAllReduce")
		r.leave(t, "ncclAllReduce")
		r.enter(t, "ncclCommDestroy")
		if s := r.snapshot(t); s.Comms[0].Ended || s.Status.LifecycleHead != 1 {
			t.Errorf("%+v", s.Comms[0])
		}
		r.leave(t, "ncclCommDestroy")
		if s := r.snapshot(t); !s.Comms[0].Ended || s.Status.LifecycleHead != 2 || len(r.p.comms) != 0 {
			t.Errorf("%+v", s.Comms[0])
		}
	})
}

func TestRuns(t *testing.T) {
	page := func(present ...bool) []byte {
		b := make([]byte, 8*len(present))
		for i, p := range present {
			if p {
				b[8*i+7] = 0x80
			}
		}
		return b
	}
	if diff := cmp.Diff([][2]int{{1, 3}, {4, 5}}, runs(page(false, true, true, false, true))); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 24))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, e, ok := parse(b); ok && int(h.Kind) >= len(functions) || ok && h.Leave == 0 && e == nil {
			t.Errorf("%+v", h)
		}
	})
}

func FuzzExecutables(f *testing.F) {
	f.Add("7f00-7f10 r-xp 00000000 00:1a 77   /usr/lib/libnccl.so.2\n")
	f.Fuzz(func(_ *testing.T, maps string) {
		mapped, _ := parseExecutables(strings.NewReader(maps))
		libraries(mapped)
	})
}

func TestParent(t *testing.T) {
	for stat, want := range map[string]int{"7 (a) b) S 3 7 7 0": 3, "7 (a": 0, "": 0, "7 (a) S x": 0} {
		if got := parseParent(stat); got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}

func TestSameLibrary(t *testing.T) {
	at := func(start uint64) []mapping { return []mapping{{start, start + 0x1000, 0, "/usr/lib/libnccl.so.2"}} }
	if !sameLibrary(at(0x7000), at(0x7000)) || sameLibrary(at(0x7000), at(0x8000)) || sameLibrary(nil, at(0x7000)) {
		t.Error("a copy has the library at the same place, another process does not")
	}
}
