// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// patience is how long a condition may take to come true on a busy machine.
const patience = 4 * time.Minute

// job is a ringjob with the real shim and an exporter that watches it.
type job struct {
	t    *testing.T
	addr string
}

// asExporter in the environment of the test's own program makes it the exporter, so that a test need not build one to kill it.
const asExporter = "CULPRIT_TEST_AS_EXPORTER"

func TestMain(m *testing.M) {
	if os.Getenv(asExporter) != "" {
		os.Exit(run(os.Args[1:]))
	}
	flag.Parse()
	// Tests that run jobs mostly wait for them.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// built builds all that the jobs of the tests need, once: tests run side by side.
var built = sync.OnceValue(func() error {
	for _, args := range [][]string{{"../ncclshim", "all", "trainer", "sender"}, {"../sim/ringjob", "all"}} {
		if out, err := exec.Command("make", append([]string{"-C"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s (a C compiler and make are required): %w\n%s", args[0], err, out)
		}
	}
	return nil
})

// buildJob gives ringjob and the shim.
func buildJob(t *testing.T) (ringjob, shim string) {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../bin")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, "ringjob"), filepath.Join(bin, "libnccl-profiler-culprit.so")
}

// startRanks runs four ranks on two hosts with a fault and gives the hosts' trace directories.
func startRanks(t *testing.T, fault string) (host0, host1 string) {
	t.Helper()
	dir := t.TempDir()
	startRanksIn(t, dir, fault)
	return filepath.Join(dir, "host0"), filepath.Join(dir, "host1")
}

// startRanksIn does so in a directory, and gives what ends them.
func startRanksIn(t *testing.T, dir, fault string) (end func()) {
	t.Helper()
	ringjob, shim := buildJob(t)
	args := []string{"launch", "--ranks", "4", "--hosts", "2", "--dir", dir, "--job", "train", "--timeout", "300", "--grace", "1", "--"}
	args = append(args, "--layout", "dp2,pp2,tp1", "--compute-ms", "10", "--report-every", "0")
	if fault != "" {
		args = append(args, "--fault", fault)
	}
	cmd := exec.Command(ringjob, args...)
	cmd.Env = append(os.Environ(), "NCCL_PROFILER_PLUGIN="+shim)
	// A launcher that is told to end takes its ranks with it, and none outlives it.
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	t.Cleanup(end)
	return end
}

// startJob runs four ranks on two hosts with a fault, and an exporter for both hosts.
func startJob(t *testing.T, fault string) *job {
	t.Helper()
	host0, host1 := startRanks(t, fault)
	return &job{t: t, addr: startExporter(t, host0, host1)}
}

// startExporter runs an exporter for directories of trace files, and for no others, and gives its address.
func startExporter(t *testing.T, dirs ...string) string {
	t.Helper()
	return startExporterWith(t, []string{"--no-trace.search"}, dirs...)
}

func startExporterWith(t *testing.T, args []string, dirs ...string) string {
	t.Helper()
	addr := freeAddress(t)
	args = append(args, "--web.listen-address="+addr, "--collector.nccl.detail-after=1s", "--runtime.gomaxprocs=2", "--web.enable-control")
	for _, dir := range dirs {
		args = append(args, "--trace.dir="+dir)
	}
	flags, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, promslog.NewNopLogger(), flags) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("exporter: %v", err)
		}
	})
	waitHealthy(t, addr)
	return addr
}

func (j *job) body(path string) string {
	j.t.Helper()
	resp, err := http.Get("http://" + j.addr + path)
	if err != nil {
		j.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		j.t.Fatalf("%s: %d %v %s", path, resp.StatusCode, err, b)
	}
	return string(b)
}

