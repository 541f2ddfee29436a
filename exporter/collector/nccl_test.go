// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/kubelet"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracetest"
)

var update = flag.Bool("update", false, "write the golden files")

const nowNS = 1_000_000_000_000

// testNode is a node with fake processes and real trace files.
type testNode struct {
	t       testing.TB
	dir     string
	procs   *proctest.FS
	sampler *node.Sampler
	now     time.Time
	clock   uint64
}

// podOfRank is a kubelet with a pod for each rank, whose number ends its UID.
type podOfRank struct{}

const podOfRankUID = "0a1b2c3d-1111-2222-3333-"

func (podOfRank) Pod(uid string) (kubelet.Pod, bool) {
	rank, ok := strings.CutPrefix(uid, podOfRankUID)
	if !ok {
		return kubelet.Pod{}, false
	}
	return kubelet.Pod{Namespace: "train", Name: "llm-" + strings.TrimLeft(rank[:len(rank)-1], "0") + rank[len(rank)-1:], Containers: []string{"main"}}, true
}

func newNode(t testing.TB) *testNode {
	t.Helper()
	n := &testNode{t: t, dir: t.TempDir(), procs: proctest.New(t), now: time.Unix(1_800_000_000, 0), clock: nowNS}
	var err error
	n.sampler, err = node.New(node.Options{
		Dirs: []string{n.dir}, ProcFS: n.procs.Root, HostName: "node-1", Logger: promslog.NewNopLogger(),
		Clock: func() uint64 { return n.clock }, Now: func() time.Time { return n.now }, Pods: podOfRank{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func identity(rank int32) trace.Identity {
	return trace.Identity{
		PID: uint32(4000 + rank), PIDNamespace: proctest.InitNamespace, StartTicks: 50, Rank: rank, WorldSize: 8, LocalRank: rank,
		GPUIndex: rank, CreatedNS: 1, CreatedRealNS: 1_799_999_000_500_000_000, BootID: proctest.BootID, Hostname: "node-1",
		JobID: "llm", GPUUUID: fmt.Sprintf("GPU-%d", rank), PodName: fmt.Sprintf("llm-%d", rank), PodNamespace: "train",
		ContainerName: "main", SlurmJobID: "17", WriterABI: 6,
	}
}

// rank adds a live process with a trace file.
func (n *testNode) rank(id trace.Identity, shape tracetest.Shape) *tracetest.Writer {
	n.t.Helper()
	w, err := tracetest.Create(filepath.Join(n.dir, fmt.Sprintf("%d.trace", id.PID)), id, tracetest.Size{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { w.Close() })
	shape.NowNS = nowNS
	tracetest.Fill(w, shape)
	pod := ""
	if id.PodName != "" {
		pod = fmt.Sprintf("0::/kubepods/pod%s%012d/x\n", podOfRankUID, id.Rank)
	}
	n.procs.Put(proctest.Process{PID: int(id.PID), StartTicks: id.StartTicks, Cgroup: pod})
	return w
}

func scrape(t testing.TB, sampler *node.Sampler, opts collector.NCCLOptions) string {
	t.Helper()
	set := collector.NewSet(promslog.NewNopLogger())
	nccl := collector.NewNCCL(sampler, opts)
	set.Add("nccl", nccl)
	always := prometheus.NewPedanticRegistry()
	always.MustRegister(collector.NewSelf(sampler, nccl.DroppedSeries))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	w := httptest.NewRecorder()
	collector.Handler(promslog.NewNopLogger(), always, set).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

var volatile = regexp.MustCompile(`(?m)^(culprit_exporter_(collector|sample)_duration_seconds\S*) .*$`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = volatile.ReplaceAllString(got, "$1 0")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

var defaults = collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: 3 * time.Second, MaxSeries: 20000}

// TestMetrics scrapes a node with a healthy rank, a stuck one, a killed one, one that ended well and a broken file.
func TestMetrics(t *testing.T) {
	n := newNode(t)
	healthy := n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 2, Ops: 100})
	n.rank(identity(1), tracetest.Shape{Comms: 2, Channels: 2, Ops: 99, Rank: 1, StuckNS: 7_500_000_000})
	n.rank(identity(2), tracetest.Shape{Comms: 1, Channels: 1, Ops: 99, Rank: 2, StuckNS: 7_500_000_000})
	ended := n.rank(identity(3), tracetest.Shape{Comms: 1, Channels: 1, Ops: 50, Rank: 3})
	if err := os.WriteFile(filepath.Join(n.dir, "broken.trace"), bytes.Repeat([]byte("x"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	n.sampler.Sample()
	n.procs.Remove(4002)
	n.procs.Remove(4003)
	ended.SetStatus(trace.Status{ClosedNS: nowNS - 1})
	healthy.SetStatus(trace.Status{DroppedFlows: 3, StaleEvents: 2, GroupOpenSinceNS: nowNS - 250_000_000})
	for _, f := range []trace.Flow{
		{Index: 0, Generation: 1, IsSend: true, TotalPosted: 1700, TotalReady: 1690, TotalTransmitted: 1680, TotalDone: 1640},
	} {
		healthy.PutFlow(f)
	}
	healthy.Complete(trace.Completion{CommID: tracetest.CommID(0), CommGeneration: 1, Func: trace.AllReduce, SendProbes: 7, RecvProbes: 2})
	n.now = n.now.Add(time.Second)
	n.sampler.Sample()
	golden(t, "metrics.txt", scrape(t, n.sampler, defaults))
}

func TestLint(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 2, Ops: 100, StuckNS: 5_000_000_000})
	w.PutQP(trace.QP{Index: 0, QPNum: 100, CommIndex: 0, CommGeneration: 1, Device: "mlx5_0"})
	w.Complete(trace.Completion{CommID: tracetest.CommID(0), CommGeneration: 1, Func: trace.AllReduce, SendProbes: 7, RecvProbes: 2})
	n.sampler.Sample()
	nccl := collector.NewNCCL(n.sampler, collector.NCCLOptions{Detail: collector.DetailFull, MaxSeries: 1000})
	set := collector.NewSet(promslog.NewNopLogger())
	set.Add("nccl", nccl)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(set.WithContext(t.Context()), collector.NewSelf(n.sampler, nccl.DroppedSeries))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func count(body, pattern string) int {
	return len(regexp.MustCompile(`(?m)^`+pattern).FindAllString(body, -1))
}

func TestDetail(t *testing.T) {
	n := newNode(t)
	n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 4, Ops: 1, StuckNS: 2_000_000_000})
	n.sampler.Sample()
	for _, tt := range []struct {
		name  string
		opts  collector.NCCLOptions
		flows int
	}{
		{"stuck for longer", collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: time.Second, MaxSeries: 1000}, 8},
		{"not stuck for long enough", collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: 3 * time.Second, MaxSeries: 1000}, 0},
		{"full", collector.NCCLOptions{Detail: collector.DetailFull, DetailAfter: time.Hour, MaxSeries: 1000}, 8},
		{"off", collector.NCCLOptions{Detail: collector.DetailOff, MaxSeries: 1000}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := count(scrape(t, n.sampler, tt.opts), "culprit_nccl_flow_info"); got != tt.flows {
				t.Errorf("%d flows, want %d", got, tt.flows)
			}
		})
	}
}

// While somebody asks for the state of a job, as the analyzer does during an incident, its flows and queue pairs are shown, though nothing
// stands still. Other jobs' are not, and neither do requests about no job in particular count.
func TestDetailDuringAnIncident(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 4, Ops: 1, StuckNS: 1_000_000_000})
	w.PutQP(trace.QP{Index: 0, QPNum: 100, CommIndex: 1, CommGeneration: 1, Device: "mlx5_0"})
	n.sampler.Sample()
	opts := collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: 3 * time.Second, MaxSeries: 1000}
	ask := func(jobs ...string) {
		_, processes := n.sampler.State(node.Query{JobIDs: jobs})
		for range processes {
			continue
		}
	}
	ask()
	ask("other")
	if body := scrape(t, n.sampler, opts); count(body, "culprit_nccl_flow_info") != 0 || count(body, "culprit_nccl_qp_info") != 0 {
		t.Errorf("detail without a reason:\n%s", body)
	}
	ask("llm")
	body := scrape(t, n.sampler, opts)
	if flows, pairs := count(body, "culprit_nccl_flow_info"), count(body, "culprit_nccl_qp_info"); flows != 8 || pairs != 1 {
		t.Errorf("%d flows and %d queue pairs, want 8 and 1", flows, pairs)
	}
	opts.MaxSeries = 40
	if body := scrape(t, n.sampler, opts); count(body, "culprit_nccl_") > 40 || count(body, "culprit_nccl_process_up") != 1 {
		t.Errorf("detail breaks the budget:\n%s", body)
	}
	opts.MaxSeries, opts.Detail = 1000, collector.DetailOff
	if got := count(scrape(t, n.sampler, opts), "culprit_nccl_flow_info"); got != 0 {
		t.Errorf("%d flows though detail is off", got)
	}
	opts.Detail = collector.DetailAuto
	n.clock += uint64(4 * time.Minute)
	n.sampler.Sample()
	opts.DetailAfter = time.Hour
	if got := count(scrape(t, n.sampler, opts), "culprit_nccl_qp_info"); got != 0 {
		t.Errorf("%d queue pairs long after", got)
	}
}

