// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sample = `0 1 open realtime=1700000000000000000 pid=7
10000 1 thread job
10000 1 init ctx=1 abi=6 comm=0xabc name=- nodes=2 ranks=2 rank=0 before=0 mask=65503
20000 1 start 1 GroupApi ctx=1 parent=0 rank=0 graph=0 depth=1
21000 1 state 1 GroupStartApiStop -
22000 1 start 2 CollApi ctx=1 parent=1 rank=0 func=AllReduce count=256 datatype=ncclFloat32 root=0 stream=0x5582 graph=0
23000 1 stop 2
24000 1 start 3 Coll ctx=1 parent=2 rank=0 seq=0 func=AllReduce from=0x1000 to=0x2000 count=256 root=0 datatype=ncclFloat32 warps=3 algo=RING proto=SIMPLE channels=1 group=0
25000 1 stop 3
26000 2 thread NCCL_Progress
26000 2 start 4 KernelCh ctx=1 parent=3 rank=0 channel=0 timer=1700000000000025000
27000 2 start 5 ProxyOp ctx=1 parent=3 rank=0 pid=own channel=0 peer=1 steps=1 chunk=4194304 send=1
28000 2 start 6 ProxyStep ctx=1 parent=5 rank=0 step=0
29000 2 state 6 SendPeerWait 512
30000 2 again 6 9
31000 2 state 4 KernelChStop 1700000000000030500
32000 2 stop 4
33000 2 stop 6
34000 2 stop 6
35000 2 stop 0
36000 1 stop 1
40000 1 finalize 1
`

func writeSample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	// The second process began 2 ms later; the last line is being written.
	later := strings.Replace(sample, "realtime=1700000000000000000", "realtime=1700000000002000000", 1) + "41000 1 unl"
	for name, text := range map[string]string{"rank.0.log": sample, "rank.10.log": sample, "rank.9.log": later} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// check holds a process to what the sample says.
func check(t *testing.T, p *Process) {
	t.Helper()
	if len(p.Calls) != 19 || len(p.Spans) != 6 || p.ABI() != 6 || p.Threads[2] != "NCCL_Progress" {
		t.Fatalf("%d calls, %d events, ABI %d, threads %v", len(p.Calls), len(p.Spans), p.ABI(), p.Threads)
	}
	kernel, step := p.Span(4), p.Span(6)
	if kernel.Timer() != 25*time.Microsecond || kernel.States[0].Timer() != 30500*time.Nanosecond {
		t.Errorf("kernel from %v to %v", kernel.Timer(), kernel.States[0].Timer())
	}
	if step.Count("SendPeerWait") != 10 || step.Path() != "SendPeerWait" || len(step.Stops) != 2 {
		t.Errorf("step: %d times, path %q, %d stops", step.Count("SendPeerWait"), step.Path(), len(step.Stops))
	}
	if step.Parent != p.Span(5) || step.Parent.Parent != p.Span(3) || kernel.Parent.Parent.Parent != p.Span(1) || p.Span(3).Group != nil {
		t.Error("parents are wrong")
	}
	if p.Calls[17].Verb != Stop || p.Calls[17].Span == nil || p.Calls[16].Span != nil {
		t.Error("a stop without a handle has an event, or one with has none")
	}
	if c := p.Calls[18]; c.Verb != Finalize || c.Time != 40*time.Microsecond || p.Comms[0].Finalize != c {
		t.Errorf("the last call is %s at %v", c.Verb, c.Time)
	}
}

func TestReadDir(t *testing.T) {
	processes, err := ReadDir(writeSample(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(processes) != 3 || processes[1].Name != "rank.9" || processes[1].Offset != 2*time.Millisecond || processes[2].Offset != 0 {
		t.Fatalf("%d processes: %s", len(processes), processes[1].Name)
	}
	check(t, processes[0])
}

func TestStored(t *testing.T) {
	processes, err := ReadDir(writeSample(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.gz")
	in := &Recording{Case: "sample", Settings: map[string]string{"ops": "allreduce:4 split", "ranks": "3"}, Processes: processes}
	if err := Store(file, []*Recording{in, in}); err != nil {
		t.Fatal(err)
	}
	out, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || out[1].Case != "sample" || out[1].Settings["ops"] != "allreduce:4 split" {
		t.Fatalf("%d recordings, settings %v", len(out), out[0].Settings)
	}
	check(t, out[1].Processes[0])
	if p := out[1].Processes[1]; p.Offset != 2*time.Millisecond || p.Span(2).Fields["stream"] != "0x2" || p.Comms[0].Init.Fields["comm"] != "0x1" {
		t.Errorf("offset %v, stream %s, communicator %s", p.Offset, p.Span(2).Fields["stream"], p.Comms[0].Init.Fields["comm"])
	}
}

func TestBroken(t *testing.T) {
	for _, line := range []string{"x 1 stop 1", "1 x stop 1", "1 1 stop", "1 1 stop x", "1 1 start 1", "1 1 state 1 A", "1 1 again 1 x", "1 1 start 1 Coll ctx=1 rank", "1 1 start 1 Coll parent=0", "1 1 open realtime=x", "1 1 finalize"} {
		file := filepath.Join(t.TempDir(), "rank.0.log")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(file); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}
