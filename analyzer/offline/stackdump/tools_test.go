// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const faulthandler = `Thread 0x00007fe3919266c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007fe4a3e13b80 (most recent call first):
  File "/x/loader.py", line 3 in wait_for_data
  File "/x/train.py", line 5 in train
  File "/x/train.py", line 6 in <module>
`

const gdb = `[New LWP 24250]
[Thread debugging using libthread_db enabled]
0x00007f1b8a2c4e9f in poll () from /lib/x86_64-linux-gnu/libc.so.6

Thread 2 (Thread 0x7f1b7bfff700 (LWP 24250) "pt_nccl_watchdg"):
#0  0x00007f1b8a1d5117 in ?? () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f1b8a1d7a41 in pthread_cond_wait () from /lib/x86_64-linux-gnu/libc.so.6
#2  0x00007f1b42c8bb9f in c10d::ProcessGroupNCCL::watchdogHandler() () from /opt/torch/lib/libtorch_cuda.so

Thread 1 (Thread 0x7f1b8a0c2740 (LWP 24247) "python3"):
#0  0x00007f1b8a2c4e9f in poll () from /lib/x86_64-linux-gnu/libc.so.6
#1  0x00007f1b42c10000 in c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono::duration<long>) () at /build/ProcessGroupGloo.cpp:553
#2  0x0000000000521d2e in _PyEval_EvalFrameDefault ()
`

const pyBT = `Traceback (most recent call first):
  <built-in method read of _io.TextIOWrapper object at remote 0x7f>
  File "/x/loader.py", line 3, in wait_for_data
    return f.read()
  File "/x/train.py", line 5, in train
    wait_for_data()
  File "/x/train.py", line 6, in <module>
    train()
`

const pystack = `Traceback for thread 24250 (pin) [] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
        self._bootstrap_inner()

Traceback for thread 24247 (python3) [Has the GIL] (most recent call last):
    (Python) File "/x/train.py", line 6, in <module>
        train()
    (Python) File "/x/train.py", line 5, in train
        wait_for_data()
    (Python) File "/x/loader.py", line 3, in wait_for_data
        return f.read()
