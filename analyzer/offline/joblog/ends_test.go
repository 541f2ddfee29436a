// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// died is what PyTorch prints of an exception that ends a rank.
func died(rank int, exception string) string {
	return fmt.Sprintf("[rank%d]: Traceback (most recent call last):\n[rank%d]:   File \"train.py\", line 88, in <module>\n[rank%d]:     main()\n[rank%d]: %s\n", rank, rank, rank, rank, exception)
}

// torchrun is the summary of a failure.
func torchrun(rank int, host, exitcode string) string {
	return fmt.Sprintf(`train.py FAILED
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_10:30:55
  host      : %s
  rank      : %d (local_rank: %d)
  exitcode  : %s (pid: 1010)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
`, host, rank, rank%4, exitcode)
}

// TorchElastic keeps what a process raised in a file whose directory is its place on its host.
func TestErrorFile(t *testing.T) {
	text := `{"message": {"message": "ValueError: bad batch", "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  File \"train.py\", line 88, in step\n    main()\nValueError: bad batch\n", "timestamp": "1"}}}`
	for name, want := range map[string]int{"/tmp/torchelastic_x/run/attempt_0/5/error.json": 5, "error.json": -1} {
		l, err := Parse(name, []byte(text), -1)
		if err != nil || len(l.Exceptions) != 1 {
			t.Fatalf("%s: %v, %v", name, l, err)
		}
		if e := l.Exceptions[0]; e.Local != want || e.Rank != -1 || e.String() != "ValueError: bad batch" || len(e.Stack) != 1 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestEnds(t *testing.T) {
	lost := "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d"
	for _, tc := range []struct {
		name, text string
		want       []int // Gone.
		why        string
	}{
		{"an exception", died(5, "ValueError: bad batch") + job(wordings[1], 8, 5), []int{5}, "it raised ValueError: bad batch at <module> (train.py:88)"},
		{"an exception alone", died(5, "torch.OutOfMemoryError: CUDA out of memory."), []int{5}, "raised torch.OutOfMemoryError"},
		{"an exception without words", died(2, "AssertionError"), []int{2}, "raised AssertionError"},
		{"killed", job(wordings[1], 8, 5) + torchrun(5, "node-1", "-9"), []int{5}, "signal 9 (SIGKILL)"},
		{"killed alone", torchrun(5, "node-1", "-9"), []int{5}, "signal 9 (SIGKILL)"},
		{"an exit code", torchrun(5, "node-1", "3"), []int{5}, "exit code 3"},
		{"out of memory", job(wordings[1], 8, 5) + "srun: error: node1: task 5: Out Of Memory\nsrun: error: node0: tasks 0-4: Killed\nsrun: error: node1: tasks 6-7: Killed\n", []int{5}, "out of memory"},
		// What follows from another's failure is nobody's end by himself.
		{"communication broke off", died(3, lost) + torchrun(3, "node-0", "1"), nil, ""},
		{"aborted by the watchdog", job(wordings[3], 8, 5) + torchrun(2, "node-0", "-6"), nil, ""},
		{"ended by the launcher", torchrun(2, "node-0", "-15"), nil, ""},
		{"who waits and then dies", job(wordings[3], 8, 5) + died(2, "RuntimeError: giving up") + torchrun(2, "node-0", "1"), nil, ""},
		{"one cause and its consequence", died(3, lost) + died(6, "KeyError: 'x'") + torchrun(3, "node-0", "1") + torchrun(6, "node-1", "1"), []int{6}, "raised KeyError: 'x'"},
		{"launchers of two nodes, and no exception", torchrun(3, "node-0", "1") + torchrun(6, "node-1", "1"), nil, ""},
		{"everybody fails alike", died(0, "ImportError: no flash") + died(1, "ImportError: no flash") + died(2, "ImportError: no flash"), nil, ""},
		{"tasks that start several ranks", job(wordings[1], 8, 5) + "srun: error: node1: task 1: Out Of Memory\n", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ev := Evidence([]*Log{parse(t, tc.text)}, nil, 0).Evidence
			var gone []int
			for _, r := range ev.Ranks {
				if r.State == rca.ProcessGone {
					gone = append(gone, r.ID)
				}
			}
			if !slices.Equal(gone, tc.want) {
				t.Fatalf("gone %v, want %v", gone, tc.want)
			}
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
			if tc.want == nil {
				if v.Cause == rca.CauseProcessGone || v.Cause == rca.CauseException {
					t.Errorf("%v: %s", ranksOf(v), v.Summary)
				}
				return
			}
			cause := rca.CauseProcessGone
			if strings.Contains(tc.why, "raised") {
				cause = rca.CauseException
				if v.Class != rca.Fault || !strings.Contains(v.Summary, tc.why) {
					t.Errorf("%s: %s", v.Class, v.Summary)
				}
			}
			if v.Cause != cause || !slices.Equal(ranksOf(v), tc.want) {
				t.Errorf("%s %s %v: %s", v.Class, v.Cause, ranksOf(v), v.Summary)
			}
			if !slices.ContainsFunc(v.Evidence, func(s string) bool { return strings.Contains(s, tc.why) }) {
				t.Errorf("%q is not in %q", tc.why, v.Evidence)
			}
		})
	}
}

// What a process warned of first is quoted with the rank, where the log tells which process that is.
func TestWarnings(t *testing.T) {
	var b strings.Builder
	for r := range 2 {
		for _, how := range []string{"START", "COMPLETE"} {
			fmt.Fprintf(&b, "node-%d:%d:900 [0] NCCL INFO ncclCommInitRank comm 0x5 rank %d nranks 2 cudaDev 0 nvmlDev 0 busId 75000 commId 0xb4 - Init %s\n", r, 700+r, r, how)
		}
	}
	b.WriteString("[1]:node-1:701:911 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB: Got completion from peer 10.1.0.7<38244> with status=12 hca mlx5_1\n" +
		"node-1:701:911 [0] NCCL WARN and so on\n" + "node-7:1:2 [3] NCCL WARN Call to connect failed\n" + job(wordings[2], 2))
	said := saidOf(Evidence([]*Log{parse(t, b.String())}, nil, 0))
	for _, want := range []string{
		"Rank 1 on node-1 (pid 701): NCCL warned: NET/IB: Got completion from peer 10.1.0.7<38244> with status=12 hca mlx5_1",
		"Process 1 on node-7, GPU 3: NCCL warned: Call to connect failed",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
	if strings.Contains(said, "and so on") {
		t.Errorf("a second warning of a process: %q", said)
	}
}

// saidOf is what messages tell by themselves, in the order of their strength.
func saidOf(r Result) string {
	v := told.Apply(rca.Verdict{Class: rca.Unknown}, r.Findings)
	return v.Summary + "\n" + strings.Join(v.Evidence, "\n")
}

// Who says that a peer closed the connection is a victim; the host of the peer is told.
func TestClosedByPeer(t *testing.T) {
	var b strings.Builder
	for r := range 4 {
		fmt.Fprintf(&b, "node-%d:%d:900 [0] NCCL INFO ncclCommInitRank comm 0x5 rank %d nranks 4 cudaDev 0 nvmlDev 0 busId 75000 commId 0xb4 - Init COMPLETE\n", r, 700+r, r)
	}
	for r := range 3 {
		b.WriteString(died(r, "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error, NCCL version 2.27.3\n"+
			fmt.Sprintf("[rank%d]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n[rank%d]: Last error:\n[rank%d]: socketProgress: Connection closed by remote peer node-3<41234>", r, r, r)))
	}
	r := Evidence([]*Log{parse(t, b.String())}, nil, 0)
	v := engine.Analyze(r.Evidence, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
	if got := ranksOf(v); slices.ContainsFunc(got, func(r int) bool { return r != 3 }) {
		t.Errorf("%s %v: %s", v.Class, got, v.Summary)
	}
	if want := "Host node-3 closed its connections"; !strings.Contains(saidOf(r), want) {
		t.Errorf("%q is not in %q", want, saidOf(r))
	}
}

// The comparison of collectives names what each rank called.
func TestFingerprints(t *testing.T) {
	shown := func(kind string) string {
		return fmt.Sprintf("CollectiveFingerPrint(SequenceNumber=7, OpType=%s, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float))", kind)
	}
	var b strings.Builder
	for r := range 4 {
		mine, other, theirs := "ALLREDUCE", 3, "ALLGATHER"
		if r == 3 {
			mine, other, theirs = "ALLGATHER", 0, "ALLREDUCE"
		}
		b.WriteString(died(r, fmt.Sprintf("RuntimeError: Detected mismatch between collectives on ranks. Rank %d is running collective: %s, but Rank %d is running collective: %s.", r, shown(mine), other, shown(theirs))))
	}
	ev := Evidence([]*Log{parse(t, b.String())}, nil, 0).Evidence
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
	if v.Class != rca.Inconsistent || !slices.Equal(ranksOf(v), []int{3}) {
		t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
	}
}

// SIGINT that reaches one rank ends that rank; from a terminal it reaches all, and tells of none.
func TestInterrupted(t *testing.T) {
	broke := "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:19351"
	list := func(rank int) string {
		return fmt.Sprintf("Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-28_19:14:56\n  host      : a\n  rank      : %d (local_rank: %d)\n  exitcode  : -2 (pid: %d)\n", rank, rank, 700+rank)
	}
	for name, c := range map[string]struct {
		text string
		want []int
	}{
		"one":              {died(2, "KeyboardInterrupt") + died(3, broke) + died(1, broke) + list(2), []int{2}},
		"all":              {died(0, "KeyboardInterrupt") + died(1, "KeyboardInterrupt") + died(2, "KeyboardInterrupt") + died(3, "KeyboardInterrupt") + list(2), nil},
		"the launcher too": {died(1, "KeyboardInterrupt") + died(2, "KeyboardInterrupt") + list(2), nil},
	} {
		l := parse(t, c.text)
		l.World = 4
		v := engine.Analyze(Evidence([]*Log{l}, nil, 0).Evidence, rca.Options{HangAfter: 1, FirstOps: -2, Incident: true})
		if got := ranksOf(v); c.want != nil && !slices.Equal(got, c.want) || c.want == nil && slices.Contains(got, 2) {
			t.Errorf("%s: %s %v: %s", name, v.Class, got, v.Summary)
		}
	}
}
