// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay_test replays the stored recordings of real NCCL through the shim.
package replay_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
	"github.com/culprit-project/culprit/trace"
)

const (
	root = "../../.."
	// Pauses of a recording are cut to this. The shim's clock is good to about a microsecond.
	longestPause = 200 * time.Microsecond
)

func TestMain(m *testing.M) {
	for _, dir := range []string{"ncclshim", "lab/ncclrecord"} {
		if out, err := exec.Command("make", "-C", filepath.Join(root, dir)).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", dir, err, out)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func stored(t *testing.T) map[string][]*recording.Recording {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "lab/ncclrecord/testdata/*.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	found := map[string][]*recording.Recording{}
	for _, file := range files {
		all, err := recording.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".gz")] = all
	}
	return found
}

// TestReplay plays every recording through the shim and compares what its trace file says with what was recorded.
func TestReplay(t *testing.T) {
	for version, all := range stored(t) {
		for _, r := range all {
			for rank, p := range r.Processes {
				t.Run(fmt.Sprintf("%s/%s/%d", version, r.Case, rank), func(t *testing.T) {
					t.Parallel()
					checkReplay(t, r, p, replay(t, p, rank, len(r.Processes)))
				})
			}
		}
	}
}

// seen is what the trace file of a replay says.
type seen struct {
	snapshot    trace.Snapshot
	completions []trace.Completion
}

func replay(t *testing.T, p *recording.Process, rank, ranks int) *seen {
	t.Helper()
	dir := t.TempDir()
	var script bytes.Buffer
	if err := p.Script(&script, longestPause); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), absolute(t, "build/ncclrecord/replay"), absolute(t, "bin/libnccl-profiler-culprit.so"))
	cmd.Stdin = &script
	cmd.Env = append(os.Environ(), "CULPRIT_DIR="+dir, fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("WORLD_SIZE=%d", ranks))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "u*", "*.trace"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d trace files, %v", len(files), err)
	}
	f, err := trace.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &seen{}
	if err := f.Snapshot(&s.snapshot); err != nil {
		t.Fatal(err)
	}
	if s.completions, _, err = f.LastCompletions(0, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func checkReplay(t *testing.T, r *recording.Recording, p *recording.Process, s *seen) {
	t.Helper()
	if len(p.Of("Coll", "P2p")) == 0 {
		return
	}
	checkDurations(t, s)
	checkEnds(t, p, s)
	checkBytes(t, p, s)
	if r.Settings["fault"] != "none" && r.Settings["fault"] != "abort" {
		checkStanding(t, p, s)
	}
}

// checkDurations: nothing ends before it began.
func checkDurations(t *testing.T, s *seen) {
	t.Helper()
	for _, c := range s.completions {
		order := []uint64{c.CalledNS, c.EnqueuedNS, c.LeftNS}
		if c.LeftNS == 0 {
			t.Errorf("%s %d: completed without an end", c.Func, c.Seq)
		}
		for i := 1; i < len(order); i++ {
			if order[i] != 0 && order[i] < order[i-1] {
				t.Errorf("%s %d: called, enqueued and left at %v", c.Func, c.Seq, order)
			}
		}
		if c.EnteredNS > c.LeftNS {
			t.Errorf("%s %d: entered %d ns after it left", c.Func, c.Seq, c.EnteredNS-c.LeftNS)
		}
	}
}

// fate is what a recorded operation came to.
type fate int

const (
	over   fate = iota // All that it had was stopped.
	hangs              // A proxy operation or kernel of it was not.
	unseen             // It had nothing that tells.
)

// firstWithKernels is the first version of the interface with which the shim asks for KernelCh. Without it a receive is over
// when its data has been taken, although its kernel may still stand in the send that it does, too.
const firstWithKernels = 5

func fateOf(p *recording.Process, task *recording.Span) fate {
	ops, kernels := task.Of("ProxyOp"), task.Of("KernelCh")
	if p.ABI() < firstWithKernels {
		kernels = nil
	}
	for _, op := range append(ops, kernels...) {
		if op.Live() {
			return hangs
		}
	}
	if len(ops) == 0 && len(kernels) == 0 || p.ABI() >= firstWithKernels && len(kernels) != task.Num("channels") {
		return unseen
	}
	return over
}

// key names a collective in a process.
func key(context int, function string, seq int) string {
	return fmt.Sprint(context, " ", function, " ", seq)
}

// checkEnds: what ended in the recording is completed, what hung is not. Send and receive, which NCCL does not number,
// are counted.
func checkEnds(t *testing.T, p *recording.Process, s *seen) {
	t.Helper()
	completed := map[string]bool{}
	transfers := 0
	for _, c := range s.completions {
		if c.Flags&trace.OpP2P != 0 {
			transfers++
			continue
		}
		completed[key(int(c.CommIndex), c.Func.String(), int(c.Seq))] = true
	}
	comms := map[*recording.Comm]int{}
	for i, c := range p.Comms {
		comms[c] = i
	}
	least, most := 0, 0
	for _, task := range p.Of("Coll", "P2p") {
		f := fateOf(p, task)
		if task.Name == "P2p" {
			if f == over {
				least++
			}
			if f != hangs {
				most++
			}
			continue
		}
		k := key(comms[task.Comm], task.Fields["func"], task.Num("seq"))
		if f == over && !completed[k] {
			t.Errorf("%s %s ended and is not completed", task.Fields["func"], task.Fields["seq"])
		}
		if f == hangs && completed[k] && task.Comm.Finalize == nil {
			t.Errorf("%s %s hangs and is completed", task.Fields["func"], task.Fields["seq"])
		}
	}
	if transfers < least || transfers > most && p.Comms[0].Finalize == nil {
		t.Errorf("%d sends and receives are completed, want %d to %d", transfers, least, most)
	}
}

// sent is what a proxy operation sent by the recorded sizes.
func sent(p *recording.Process, op *recording.Span) int {
	if p.ABI() <= 3 {
		first, last := -1, 0
		for _, c := range op.States {
			n, ok := c.Size()
			if ok && c.Name == "ProxyOpSendPosted" && first < 0 {
				first = n
			}
			if ok && c.Name == "ProxyOpSendDone" {
				last = n
			}
		}
		return last - max(first, 0)
	}
	total := 0
	for _, step := range op.Children {
		if c := step.State("SendWait"); c != nil {
			n, _ := c.Size()
			total += n
		}
	}
	return total
}

// checkBytes: what all finished operations sent is what the recorded transfers add up to.
func checkBytes(t *testing.T, p *recording.Process, s *seen) {
	t.Helper()
	want, got := 0, uint64(0)
	for _, task := range p.Of("Coll", "P2p") {
		for _, op := range task.Of("ProxyOp") {
			if fateOf(p, task) == hangs {
				return // The flows are looked at instead.
			}
			if op.Num("send") == 1 {
				want += sent(p, op)
			}
		}
	}
	for _, c := range s.completions {
		got += c.Send.Bytes
	}
	if got != uint64(want) {
		t.Errorf("%d bytes sent, recorded %d", got, want)
	}
}

// checkStanding: the flows of what hangs stand where the recorded steps do.
func checkStanding(t *testing.T, p *recording.Process, s *seen) {
	t.Helper()
	for _, op := range p.Of("ProxyOp") {
		if !op.Live() || len(op.Children) == 0 || op.Parent == nil || op.Parent.Name != "Coll" {
			continue
		}
		send := op.Num("send") == 1
		posted, ready, transmitted, done := 0, 0, 0, 0
		states := []string{"RecvWait", "RecvFlushWait", "RecvGPUWait"}
		if send {
			states = []string{"SendGPUWait", "SendPeerWait", "SendWait"}
		}
		for _, step := range op.Children {
			for i, n := range []*int{&posted, &ready, &transmitted} {
				if step.State(states[i]) != nil {
					*n++
				}
			}
			if !step.Live() {
				done++
			}
		}
		if n := op.Count("ProxyOpRecvDone"); n > 0 {
			done = n
		}
		if send && p.ABI() <= 3 {
			ready = transmitted // The interface has no state for it.
		}
		found := false
		for _, f := range s.snapshot.Flows {
			if int(f.Channel) == op.Num("channel") && f.IsSend == send && int(f.Peer) == op.Num("peer") && f.OpSeq == uint64(op.Parent.Num("seq")) {
				found = true
				if int(f.Posted) != posted || int(f.Ready) != ready || int(f.Transmitted) != transmitted || int(f.Done) != done {
					t.Errorf("flow ch %d send %v: %d %d %d %d, recorded %d %d %d %d", f.Channel, send, f.Posted, f.Ready, f.Transmitted, f.Done, posted, ready, transmitted, done)
				}
			}
		}
		if !found {
			t.Errorf("no flow ch %d send %v peer %d of operation %s", op.Num("channel"), send, op.Num("peer"), op.Parent.Fields["seq"])
		}
	}
}