// TestP2SlowQueuePair: of four queue pairs to a peer one moves as much as the others in five times the epochs. After a window of 10 s all four are shown, those of
// another peer are not, and the rank says which. Two minutes after it has caught up they are gone.
func TestP2SlowQueuePair(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 1, Channels: 1, Ops: 1})
	put := func(round uint64, slow uint32) {
		for i := range uint32(6) {
			q := trace.QP{Index: i, Generation: 1, QPNum: 100 + i, CommIndex: 0, CommGeneration: 1, Peer: 1, Device: "mlx5_0", SendBytes: round << 30, SendsPosted: round << 10, SendsCompleted: round << 10}
			q.Epochs = 1000 * uint32(round)
			if i == 2 {
				q.Epochs += slow
			}
			if i > 3 {
				q.Peer = 2
			}
			w.PutQP(q)
		}
	}
	shows := func() []string {
		return regexp.MustCompile(`culprit_nccl_qp_active_epochs_total\{[^}]*qp="\d+"[^}]*\} \S+`).FindAllString(scrape(t, n.sampler, defaults), -1)
	}
	later := func(by time.Duration, round uint64, slow uint32) {
		put(round, slow)
		n.now, n.clock = n.now.Add(by), n.clock+uint64(by)
		n.sampler.Sample()
	}
	later(time.Second, 1, 0)
	later(5*time.Second, 2, 4000)
	if got := shows(); len(got) != 0 {
		t.Errorf("within the window: %v", got)
	}
	later(5*time.Second, 3, 8000)
	if got := shows(); len(got) != 4 || !strings.Contains(got[2], `peer="1",qp="102"`) || !strings.HasSuffix(got[2], " 11000") {
		t.Errorf("after the window: %q", got)
	}
	var lags []trace.Lag
	_, processes := n.sampler.State(node.Query{})
	for p := range processes {
		lags = p.Lagging
	}
	const moved, epoch = float64(2 << 30), trace.EpochNS / 1e9
	want := []trace.Lag{{QPIndex: 2, Kind: trace.LagSlow, Sisters: 3, BytesPerSecond: moved / (10000 * epoch), SistersBytesPerSecond: moved / (2000 * epoch)}}
	if diff := cmp.Diff(want, lags); diff != "" {
		t.Errorf("lagging (-want +got):\n%s", diff)
	}
	later(11*time.Second, 4, 8000)
	if got := shows(); len(got) != 4 {
		t.Errorf("a window later: %q", got)
	}
	later(2*time.Minute, 5, 8000)
	if got := shows(); len(got) != 0 {
		t.Errorf("long after: %q", got)
	}
}

