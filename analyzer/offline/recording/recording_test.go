// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/offline/recording"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

const second = uint64(1e9)

// job writes the trace files of four ranks that are all in an AllReduce but for one.
func job(t testing.TB, absent int32) []string {
	t.Helper()
	return jobAt(t, absent, 30*second, time.Unix(1100, 0))
}

// jobAt is a job whose ranks have been in that for a while, and gave their last sign of life at a time.
func jobAt(t testing.TB, absent int32, stuck uint64, alive time.Time) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for rank := range int32(4) {
		path := filepath.Join(dir, fmt.Sprintf("rank%d%s", rank, trace.Suffix))
		w, err := tracetest.Create(path, trace.Identity{
			PID: 100 + uint32(rank), Rank: rank, WorldSize: 4, LocalRank: rank, GPUIndex: rank, JobID: "train", Hostname: "n1",
			BootID: "another boot", CreatedNS: 1, CreatedRealNS: 1,
			Capabilities: trace.CapCommIdentity | trace.CapAPIEvents | trace.CapProxySteps | trace.CapPeerWait | trace.CapCompletion,
		}, tracetest.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		shape := tracetest.Shape{Comms: 1, NRanks: 4, Rank: rank, NowNS: 100 * second, Ops: 50, StuckNS: stuck}
		if rank == absent {
			shape.StuckNS = 0
		}
		tracetest.Fill(w, shape)
		for i := range uint32(2) { // Of rank 1's queue pairs to the absent one, the second stands with the job.
			if q := (trace.QP{
				Index: i, QPNum: 1000 + i, Device: "mlx5_0", Port: 1, Remote: "10.0.0.2", CommIndex: 0, CommGeneration: 1, FlowIndex: -1, Peer: 2,
				SendBytes: 1 << 30, SendsPosted: 800, SendsCompleted: 800 - 8*uint64(i), LastPostNS: 70 * second, LastCompletionNS: 70 * second,
			}); rank == 1 {
				w.PutQP(q)
			}
		}
		w.SetStatus(trace.Status{HeartbeatNS: 100 * second, RealMinusMonoNS: uint64(alive.UnixNano()) - 100*second})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func read(t testing.TB, path string) *recording.Node {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !recording.SniffTrace(data) {
		t.Errorf("%s is not recognised", path)
	}
	n, err := recording.ReadTrace(path, data)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func verdict(t *testing.T, nodes ...*recording.Node) rca.Verdict {
	t.Helper()
	ev, _, frozen := recording.Evidence(nodes)
	opt := rca.Options{}
	if frozen {
		opt.HangAfter = 1
	}
	return engine.Analyze(ev, opt)
}

func TestTraceFiles(t *testing.T) {
	var nodes []*recording.Node
	for _, p := range job(t, 2) {
		nodes = append(nodes, read(t, p))
	}
	v := verdict(t, nodes...)
	if v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 2 {
		t.Errorf("%s %v: %s", v.Class, v.Culprits, v.Summary)
	}
	if v.JobID != "train" {
		t.Errorf("job %q", v.JobID)
	}
	// Without the culprit's file it is named as missing.
	ev, _, _ := recording.Evidence(slices.Delete(slices.Clone(nodes), 2, 3))
	if len(ev.Missing) != 1 || !slices.Equal(ev.Missing[0].Ranks, []int{2}) {
		t.Errorf("missing %+v", ev.Missing)
	}
}

// TestSeveralRanksInAFile: two processes of two ranks each, of which one has not called what the others wait in.
func TestSeveralRanksInAFile(t *testing.T) {
	dir := t.TempDir()
	var nodes []*recording.Node
	for process := range int32(2) {
		path := filepath.Join(dir, fmt.Sprintf("%d%s", process, trace.Suffix))
		w, err := tracetest.Create(path, trace.Identity{
			PID: 100 + uint32(process), Rank: process, WorldSize: 2, JobID: "train", Hostname: "n1", BootID: "another boot",
			CreatedNS: 1, CreatedRealNS: 1, Capabilities: trace.CapCommIdentity | trace.CapAPIEvents | trace.CapProxySteps | trace.CapCompletion,
		}, tracetest.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		for device := range int32(2) {
			rank, slot, called := 2*process+device, uint32(device), uint64(51)
			if rank == 2 {
				called = 50
			}
			w.PutComm(trace.Comm{
				Index: slot, Generation: 1, ID: 7, NRanks: 4, Rank: rank, Device: device, OpsCalled: called, OpsStarted: called, OpsCompleted: 50,
				LastCalledNS: 70 * second, LastCompletedNS: 70 * second,
			})
			if called > 50 {
				w.PutOp(trace.Op{
					Index: slot, Generation: 1, CommIndex: slot, CommGeneration: 1, Number: 50, Seq: 50, Func: trace.AllReduce, Peer: -1,
					State: trace.OpEnqueued, CalledNS: 70 * second, EnqueuedNS: 70 * second,
				})
			}
			w.Complete(trace.Completion{CommID: 7, CommIndex: slot, CommGeneration: 1, NRanks: 4, Rank: rank, Number: 49, Func: trace.AllReduce, LeftNS: 70 * second})
		}
		w.SetStatus(trace.Status{HeartbeatNS: 100 * second})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, read(t, path))
	}
	if n := nodes[1]; len(n.Processes) != 2 || n.Processes[0].Rank != 2 || n.Processes[1].GPU != "1" || len(n.Completions) != 2 ||
		n.Completions[1].File != n.Processes[1].File {
		t.Fatalf("%+v", n.Processes)
	}
	if v := verdict(t, nodes...); v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 2 || v.Culprits[0].GPU != "0" {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
}

// A copy made while the job was at work catches operations under way; one made later shows what never came to its end.
func TestCopies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stuck  uint64
		alive  time.Duration // Before the copy.
		frozen bool
		well   bool
	}{
		{"at work", second / 20, 0, false, true},
		{"hanging, and seen to live", 30 * second, 0, false, false},
		{"long after", second / 20, time.Hour, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var nodes []*recording.Node
			for _, p := range jobAt(t, 2, tc.stuck, time.Now().Add(-tc.alive)) {
				nodes = append(nodes, read(t, p))
			}
			if _, _, frozen := recording.Evidence(nodes); frozen != tc.frozen {
				t.Errorf("frozen is %v", frozen)
			}
			if v := verdict(t, nodes...); (v.Class == rca.Healthy) != tc.well {
				t.Errorf("%s: %s", v.Class, v.Summary)
			}
		})
	}
}

// A file that came out of an archive has no path of its own.
func TestTraceFileFromElsewhere(t *testing.T) {
	paths := job(t, 1)
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := recording.ReadTrace("dumps.tar.gz/rank0.culprit", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Processes) != 1 || n.Processes[0].Rank != 0 || len(n.Processes[0].Comms) != 1 {
		t.Errorf("%+v", n.Processes)
	}
}

// The exporters' answers say the same as the files.
func TestStateAndTraceLines(t *testing.T) {
	state := nodeapi.State{Version: nodeapi.Version, Exporter: "test", Node: "n1", NowNS: 100 * second}
	var lines []nodeapi.TraceLine
	lines = append(lines, nodeapi.TraceLine{Header: &nodeapi.TraceHeader{Version: nodeapi.Version, Node: "n1", NowNS: 100 * second}})
	for _, p := range job(t, 3) {
		process := read(t, p).Processes[0]
		process.Kernel = &nodeapi.Kernel{State: nodeapi.ProcessRunning, CPUCores: 1}
		state.Processes = append(state.Processes, process)
		bare := process
		bare.Ops, bare.Flows = nil, nil
		lines = append(lines, nodeapi.TraceLine{Process: &bare}, nodeapi.TraceLine{Sample: &nodeapi.Sample{
			AtNS: 100 * second, Rank: process.Rank, JobID: process.JobID, File: process.File, Ops: process.Ops, Flows: process.Flows, Status: process.Status,
		}})
	}
	lines = append(lines, nodeapi.TraceLine{Trailer: &nodeapi.TraceTrailer{Records: 4}})
	whole, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var stream []byte
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(append(stream, b...), '\n')
	}
	for name, data := range map[string][]byte{"state": whole, "two states": append(slices.Clone(whole), whole...), "trace": stream} {
		if !recording.SniffJSON(data) {
			t.Errorf("%s is not recognised", name)
		}
		nodes, err := recording.ReadJSON(name, data)
		if err != nil {
			t.Fatal(err)
		}
		v := verdict(t, nodes...)
		if v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 3 {
			t.Errorf("%s: %s %v: %s", name, v.Class, v.Culprits, v.Summary)
		}
	}
	cut, err := recording.ReadTraceLines("cut", stream[:len(stream)/2])
	if err != nil || !cut.CutOff || len(cut.Processes) == 0 {
		t.Errorf("half a stream: %+v, %v", cut, err)
	}
	newer := []byte(`{"version": 99, "exporter": "x", "node": "n", "processes": []}`)
	if _, err := recording.ReadJSON("newer", newer); !errors.Is(err, recording.ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

func TestHostileTraceFiles(t *testing.T) {
	for name, data := range tracetest.Broken() {
		if _, err := recording.ReadTrace(name, data); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	for name, data := range tracetest.Lying() {
		n, err := recording.ReadTrace(name, data)
		if err != nil {
			continue
		}
		_ = verdict(t, n)
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`{"version":1,"exporter":"x","node":"n","now_ns":5,"processes":[{"file":"a","rank":0,"job_id":"j","comms":[{"index":0,"comm":"a1","nranks":2,"rank":0}],"ops":[{"number":1,"func":"AllReduce"}]}]}`))
	f.Add([]byte(`{"header":{"version":1,"node":"n","now_ns":5}}` + "\n" + `{"process":{"file":"a","rank":1}}` + "\n" + `{"completion":{"file":"a","comm":"a1","nranks":2,"enqueued_ns":1,"left_ns":2}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		nodes, _ := recording.ReadJSON("x", data)
		ev, _, _ := recording.Evidence(nodes)
		if ev.WorldSize < 1<<12 {
			_ = engine.Analyze(ev, rca.Options{HangAfter: 1})
		}
	})
}

// TestP2QueuePairInAVerdict: the trace file of a rank that does not get on has two queue pairs to its peer, of which one stands. The verdict's evidence
// names that one.
func TestP2QueuePairInAVerdict(t *testing.T) {
	var nodes []*recording.Node
	for _, p := range job(t, 2) {
		nodes = append(nodes, read(t, p))
	}
	ev, _, _ := recording.Evidence(nodes)
	v := engine.Analyze(ev, rca.Options{HangAfter: 1})
	evidence.Tell(&v, ev.Facts)
	const want = "queue pair 1001 on mlx5_0 port 1 (to rank 2 at 10.0.0.2) has completed no send for 30.0 s"
	if n := len(v.Evidence); n == 0 || !strings.HasSuffix(v.Evidence[n-1], want) {
		t.Errorf("evidence is %q, want %q", v.Evidence, want)
	}
	if len(v.Culprits) != 1 || v.Culprits[0].Rank != 2 {
		t.Errorf("accused: %+v", v.Culprits)
	}
}