// metrics gives the values of a metric by rank, summed over other labels.
func (j *job) metrics(name string) map[string]float64 {
	j.t.Helper()
	values := map[string]float64{}
	line := regexp.MustCompile(`(?m)^` + name + `\{.*?rank="([^"]*)".*\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(j.body("/metrics"), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			j.t.Fatal(err)
		}
		values[m[1]] += v
	}
	return values
}

func (j *job) state(query string) nodeapi.State {
	j.t.Helper()
	var s nodeapi.State
	if err := json.Unmarshal([]byte(j.body(nodeapi.StatePath+query)), &s); err != nil {
		j.t.Fatal(err)
	}
	return s
}

// eventually waits until check gives an empty reason.
func (j *job) eventually(check func() string) {
	j.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		reason := check()
		if reason == "" {
			return
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("after %v: %s", patience, reason)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHealthyJob(t *testing.T) {
	t.Parallel()
	j := startJob(t, "")
	j.eventually(func() string {
		iterations := j.metrics("culprit_nccl_iteration_seconds_count")
		for rank := range 4 {
			if n := iterations[strconv.Itoa(rank)]; n < 20 {
				return fmt.Sprintf("rank %d: %g iterations", rank, n)
			}
		}
		return ""
	})
	for _, name := range []string{
		"culprit_nccl_ops_started_total", "culprit_nccl_ops_completed_total", "culprit_nccl_bytes_total", "culprit_nccl_op_seconds_total", "culprit_nccl_op_bytes_total", "culprit_nccl_kernel_seconds_total", "culprit_nccl_send_steps_total",
		"culprit_nccl_receive_steps_total", "culprit_nccl_wait_seconds_total", "culprit_nccl_active_seconds_total", "culprit_nccl_process_age_seconds",
	} {
		for rank := range 4 {
			if v := j.metrics(name)[strconv.Itoa(rank)]; v <= 0 {
				t.Errorf("%s of rank %d is %g", name, rank, v)
			}
		}
	}
	// Two threads that meet in one slot lose an event, which is rare and no fault of the reader's.
	lost := regexp.MustCompile(`culprit_nccl_events_lost_total\{.*reason="(?:dropped_\w+|overrun|stale)"\} [^0].*`)
	if got := lost.FindAllString(j.body("/metrics"), -1); len(got) > 0 {
		t.Errorf("records were lost: %v", got)
	}
	state := j.state("?job_id=train")
	if len(state.Processes) != 4 {
		t.Errorf("%d processes", len(state.Processes))
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range state.Processes {
		if !p.Kernel.Verified || len(p.Kernel.Threads) < 2 || len(p.Completions) == 0 || p.Identity.WorldSize != 4 {
			t.Errorf("rank %d: kernel %+v, %d completions, %+v", p.Rank, p.Kernel, len(p.Completions), p.Identity)
		}
		if p.Host != host { // Not what the process claims.
			t.Errorf("rank %d is on %q, want %q", p.Rank, p.Host, host)
		}
		if p.GPU != strconv.Itoa(int(p.Rank%2)) {
			t.Errorf("rank %d has GPU %q", p.Rank, p.GPU)
		}
	}
}

func TestStalledLink(t *testing.T) {
	t.Parallel()
	j := startJob(t, "link-stall:rank=1:step=10")
	j.eventually(func() string {
		for rank := range 4 {
			if s := j.metrics("culprit_nccl_stall_seconds")[strconv.Itoa(rank)]; s < 2 {
				return fmt.Sprintf("rank %d is stalled for %gs", rank, s)
			}
		}
		return ""
	})
	if !strings.Contains(j.body("/metrics"), `direction="send"`) {
		t.Error("no detail of the flows")
	}
	stuck := false
	for _, p := range j.state("?rank=1").Processes {
		if p.Kernel.State == nodeapi.ProcessGone || len(p.Ops) == 0 {
			t.Errorf("rank 1: %q, %d operations", p.Kernel.State, len(p.Ops))
		}
		for _, f := range p.Flows {
			stuck = stuck || f.IsSend && f.Transmitted > f.Done && f.State == trace.FlowSendNet
		}
	}
	if !stuck {
		t.Errorf("no flow of rank 1 waits for the network: %+v", j.state("?rank=1").Processes[0].Flows)
	}
	completions, samples, trailer := j.history("?rank=1")
	if completions == 0 || samples == 0 || trailer == nil || trailer.Lost != 0 || trailer.Truncated {
		t.Errorf("history: %d completions, %d samples, trailer %+v", completions, samples, trailer)
	}
}

func (j *job) history(query string) (completions, samples int, trailer *nodeapi.TraceTrailer) {
	j.t.Helper()
	lines := bufio.NewScanner(strings.NewReader(j.body(nodeapi.TracePath + query)))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var l nodeapi.TraceLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			j.t.Fatal(err)
		}
		switch {
		case l.Completion != nil:
			completions++
		case l.Sample != nil:
			samples++
		case l.Trailer != nil:
			trailer = l.Trailer
		}
	}
	return completions, samples, trailer
}

// TestKilledRank has M3's promise: who was killed leaves its last state readable.
func TestKilledRank(t *testing.T) {
	t.Parallel()
	j := startJob(t, "kill:rank=2:step=10")
	j.eventually(func() string {
		up := j.metrics("culprit_nccl_process_up")
		if v, ok := up["2"]; !ok || v != 0 || up["0"] != 1 {
			return fmt.Sprintf("up: %v", up)
		}
		return ""
	})
	p := j.state("?rank=2").Processes[0]
	if p.Kernel.State != nodeapi.ProcessGone || p.Status.ClosedNS != 0 || len(p.Comms) != 3 || p.Comms[0].OpsCalled == 0 {
		t.Errorf("kernel %+v, closed %d, communicators %+v", p.Kernel, p.Status.ClosedNS, p.Comms)
	}
	if s, ok := j.metrics("culprit_nccl_stall_seconds")["2"]; ok {
		t.Errorf("a dead rank is stalled for %gs", s)
	}
}

func TestStoppedRank(t *testing.T) {
	t.Parallel()
	j := startJob(t, "stop:rank=3:step=10")
	j.eventually(func() string {
		for _, p := range j.state("?rank=3&flows=none").Processes {
			if p.Kernel.State == nodeapi.ProcessStopped {
				return ""
			}
		}
		return "rank 3 is not stopped"
	})
}

// TestEventsAreSwitchedInARunningJob has steps switched off and on again in one rank, through the exporter, while the job
// runs; another rank goes on as before.
func TestEventsAreSwitchedInARunningJob(t *testing.T) {
	t.Parallel()
	j := startJob(t, "")
	// What steps wait for is only seen step by step; their number is also known when a transfer has ended.
	waits := func(rank string) float64 { return j.metrics("culprit_nccl_wait_seconds_total")[rank] }
	masks := func() (of0, of1 uint64) {
		for _, p := range j.state("?job_id=train&flows=none").Processes {
			switch p.Rank {
			case 0:
				of0 = p.Status.EventMask
			case 1:
				of1 = p.Status.EventMask
			}
		}
		return of0, of1
	}
	ops := func() float64 { return j.metrics("culprit_nccl_ops_completed_total")["1"] }
	j.eventually(func() string {
		if w0, w1 := waits("0"), waits("1"); w0 == 0 || w1 == 0 {
			return fmt.Sprintf("waits %g and %g", w0, w1)
		}
		return ""
	})
	start0, start1 := masks()
	j.events(http.MethodPut, "-proxystep")
	j.eventually(func() string {
		if of0, of1 := masks(); of1 == start1 || of0 != start0 {
			return fmt.Sprintf("masks %#x and %#x", of0, of1)
		}
		return ""
	})
	// Operations issued before may still report; then none, while operations go on.
	last, since := waits("1"), ops()
	j.eventually(func() string {
		if now := waits("1"); now != last {
			last, since = now, ops()
			return "rank 1 still reports steps"
		}
		if ops() < since+20 {
			return "rank 1 stands still"
		}
		return ""
	})
	j.events(http.MethodDelete, "")
	j.eventually(func() string {
		if _, of1 := masks(); of1 != start1 {
			return fmt.Sprintf("mask %#x, was %#x at the start", of1, start1)
		}
		if waits("1") == last {
			return "rank 1 reports no steps"
		}
		return ""
	})
	if !strings.Contains(j.body(nodeapi.TracePath+"?rank=1&completions=0&samples=0"), `"mask_changed"`) {
		t.Error("the change is not in the history")
	}
}

// events changes what rank 1 reports.
func (j *job) events(method, body string) {
	j.t.Helper()
	r, err := http.NewRequestWithContext(j.t.Context(), method, "http://"+j.addr+nodeapi.EventsPath+"?job_id=train&rank=1", strings.NewReader(body))
	if err != nil {
		j.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		j.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		j.t.Fatalf("%s: %d %v %s", method, resp.StatusCode, err, b)
	}
}

// TestHistorySurvivesKill9 kills a real exporter while the job runs on. The next one has every operation, once.
func TestHistorySurvivesKill9(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host0, host1 := startRanks(t, "")
	args := []string{"--no-trace.search", "--trace.dir=" + host0, "--trace.dir=" + host1, "--history.dir=" + t.TempDir(), "--log.level=warn"}
	start := func() (*job, *exec.Cmd) {
		addr := freeAddress(t)
		cmd := exec.Command(binary, append(args, "--web.listen-address="+addr)...)
		cmd.Env = append(os.Environ(), asExporter+"=1")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // Ended already, as a rule.
		waitHealthy(t, addr)
		return &job{t: t, addr: addr}, cmd
	}
	reach := func(j *job, n int) []uint64 {
		var tickets []uint64
		j.eventually(func() string {
			if tickets = j.tickets(0); len(tickets) < n {
				return fmt.Sprintf("%d operations", len(tickets))
			}
			return ""
		})
		return tickets
	}
	first, cmd := start()
	before := len(reach(first, 100))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // It was killed.
	second, cmd := start()
	tickets := reach(second, before+50)
	for i, ticket := range tickets {
		if ticket != uint64(i)+1 {
			t.Fatalf("operation %d has ticket %d", i, ticket)
		}
	}
	if _, _, trailer := second.history("?rank=0"); trailer == nil || trailer.Lost != 0 {
		t.Errorf("trailer %+v", trailer)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ending: %v", err)
	}
}

// tickets lists the history's finished operations of a rank by their numbers in its ring.
func (j *job) tickets(rank int) []uint64 {
	j.t.Helper()
	var tickets []uint64
	for line := range strings.Lines(j.body(nodeapi.TracePath + "?samples=0&lifecycle=0&rank=" + strconv.Itoa(rank))) {
		var l nodeapi.TraceLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			j.t.Fatal(err)
		}
		if l.Completion != nil {
			tickets = append(tickets, l.Completion.Ticket)
		}
	}
	return tickets
}
