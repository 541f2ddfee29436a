// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"strings"
	"testing"
)

// Of lines that no row knows the one that names a failure best is taken, and of equals the first.
func TestFirstFailure(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a level":                          {"step 1\nsrun: error: Task launch for 36.0 failed on node n1: Job credential expired\nbye\n", "Task launch"},
		"a name before a level":            {"E something\n[ERROR] it went wrong there\nEE1002: Stream synchronize timeout, execute failed\n", "EE1002"},
		"the first of equals":              {"[ERROR] one failed on node a\n[ERROR] two failed on node b\n", "one failed"},
		"what follows comes last":          {"[ERROR] recv failed: Connection reset by peer\nopen of /data/x failed at step 3\n[ERROR] Broken pipe, shutting down\n", "recv failed"},
		"a cause goes before a follower":   {"[ERROR] Connection reset by peer, remote process exited\n[ERROR] page table of device 3 is corrupt\n", "page table"},
		"levels that got over it":          {"WARNING: retry 1 of connect failed\nERROR: gave up after five retries\n", "gave up"},
		"a warning, where nothing else is": {"step 1\n[W208 00:55:32.4 socket.cpp:487] connect to the store timed out\n", "connect to the store"},
		"frames and hints are no failure":  {"frame #0: c10::Error::Error(x) + 0x57\n  File \"error.py\", line 3, in fail\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1, error may be late\n", ""},
		"counts of none":                   {"time=1 msg=job running=1 succeeded=0 failed=0\n0 errors found\n", ""},
		"an ordinary log":                  {"iteration 5 loss 2.1\nsaved checkpoint\nepoch done\n", ""},
		"an exit code":                     {"Pod: kubeflow.simple-worker-0 exited with code 1\n", "exited with code 1"},
		"exit code 0":                      {"Pod: kubeflow.simple-worker-0 exited with code 0\n", ""},
		"a head is taken off":              {"[rank3]: 2026-01-01 10:00:00.123 ring of the library failed badly\n", "ring of"},
	} {
		got, ok := FirstFailure([]byte(c.text), func(int, int) bool { return false })
		if ok != (c.want != "") || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: %q, want %q", name, got.Text, c.want)
		}
	}
	text := "[ERROR] known to a row\n[ERROR] known to none\n"
	if got, _ := FirstFailure([]byte(text), func(start, _ int) bool { return start == 0 }); !strings.Contains(got.Text, "none") {
		t.Errorf("%q: a line that a row has read is no news", got.Text)
	}
}

// Text that only mentions errors is no log.
func TestHasFailure(t *testing.T) {
	for text, want := range map[string]bool{
		"srun: error: Task launch for 36.0 failed on node n1: Job credential expired\n":                                  true,
		"2026-01-01 10:00:00: E external/x.cc:1] Aborting communicator due to async NCCL error: remote process exited\n": true,
		"Dear all, the meeting cannot take place.\n":                                                                     false,
		"name,rank,start\na,1,2\n": false,
	} {
		if got := HasFailure([]byte(text), false); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// How a job ended stands at the end of its log, whatever the words.
func TestSieveKeepsTheEnd(t *testing.T) {
	noise := strings.Repeat("step 812: loss 2.31, 1.12 it/s, data 0.002 s\n", 80_000)
	kept, _, err := Sieve(strings.NewReader(noise + "it is over now\n"))
	if err != nil || !strings.HasSuffix(string(kept), "it is over now\n") || len(kept) > sieveHead+2*sieveTail {
		t.Errorf("%d bytes, %v: %q", len(kept), err, kept[max(0, len(kept)-40):])
	}
}

// Labels, and lines that were broken inside words.
func TestPlainLabels(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"mpirun, within lines":               {"[1,0]<stderr>:[[1,0]<stderr>:10:00[1,0]<stderr>:: x\n[1,0]<stderr>:y\n", "[rank0]: [10:00: x\n[rank0]: y\n"},
		"accelerate test":                    {"stderr: a\nstderr: b\n", "a\nb\n"},
		"Determined":                         {"[2026-01-01T10:00:00.1Z] fa88 [rank=4] || a\n[2026-01-01T10:00:00.1Z] fa88 [rank=4] || b\n", "[rank4]: a\n[rank4]: b\n"},
		"Ray":                                {"(W pid=9, ip=10.0.0.1) a\n", "[proc W pid=9]: a\n"},
		"colours without escape":             {"[36m(W pid=9)[0m a\n", "[proc W pid=9]: a\n"},
		"a worker's line through its engine": {"(EngineCore pid=1) (Worker_TP2 pid=3) a\n", "[proc Worker_TP2 pid=3]: a\n"},
		"a wrapper's JSON":                   {`{"event": "line", "data": "a\n", "pipe": "stderr"}` + "\n", "a\n"},
		"padded lines":                       {strings.Repeat("a line"+strings.Repeat(" ", 94)+"\n", 5), strings.Repeat("a line"+strings.Repeat(" ", 94)+"\n", 5)},
	} {
		if got := string(Plain([]byte(c.text))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	broken := "[Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, Nume\nlOut=1, Timeout(ms)=600000) ran for 600050 milliseconds\n"
	if e := Scan([]byte(broken)); len(e) != 1 || e[0].Int("seq") != 2 {
		t.Errorf("%d messages in %q", len(e), broken)
	}
}