func TestQueuePairs(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 1, Ops: 1, StuckNS: 9_000_000_000})
	w.PutQP(trace.QP{
		Index: 0, QPNum: 100, DestQPNum: 200, CommIndex: 0, CommGeneration: 1, Peer: 1, State: 3, Device: "mlx5_0", Remote: "10.0.0.7",
		SendBytes: 5, SendsPosted: 9, SendsCompleted: 7, Errors: 1,
	})
	w.PutQP(trace.QP{Index: 1, QPNum: 100, CommIndex: 0, CommGeneration: 1, Device: "mlx5_0"}) // A duplicate.
	w.PutQP(trace.QP{Index: 2, QPNum: 101, CommIndex: 1, CommGeneration: 1, Device: "mlx5_0"}) // Nothing in flight.
	w.PutQP(trace.QP{Index: 3, QPNum: 102, CommIndex: -1, FlowIndex: -1, Peer: -1})
	n.sampler.Sample()
	body := scrape(t, n.sampler, defaults)
	for _, want := range []string{
		`culprit_nccl_qp_info{comm="c0ffee0000000000",dest_qp="200",device="mlx5_0",job_id="llm",owner="0",peer="1",qp="100",rank="0",remote="10.0.0.7",state="rts"} 1`,
		`culprit_nccl_qp_send_bytes_total{comm="c0ffee0000000000",device="mlx5_0",job_id="llm",owner="0",peer="1",qp="100",rank="0"} 5`,
		`culprit_nccl_qp_outstanding_sends{comm="c0ffee0000000000",device="mlx5_0",job_id="llm",owner="0",peer="1",qp="100",rank="0"} 2`,
		`culprit_nccl_qp_errors_total{comm="c0ffee0000000000",device="mlx5_0",job_id="llm",owner="0",peer="1",qp="100",rank="0"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if got := count(body, "culprit_nccl_qp_info"); got != 1 {
		t.Errorf("%d queue pairs", got)
	}
}

func TestHardCapDropsDetailFirst(t *testing.T) {
	n := newNode(t)
	n.rank(identity(0), tracetest.Shape{Comms: 1, Channels: 4, Ops: 1, StuckNS: 9_000_000_000})
	n.sampler.Sample()
	full := count(scrape(t, n.sampler, defaults), "culprit_nccl_")
	body := scrape(t, n.sampler, collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: time.Second, MaxSeries: full - 10})
	if got := count(body, "culprit_nccl_"); got != full-10 {
		t.Errorf("%d series, want %d", got, full-10)
	}
	if count(body, "culprit_nccl_stall_seconds") != 1 || count(body, "culprit_nccl_ops_started_total") != 1 {
		t.Error("the cap hit basic series")
	}
	// Both registries are gathered at the same time, so the count is in the next scrape at the latest.
	nccl := collector.NewNCCL(n.sampler, collector.NCCLOptions{Detail: collector.DetailAuto, DetailAfter: time.Second, MaxSeries: full - 10})
	if err := nccl.Collect(t.Context(), func(prometheus.Metric) {}); err != nil {
		t.Fatal(err)
	}
	if got := nccl.DroppedSeries(); got != 10 {
		t.Errorf("%d series counted as dropped, want 10", got)
	}
}

// TestSeriesBudget holds a healthy rank of 16 communicators and three kinds of collective to 100 series.
func TestSeriesBudget(t *testing.T) {
	n := newNode(t)
	const comms = 16
	w := n.rank(identity(0), tracetest.Shape{Comms: comms, Channels: 16, Ops: 100})
	count3 := func(done uint64) {
		for i := range uint32(comms) {
			c := trace.Comm{Index: i, Generation: 1, ID: tracetest.CommID(int(i)), NRanks: 8, OpsCalled: done + 1, OpsStarted: done + 1, OpsCompleted: done}
			c.FuncCompleted[trace.AllReduce], c.FuncCompleted[trace.AllGather], c.FuncCompleted[trace.ReduceScatter] = done/3, done/3, done/3
			w.PutComm(c)
			// Every communicator has an operation in flight, called half a second ago.
			w.PutOp(trace.Op{
				Index: i, Generation: uint32(done), CommIndex: i, CommGeneration: 1, Number: done, State: trace.OpMoving,
				CalledNS: nowNS - 500_000_000, LastProgressNS: nowNS - 1_000_000,
			})
		}
	}
	// Iterations of a second, found from the completions.
	for i := range uint64(40) {
		w.Complete(trace.Completion{CommGeneration: 1, Number: i, Func: trace.AllReduce, Bytes: 1 << 30, LeftNS: 1 + i*1e9})
	}
	// Their kernels are seen, and they have three sizes.
	for i := range 9 * comms {
		w.Complete(trace.Completion{
			CommID: tracetest.CommID(i % comms), CommIndex: uint32(i % comms), CommGeneration: 1, Func: []trace.Func{trace.AllReduce, trace.AllGather, trace.ReduceScatter}[i/comms%3],
			Bytes: 1 << (10 + 8*(i/comms/3)), NRanks: 8, EnqueuedNS: 1, EnteredNS: 2, LeftNS: 100 + uint64(i), SendProbes: 7, RecvProbes: 2,
		})
	}
	count3(300)
	n.sampler.Sample()
	count3(600)
	w.PutFlow(trace.Flow{Index: 0, Generation: 1, IsSend: true, TotalPosted: 9000, TotalDone: 9000})
	w.PutFlow(trace.Flow{Index: 1, Generation: 1, TotalPosted: 9000, TotalReady: 9000, TotalDone: 9000})
	n.now = n.now.Add(time.Second)
	n.sampler.Sample()
	body := scrape(t, n.sampler, defaults)
	if got := count(body, "culprit_nccl_"); got > 100 {
		t.Errorf("%d series, more than 100", got)
	}
	for series, want := range map[string]int{
		"culprit_nccl_ops_completed_total": comms, "culprit_nccl_function_ops_total": 3, "culprit_nccl_send_probes_total": 1, "culprit_nccl_receive_probes_total": 1, "culprit_nccl_iteration_seconds_count": 1,
		"culprit_nccl_op_age_seconds": 0, "culprit_nccl_kernel_seconds_total": 3, "culprit_nccl_op_bytes_total": 1,
	} {
		if got := count(body, series+`\{`); got != want {
			t.Errorf("%d series of %s, want %d:\n%s", got, series, want, body)
		}
	}
}

// TestOperationSeries: what a rank's processes, functions and communicators leave of its series goes to operations.
func TestOperationSeries(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 4, Channels: 1, Ops: 100})
	for i := range 20 {
		w.Complete(trace.Completion{
			CommID: tracetest.CommID(i % 4), CommIndex: uint32(i % 4), CommGeneration: 1, Func: trace.AllReduce, Algo: trace.AlgoRing, Proto: trace.ProtoSimple,
			Bytes: 1 << (12 + 4*(i/4)), NRanks: 8, EnqueuedNS: 1, EnteredNS: 1_000_000_001, LeftNS: 1_500_000_001,
		})
	}
	w.Complete(trace.Completion{CommID: tracetest.CommID(0), CommGeneration: 1, Func: trace.Send, Flags: trace.OpP2P, Bytes: 9, NRanks: 8, EnqueuedNS: 1, LeftNS: 2})
	n.sampler.Sample()
	body := scrape(t, n.sampler, defaults)
	for _, want := range []string{
		`culprit_nccl_op_seconds_total{algorithm="ring",comm="c0ffee0000000000",function="AllReduce",job_id="llm",owner="0",path="network",protocol="simple",rank="0",size="<=64KiB"} 1`,
		`culprit_nccl_op_bytes_total{algorithm="ring",comm="c0ffee0000000000",function="AllReduce",job_id="llm",owner="0",path="network",protocol="simple",rank="0",size="<=64KiB"} 69632`,
		`culprit_nccl_op_seconds_total{algorithm="",comm="c0ffee0000000000",function="Send",job_id="llm",owner="0",path="",protocol="",rank="0",size="<=64KiB"} 1e-09`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	const kinds = 4*4 + 1 // Four communicators with four sizes, one of them twice; and the send.
	for rankSeries, want := range map[int]int{100: kinds, 70: (70 - 36 - 4 - 4*3) / 2, 40: 0} {
		opts := defaults
		opts.RankSeries = rankSeries
		if got := count(scrape(t, n.sampler, opts), `culprit_nccl_op_bytes_total\{`); got != want {
			t.Errorf("%d kinds of operations have series in %d, want %d", got, rankSeries, want)
		}
	}
}

// TestProbeSeries: a communicator's probes are summed over its operations; those with most come first, in half of what is left of the rank's series.
func TestProbeSeries(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 4, Channels: 1, Ops: 100})
	for i := range uint32(8) {
		comm := i % 4
		c := trace.Completion{CommID: tracetest.CommID(int(comm)), CommIndex: comm, CommGeneration: 1, Func: trace.AllReduce, NRanks: 8, EnqueuedNS: 1, LeftNS: 2}
		if comm > 0 { // The first has no network flows.
			c.SendProbes, c.RecvProbes = 7*comm, 2*comm
		}
		w.Complete(c)
	}
	w.Complete(trace.Completion{CommID: tracetest.CommID(3), CommIndex: 3, CommGeneration: 1, Func: trace.AllReduce, Flags: trace.OpAbandoned, SendProbes: 1000})
	w.Complete(trace.Completion{CommID: 1, CommIndex: 9, CommGeneration: 1, Func: trace.AllReduce, EnqueuedNS: 1, LeftNS: 2, SendProbes: 1000}) // It has ended.
	n.sampler.Sample()
	body := scrape(t, n.sampler, defaults)
	for _, want := range []string{
		`culprit_nccl_send_probes_total{comm="c0ffee0000000001",job_id="llm",owner="0",rank="0"} 14`,
		`culprit_nccl_receive_probes_total{comm="c0ffee0000000003",job_id="llm",owner="0",rank="0"} 12`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	for rankSeries, want := range map[int]int{100: 3, 36 + 4 + 4*3 + 8: 2, 36 + 4 + 4*3 + 3: 0} {
		opts := defaults
		opts.RankSeries = rankSeries
		body := scrape(t, n.sampler, opts)
		if got := count(body, `culprit_nccl_send_probes_total\{`); got != want {
			t.Errorf("%d communicators have probes in %d series, want %d", got, rankSeries, want)
		}
		if want == 2 && strings.Contains(body, `send_probes_total{comm="c0ffee0000000001"`) {
			t.Error("of the communicators with probes the one with least was preferred")
		}
	}
}

// TestDuplicatesDoNotBreakTheScrape has files that claim what others claim.
func TestDuplicatesDoNotBreakTheScrape(t *testing.T) {
	n := newNode(t)
	n.rank(identity(0), tracetest.Shape{Comms: 2, Channels: 2, Ops: 5, StuckNS: 9_000_000_000})
	impostor := identity(0)
	impostor.PID, impostor.StartTicks = 5000, 40
	w := n.rank(impostor, tracetest.Shape{Comms: 2, Channels: 2, Ops: 6, StuckNS: 9_000_000_000})
	// The same communicator twice, the same flow twice, and no valid numbers.
	w.PutComm(trace.Comm{Index: 5, ID: tracetest.CommID(0), NRanks: -7, OpsCalled: 1})
	w.PutFlow(trace.Flow{Index: 40, CommIndex: 0, CommGeneration: 1, Channel: 0, IsSend: true, Peer: 1, State: 200, Func: 999, OpNumber: 1 << 63})
	unknown := trace.Identity{PID: 5001, PIDNamespace: proctest.InitNamespace, StartTicks: 50, Rank: -1, WorldSize: -1, GPUIndex: -1}
	n.rank(unknown, tracetest.Shape{})
	unknown.PID = 5002
	n.rank(unknown, tracetest.Shape{})
	n.sampler.Sample()
	body := scrape(t, n.sampler, defaults)
	if got := count(body, `culprit_nccl_ops_started_total{comm="c0ffee0000000000",job_id="llm",owner="0",rank="0"} 7`); got != 1 {
		t.Errorf("the older process does not speak for rank 0:\n%s", body)
	}
	if got := count(body, `culprit_nccl_process_info{.*job_id="unknown".*rank="-1"`); got != 1 {
		t.Errorf("%d unknown processes", got)
	}
}

// TestSeriesAreShared has three processes of one pod that have thousands of communicators: the other pod's rank keeps its series.
func TestSeriesAreShared(t *testing.T) {
	n := newNode(t)
	inPod := func(id trace.Identity, pod int) {
		n.procs.Put(proctest.Process{PID: int(id.PID), StartTicks: id.StartTicks, Cgroup: fmt.Sprintf("0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-44445555666%d/x\n", pod)})
	}
	good := identity(7)
	n.rank(good, tracetest.Shape{Comms: 2, Channels: 1, Ops: 10, Rank: 7})
	inPod(good, 1)
	n.sampler.Sample()
	alone := count(scrape(t, n.sampler, defaults), `culprit_nccl_.*rank="7"`)
	for rank := range int32(3) {
		evil := identity(rank)
		evil.JobID = "evil"
		w := n.rank(evil, tracetest.Shape{Comms: 1, Channels: 1, Ops: 10, Rank: rank})
		inPod(evil, 2)
		for i := range uint32(30) {
			w.PutComm(trace.Comm{Index: i, Generation: 1, ID: trace.CommID(1000 + i), NRanks: 2, OpsCalled: 1})
		}
	}
	n.now = n.now.Add(time.Minute)
	n.sampler.Sample()
	opts := defaults
	opts.MaxSeries = 2 * alone
	body := scrape(t, n.sampler, opts)
	if got := count(body, `culprit_nccl_.*rank="7"`); got != alone || alone == 0 {
		t.Errorf("the other pod's rank has %d series, alone it has %d", got, alone)
	}
	if count(body, `culprit_nccl_.*job_id="evil"`) == 0 {
		t.Error("nothing is left for the three")
	}
}

func TestCountersOutliveCommunicators(t *testing.T) {
	n := newNode(t)
	w := n.rank(identity(0), tracetest.Shape{Comms: 1, Channels: 1, Ops: 100})
	n.sampler.Sample()
	want := func(series string) {
		t.Helper()
		if body := scrape(t, n.sampler, defaults); !strings.Contains(body, series+"\n") {
			t.Errorf("no %s in\n%s", series, body)
		}
	}
	const ops = `culprit_nccl_function_ops_total{function="AllReduce",job_id="llm",owner="0",rank="0"} `
	const steps = `culprit_nccl_send_steps_total{job_id="llm",owner="0",rank="0",stage="done"} `
	want(ops + "100")
	want(steps + "1600")
	// Another communicator and its flow take the slots.
	c := trace.Comm{Index: 0, Generation: 2, ID: 99, NRanks: 2, OpsCalled: 7}
	c.FuncCompleted[trace.AllReduce] = 7
	w.PutComm(c)
	w.PutFlow(trace.Flow{Index: 0, Generation: 2, IsSend: true, TotalPosted: 4, TotalDone: 4})
	n.sampler.Sample()
	want(ops + "107")
	want(steps + "1604")
}

func BenchmarkScrape(b *testing.B) {
	n := newNode(b)
	for rank := range int32(8) {
		n.rank(identity(rank), tracetest.Shape{Comms: 16, Channels: 32, Ops: 1000, Rank: rank})
	}
	n.sampler.Sample()
	b.ReportAllocs()
	bytes := 0
	for b.Loop() {
		bytes = len(scrape(b, n.sampler, defaults))
	}
	b.ReportMetric(float64(bytes), "bytes/scrape")
}

// slowly is a collector whose collections take until it is told.
type slowly struct{ began, end chan struct{} }

func (s slowly) Collect(_ context.Context, emit func(prometheus.Metric)) error {
	s.began <- struct{}{}
	<-s.end
	emit(prometheus.MustNewConstMetric(prometheus.NewDesc("culprit_slow", "Slow.", nil, nil), prometheus.GaugeValue, 1))
	return nil
}

// TestScrapesAtTheSameTime has Prometheus scrape while somebody else does: both have the metrics. Behind a collection that hangs, a
// scrape ends.
func TestScrapesAtTheSameTime(t *testing.T) {
	s := slowly{make(chan struct{}, 3), make(chan struct{})}
	set := collector.NewSet(promslog.NewNopLogger())
	set.Add("slow", s)
	gather := func(answers chan<- int) {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(set.WithContext(t.Context()))
		n, err := testutil.GatherAndCount(registry, "culprit_slow")
		if err != nil {
			t.Error(err)
		}
		answers <- n
	}
	stranger, scrape := make(chan int), make(chan int)
	go gather(stranger)
	<-s.began
	go gather(scrape)
	s.end <- struct{}{}
	<-s.began
	s.end <- struct{}{}
	if a, b := <-stranger, <-scrape; a != 1 || b != 1 {
		t.Errorf("%d and %d metrics, want 1 each", a, b)
	}
	go gather(stranger)
	<-s.began // And it hangs.
	go gather(scrape)
	if n := <-scrape; n != 0 {
		t.Errorf("%d metrics of a collection that hangs", n)
	}
	s.end <- struct{}{}
	<-stranger
}
