// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/internal/ports"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// fleet is what a node of the design's budget writes: 8 ranks of 16 communicators with 32 channels in two directions.
type fleet struct {
	b       *testing.B
	writers []*tracetest.Writer
	comms   [fleetRanks][fleetComms]trace.Comm
	rounds  uint64
}

const (
	fleetRanks    = 8
	fleetComms    = 16
	fleetChannels = 32
	activeComms   = 4
	// iteration is how long a training step of the benchmark takes: 200 operations of each rank in the load "training".
	iteration = time.Second
	// scrapeInterval is how often it is scraped.
	scrapeInterval = 5 * time.Second
)

func newFleet(b *testing.B, dir string) *fleet {
	b.Helper()
	procs, err := proc.Open("/proc")
	if err != nil {
		b.Fatal(err)
	}
	st, err := procs.Stat(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	// The threads named by the trace are this process's own, as many as there are.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.Fatal(err)
	}
	f := &fleet{b: b}
	for rank := range int32(fleetRanks) {
		w, err := tracetest.Create(filepath.Join(dir, fmt.Sprintf("%d.trace", rank)), trace.Identity{
			PID: uint32(os.Getpid()), PIDNamespace: procs.Namespace(), StartTicks: st.StartTicks, Rank: rank, WorldSize: fleetRanks,
			GPUIndex: rank, BootID: procs.BootID(), JobID: "bench", CreatedNS: 1, CreatedRealNS: 1,
		}, tracetest.Size{Comms: 256, Ops: 4096, Flows: 16384, Completions: 4096})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { w.Close() })
		tracetest.Fill(w, tracetest.Shape{
			Comms: fleetComms, Channels: fleetChannels, Ops: 1000, Rank: rank, NRanks: fleetRanks, NowNS: node.Monotonic(),
		})
		for i := range uint32(fleetComms) {
			tid, err := strconv.ParseUint(tasks[int(i)%len(tasks)].Name(), 10, 32)
			if err != nil {
				b.Fatal(err)
			}
			f.comms[rank][i] = trace.Comm{
				Index: i, Generation: 1, ID: tracetest.CommID(int(i)), NRanks: fleetRanks, ProxyTID: uint32(tid), UserTID: uint32(os.Getpid()),
			}
			f.count(w, int(rank), int(i), trace.AllReduce, 1000)
		}
		f.writers = append(f.writers, w)
	}
	return f
}

// count adds completed operations to a communicator's counters.
func (f *fleet) count(w *tracetest.Writer, rank, comm int, fn trace.Func, n uint64) {
	c := &f.comms[rank][comm]
	c.OpsCalled, c.OpsStarted, c.OpsCompleted = c.OpsCalled+n, c.OpsStarted+n, c.OpsCompleted+n
	c.FuncCompleted[fn] += n
	c.FuncBytes[fn] += n << 20
	c.FuncNS[fn] += n * 1e6
	c.LastCompletedNS = node.Monotonic()
	w.PutComm(*c)
}

// tick does what the ranks did in 100 ms: operations finish, and the flows of the busy communicators have moved.
func (f *fleet) tick(busyComms, operations int) {
	f.rounds++
	now := node.Monotonic()
	for rank, w := range f.writers {
		for comm := range uint32(busyComms) {
			for i := range uint32(2 * fleetChannels) {
				n := uint32(f.rounds)
				w.PutFlow(trace.Flow{
					Index: comm*2*fleetChannels + i, Generation: 1, CommIndex: comm, CommGeneration: 1, Channel: uint16(i / 2), IsSend: i%2 == 0,
					State: trace.FlowSendNet + trace.FlowState(i%2), Peer: int32(rank), OpIndex: comm, OpGeneration: 1, OpNumber: 1000,
					StepsTotal: 1 << 20, Posted: n + 3, Ready: n + 2, Transmitted: n + 1, Done: n, OpStartedNS: 1, FirstStepNS: 1,
					StateSinceNS: now, LastProgressNS: now, Bytes: uint64(n) << 17, WaitNS: [3]uint64{now, now / 3, now / 5}, ActiveNS: now / 2,
					TotalPosted: uint64(n), TotalReady: uint64(n), TotalTransmitted: uint64(n), TotalDone: uint64(n), TotalBytes: uint64(n),
					TotalWaitNS: [3]uint64{now, now / 3, now / 5}, TotalActiveNS: now / 2,
				})
			}
			w.PutOp(trace.Op{
				Index: comm, Generation: 1, CommIndex: comm, CommGeneration: 1, Number: 1000, Func: trace.AllReduce, State: trace.OpMoving,
				CalledNS: 1, EnqueuedNS: 1, LastProgressNS: now, Channels: fleetChannels, Bytes: 1 << 30,
			})
		}
		// A rank's collectives go over a few communicators at a time: of data, tensor, pipeline and expert parallelism.
		active := max(busyComms, activeComms)
		for comm := range active {
			if n := operations / active; n > 0 {
				f.count(w, rank, comm, trace.AllReduce, uint64(n))
			}
		}
		for i := range operations {
			n := f.rounds*uint64(operations) + uint64(i)
			d := trace.Direction{Flows: fleetChannels, Steps: 512, WaitNS: [3]uint64{n % 1e6, n % 7919, n % 104729}, ActiveNS: n % 1e5, FirstStepNS: now, LastStepNS: now}
			w.Complete(trace.Completion{
				CommID: tracetest.CommID(i % active), CommIndex: uint32(i % active), CommGeneration: 1, NRanks: fleetRanks, Rank: int32(rank),
				Number: n, Func: trace.AllReduce, Bytes: 1 << 20 << (i % 8), CalledNS: now - 3e6, EnqueuedNS: now - 2e6, LeftNS: now, Send: d, Recv: d,
			})
		}
	}
}