`

const euStack = `PID 24247 - process
TID 24247:
#0  0x00007f6f3f1ab0c0 clock_nanosleep - /usr/lib64/libc.so.6
#1  0x00007f6f3f1b0a43 __nanosleep - /usr/lib64/libc.so.6
#2  0x00007f6f1d0b2222 ncclAllReduce - /opt/libnccl.so.2
TID 24250:
#0  0x00007f6f3f1ab0c0 __futex_abstimed_wait_common - /usr/lib64/libc.so.6
`

func TestTools(t *testing.T) {
	python := []string{"<module> (/x/train.py:6)", "train (/x/train.py:5)", "wait_for_data (/x/loader.py:3)"}
	for _, tc := range []struct {
		name, data string
		pid        int
		threads    int
		want       []string
	}{
		{"faulthandler", faulthandler, 0, 2, python},
		{"faulthandler of Python 3.14", strings.Replace(faulthandler, "c0 (most", "c0 [Thread-1 (wait)] (most", 1), 0, 2, python},
		{"gdb py-bt", pyBT, 0, 1, python},
		{"pystack", pystack, 0, 2, python},
		{"gdb", gdb, 24247, 2, []string{"_PyEval_EvalFrameDefault (?)", "c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono::duration<long>) (/build/ProcessGroupGloo.cpp:553)", "poll (/lib/x86_64-linux-gnu/libc.so.6)"}},
		{"eu-stack", euStack, 24247, 2, []string{"ncclAllReduce (/opt/libnccl.so.2)", "__nanosleep (/usr/lib64/libc.so.6)", "clock_nanosleep (/usr/lib64/libc.so.6)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !Sniff([]byte(tc.data)) {
				t.Fatal("not recognised")
			}
			ps, err := Parse("x", []byte(tc.data))
			if err != nil || len(ps) != 1 {
				t.Fatalf("%+v, %v", ps, err)
			}
			if p := &ps[0]; p.PID != tc.pid || len(p.Threads) != tc.threads || !slices.Equal(p.Main(), tc.want) {
				t.Errorf("pid %d, %d threads, %q", p.PID, len(p.Threads), p.Main())
			}
		})
	}
	if log := strings.Repeat("step 5: loss 2.31\n", 20) + faulthandler; Sniff([]byte(log)) {
		t.Error("a log with a dump in it is taken for stacks")
	}
}

// Whose stack it is: the process's environment, then its number, then the file's name, where that is no process number.
func TestRanks(t *testing.T) {
	at := func(file string, pid int, command, before string) Process {
		ps, err := Parse(file, []byte(fmt.Sprintf("%sProcess %d: %s\n\nThread %d (idle): \"MainThread\"\n    step (train.py:%d)\n    <module> (train.py:9)\n", before, pid, command, pid, pid)))
		if err != nil {
			t.Fatal(err)
		}
		return ps[0]
	}
	byName := func(file string) int {
		var n int
		if _, err := fmt.Sscanf(strings.TrimLeft(file, "abcdefghijklmnopqrstuvwxyz/_-"), "%d", &n); err != nil {
			return -1
		}
		return n
	}
	for _, tc := range []struct {
		name      string
		processes []Process
		known     Known
		want      []int // PIDs by rank.
		global    bool
	}{
		{"the file is called by the process number", []Process{at("5278.txt", 5278, "python train.py", ""), at("5279.txt", 5279, "python train.py", "")}, Known{}, []int{5278, 5279}, false},
		{"all of a job, in order", []Process{at("51.txt", 51, "", ""), at("40.txt", 40, "", "")}, Known{World: 2, ByPID: map[int][]int{51: {1}}}, []int{40, 51}, true},
		{"out of order", []Process{at("51.txt", 51, "", ""), at("40.txt", 40, "", "")}, Known{World: 2, ByPID: map[int][]int{51: {0}}}, []int{51}, true},
		{"local ranks", []Process{at("51.txt", 51, "train.py --local_rank=1", ""), at("52.txt", 52, "train.py --local-rank 0", "")}, Known{}, []int{52, 51}, true},
		{"the environment", []Process{at("rank_0.txt", 51, "", "LOCAL_RANK=0 RANK=1 WORLD_SIZE=2\n"), at("b", 52, "", "RANK=0\n")}, Known{}, []int{52, 51}, true},
		{"names", []Process{at("rank_1.txt", 51, "", ""), at("rank_0.txt", 52, "", "")}, Known{}, []int{52, 51}, true},
		{"a date is no rank", []Process{at("stack-20241122.txt", 51, "", ""), at("rank_0.txt", 52, "", "")}, Known{World: 8}, []int{52}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.known.ByName = byName
			ev, _, global := Evidence(tc.processes, tc.known)
			var got []int
			for i, r := range ev.Ranks {
				if r.ID != i || (r.Name == "") != tc.global {
					t.Errorf("%+v", r)
				}
				got = append(got, r.PID)
			}
			if !slices.Equal(got, tc.want) || global != tc.global {
				t.Errorf("%v, global %v", got, global)
			}
		})
	}
}

// What a data loader's worker does its rank waits for.
func TestWorkers(t *testing.T) {
	const text = `Process 10: python train.py
Thread 10 (idle): "MainThread"
    wait (threading.py:331)
    _try_get_data (torch/utils/data/dataloader.py:1251)
    load (train.py:79)
    <module> (train.py:9)

Process 11: python train.py
Thread 11 (idle): "MainThread"
    read_image (images.py:8)
    fetch (torch/utils/data/_utils/fetch.py:52)
    _worker_loop (torch/utils/data/_utils/worker.py:358)
    <module> (train.py:9)
`
	ps, err := Parse("rank_0", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ev, _, _ := Evidence(ps, Known{ByName: func(string) int { return 0 }})
	if len(ev.Ranks) != 1 || ev.Ranks[0].PID != 10 || ev.Ranks[0].Stack[len(ev.Ranks[0].Stack)-1] != "read_image (images.py:8)" {
		t.Errorf("%+v", ev.Ranks)
	}
}
