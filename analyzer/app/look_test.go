// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build pyspy

package app

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/exporter/look"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/exporter/pyspy"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// stays is what a real Python process does while its job waits for it, and what is found of it.
type stays struct {
	program string
	page    bool // It is paged for as soon as two looks agree; else it keeps its patience.
	class   rca.Class
	cause   rca.Cause
	tells   []string // In summary and evidence.
}

const notCalled, notEntered = rca.CauseNotCalled, rca.NotEntered

var realPrograms = map[string]stays{
	"breakpoint": {`
def step():
    ready()
    breakpoint()
    return 1
step()`, true, notEntered, notCalled, []string{"in a debugger at step (train.py:", "has not run between two looks", "sleeps in read"}},
	"exception, then the interpreter's end": {`
def uploads():
    threading.Event().wait()
threading.Thread(target=uploads).start()
ready()
raise RuntimeError("out of memory")`, true, notEntered, notCalled, []string{"the interpreter's shutdown", "has not run between two looks"}},
	"exception path": {`
def handler():
    ready()
    time.sleep(1000)
try:
    raise RuntimeError("out of memory")
except RuntimeError:
    handler()`, false, notEntered, notCalled, []string{"in handler (train.py:", "clock_nanosleep"}},
	"loader that reads a pipe": {`
def next_batch():
    with open(sys.argv[1] + "/fifo") as f:
        ready()
        return f.read()
next_batch()`, false, notEntered, notCalled, []string{"in next_batch (train.py:", "sleeps in read of ", "/fifo"}},
	"locks in opposite orders": {`
a, b = threading.Lock(), threading.Lock()
go = threading.Barrier(2)
def other():
    with b:
        go.wait()
        with a:
            pass
threading.Thread(target=other, daemon=True).start()
def step():
    with a:
        go.wait()
        ready()
        with b:
            pass
step()`, false, notEntered, notCalled, []string{"in step (train.py:", "sleeps in futex"}},
	"an extension that keeps the interpreter's lock": {`
import ctypes
def solve():
    ready()
    ctypes.PyDLL(None).sleep(1000)
solve()`, false, notEntered, notCalled, []string{"in solve (train.py:", "holds the interpreter lock while it sleeps, in solve (train.py:"}},
	"checkpoint": {`
def save_checkpoint():
    with open(sys.argv[1] + "/checkpoint", "wb") as f:
        while True:
            f.seek(0)
            for _ in range(8):
                f.write(bytes(1 << 20))
            ready()
            time.sleep(0.05)
save_checkpoint()`, false, rca.Benign, rca.CauseCheckpoint, []string{"save_checkpoint"}},
	"evaluation": {`
def evaluate():
    ready()
    total = 0
    while True:
        total += 1
evaluate()`, false, notEntered, notCalled, []string{"in evaluate (train.py:"}},
	"compilation": {`
def warm_up():
    ready()
    while True:
        compile("x = 1\n" * 1000, "generated", "exec")
warm_up()`, false, notEntered, notCalled, []string{"in warm_up (train.py:"}},
	"import": {`
open(sys.argv[1] + "/slow_module.py", "w").write("import time\ntime.sleep(1000)\n")
sys.path.insert(0, sys.argv[1])
def lazy():
    ready()
    import slow_module
lazy()`, false, notEntered, notCalled, []string{"in an import at ", "slow_module.py:2"}},
}

const prelude = `import sys, threading, time
once = []
def ready():
    if not once:
        once.append(print("ready", flush=True))
`

// TestRealPython has real processes stay away from what their peers wait in. The exporter's own look at each, with a real py-spy, decides
// what the page says and when it comes. PY_SPY and PYTHON name the programs.
func TestRealPython(t *testing.T) {
	for name, tc := range realPrograms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staysAway(t, &tc, t.TempDir())
		})
	}
}

// staysAway runs the program as rank 1 of a job of four whose other ranks wait for it.
func staysAway(t *testing.T, tc *stays, dir string) {
	t.Helper()
	target := runPython(t, tc.program, dir)
	c, am := newCluster(t, 2), newAlertmanager(t)
	c.hang(1, nodeapi.ProcessSleep)
	c.change(func() {
		c.processes[1].Kernel.HostPID = target.PID
		c.looks = realLooks(t, target)
	})
	a := start(t, quick(c, am), "")
	began := time.Now()
	a.push(0, trouble("NCCLStall", "rank", "0"))
	var v rca.Verdict
	told := func() string { return v.Summary + "\n" + v.Action + "\n" + strings.Join(v.Evidence, "\n") }
	defer func() {
		if t.Failed() {
			t.Logf("the verdict is %s, %s, page %v: %s", v.Class, v.Cause, v.Page, told())
		}
	}()
	// A process that keeps its patience is looked at again and again; on a busy machine py-spy may be late.
	eventually(t, "the verdict", func() bool {
		list := a.incidents()
		if len(list) != 1 || list[0].Verdict == nil {
			return false
		}
		v = *list[0].Verdict
		if latest := list[0].Latest; latest != nil && !tc.page {
			v = *latest
		}
		lacks := func(want string) bool { return !strings.Contains(told(), want) }
		return v.Class == tc.class && v.Cause == tc.cause && v.Page == tc.page && !slices.ContainsFunc(tc.tells, lacks)
	})
	t.Logf("after %.1f s: %s", time.Since(began).Seconds(), v.Summary)
	if tc.class != rca.Benign && (len(v.Culprits) != 1 || v.Culprits[0].Rank != 1) {
		t.Errorf("culprits are %+v", v.Culprits)
	}
	if !tc.page { // It is looked at again, and still left alone.
		n := a.incidents()[0].Count
		eventually(t, "more looks", func() bool { return a.incidents()[0].Count >= n+2 })
	}
	for _, alert := range am.verdicts() {
		if found := alert.Labels["alertname"] == "CulpritFound"; found && !tc.page {
			t.Errorf("paged: %v", alert.Labels)
		}
	}
}

// runPython starts a program and waits until it says that it is where it stays.
func runPython(t *testing.T, program, dir string) look.Target {
	t.Helper()
	if os.Getenv("PYTHON") == "" {
		t.Fatal("PY_SPY and PYTHON name the programs: run this by the make target that installs them")
	}
	script := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(script, []byte(prelude+program), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	keep, err := os.OpenFile(fifo, os.O_RDWR, 0) // So that opening it does not wait.
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Symlink(fifo, filepath.Join(dir, "fifo")) // A file system that stalls has none.
	cmd := exec.CommandContext(t.Context(), os.Getenv("PYTHON"), script, dir)
	stdin, err := cmd.StdinPipe() // Stays open: the debugger waits for it.
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = stdin.Close(), keep.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := fs.StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return look.Target{PID: cmd.Process.Pid, StartTicks: ticks}
}

// realLooks answers as the exporter does, with the process for rank 1.
func realLooks(t *testing.T, target look.Target) http.HandlerFunc {
	t.Helper()
	spy, err := pyspy.Find(os.Getenv("PY_SPY"))
	if err != nil {
		t.Fatal(err)
	}
	looker := &look.Looker{ProcFS: "/proc", SysFS: "/sys", Python: spy}
	return func(w http.ResponseWriter, r *http.Request) {
		answer := nodeapi.Look{Version: nodeapi.Version}
		if slices.Contains(r.URL.Query()["rank"], "1") {
			at, err := looker.Look(r.Context(), target)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			at.JobID, at.Rank = jobID, 1
			answer.Processes = append(answer.Processes, at)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}