var loads = []struct {
	name                  string
	busyComms, operations int
}{
	{"quiet", 0, 0},
	{"training", 1, 20},     // One communicator of 16 has an operation under way for long, 200 operations a second.
	{"everything", 16, 100}, // Every flow of the node moves all the time.
}

// BenchmarkExporter runs the program for ten seconds and reports its CPU time, resident memory, scrape time and what
// leaves the node, each with its budget in parentheses. The CPU time is the budget's for the load "training".
func BenchmarkExporter(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "culprit-exporter")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		b.Fatalf("building: %v\n%s", err, out)
	}
	for _, load := range loads {
		b.Run(load.name, func(b *testing.B) { measure(b, binary, load.busyComms, load.operations) })
	}
}

// BenchmarkSample is one round of the sampler, without pauses, for profiles.
func BenchmarkSample(b *testing.B) {
	for _, load := range loads {
		b.Run(load.name, func(b *testing.B) {
			dir := b.TempDir()
			f := newFleet(b, dir)
			store, err := history.New(history.Options{MaxBytes: 16 << 20})
			if err != nil {
				b.Fatal(err)
			}
			sampler, err := node.New(node.Options{Dirs: []string{dir}, Logger: promslog.NewNopLogger(), History: store})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var sampling time.Duration
			n := 0
			for b.Loop() {
				f.tick(load.busyComms, load.operations)
				start := time.Now()
				if n++; n%10 == 0 {
					sampler.Sample() // As Run does once a second.
				} else {
					sampler.Round()
				}
				sampling += time.Since(start)
			}
			b.ReportMetric(float64(sampling.Microseconds())/float64(b.N), "us/round")
		})
	}
}

const measured = 10 * time.Second

func measure(b *testing.B, binary string, busyComms, operations int) {
	dir, err := os.MkdirTemp("/dev/shm", "culprit-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	f := newFleet(b, dir)
	addr := freeAddress(b)
	cmd := exec.Command(binary, "--trace.dir="+dir, "--web.listen-address="+addr, "--log.level=warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	waitHealthy(b, addr)

	for b.Loop() {
		before := cpuSeconds(b, cmd.Process.Pid)
		start := time.Now()
		var scraping time.Duration
		scrapes, plain, packed := 0, 0, 0
		for n := 0; time.Since(start) < measured; n++ {
			f.tick(busyComms, operations)
			if n%50 == 25 {
				at := time.Now()
				packed = get(b, "http://"+addr+"/metrics", true)
				scraping += time.Since(at)
				scrapes++
			}
			time.Sleep(100 * time.Millisecond)
		}
		used := cpuSeconds(b, cmd.Process.Pid) - before
		anon, shared := residentMiB(b, cmd.Process.Pid)
		plain = get(b, "http://"+addr+"/metrics", false)
		b.ReportMetric(100*used/time.Since(start).Seconds(), "%cpu(<1)")
		b.ReportMetric(scraping.Seconds()*1000/float64(scrapes), "ms/scrape(<20)")
		b.ReportMetric(anon+shared, "MiB-resident(<64)")
		b.ReportMetric(shared, "MiB-of-trace-files")
		b.ReportMetric(float64(plain)/1000, "kB/scrape")
		// What leaves the node all the time, and what leaves it on top when the analyzer asks for one iteration of every
		// rank, and for the present state.
		b.ReportMetric(float64(packed)/1000*iteration.Seconds()/scrapeInterval.Seconds(), "kB/iteration(<20)")
		b.ReportMetric(float64(get(b, "http://"+addr+nodeapi.StatePath, true))/1000, "kB/state-asked")
		b.ReportMetric(float64(get(b, "http://"+addr+nodeapi.TracePath+"?samples=0&last="+iteration.String(), true))/1000, "kB/iteration-asked")
	}
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	addrs, err := ports.Free(1)
	if err != nil {
		tb.Fatal(err)
	}
	return addrs[0]
}

func waitHealthy(tb testing.TB, addr string) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + addr + "/-/healthy")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
}

// get gives the length of an answer as it went over the network.
func get(tb testing.TB, url string, packed bool) int {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	encoding := "identity"
	if packed {
		encoding = "gzip"
	}
	r.Header.Set("Accept-Encoding", encoding) // Set by hand, the client does not unpack.
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return int(n)
}

// cpuSeconds reads nanoseconds where the kernel counts them: ticks of 10 ms are too coarse.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		b.Fatal("no threads to read: ", err)
	}
	sum := 0.0
	for _, name := range tasks {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // A thread that has just ended.
		}
		ns, err := strconv.ParseUint(strings.Fields(string(content))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += float64(ns) / 1e9
	}
	return sum
}

// residentMiB gives the memory of the program itself, its text included, and the mapped pages of trace files. Both count
// against the budget, though the latter belong to the jobs anyway.
func residentMiB(b *testing.B, pid int) (own, shared float64) {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	read := func(name string) float64 {
		_, rest, _ := strings.Cut(string(content), name+":")
		kib, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return float64(kib) / 1024
	}
	return read("RssAnon") + read("RssFile"), read("RssShmem")
}
