// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	jobID       = "large"
	perHost     = 8
	second      = uint64(time.Second)
	nowNS       = 1000 * second
	dpID        = 0xd000 // + rank in the host.
	tpID        = 0x10000
	channels    = 8
	stuckAt     = 500 // The operation in which all ranks wait.
	hangSeconds = 9
)

// fleet is a job of many hosts, with a tensor-parallel group on each host and a data-parallel ring across all hosts for each
// place in the host. One rank was stopped before its data-parallel operation: its ring waits for it, and every host waits for its
// member of that ring. fleet answers as Prometheus and as every exporter, behind a transport.
type fleet struct {
	hosts   int
	culprit int

	mu      sync.Mutex
	answers map[string][]byte
	queries int
	bytes   int64
	asked   map[string]int // State requests by host.
}

func (f *fleet) world() int { return f.hosts * perHost }

// RoundTrip implements http.RoundTripper.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if strings.HasPrefix(r.URL.Host, "prometheus") {
		form, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		values, err := url.ParseQuery(string(form))
		if err != nil {
			return nil, err
		}
		body = f.answer(values.Get("query"), f.series)
	} else {
		if r.URL.Path != nodeapi.StatePath {
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}, nil
		}
		f.note(r.URL.Hostname())
		body = f.answer(strings.TrimSuffix(r.URL.Host, ":9850")+"?"+strings.Join(r.URL.Query()["rank"], ","), f.state)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

func (f *fleet) note(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[host]++
}

func (f *fleet) answer(key string, build func(string) []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries++
	if f.answers == nil {
		f.answers = map[string][]byte{}
	}
	if f.answers[key] == nil {
		f.answers[key] = build(key)
	}
	f.bytes += int64(len(f.answers[key]))
	return f.answers[key]
}

// series answers a query.
func (f *fleet) series(query string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	first := true
	add := func(value float64, labels string) {
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(&b, `{"metric":{%s},"value":[1,"%g"]}`, labels, value)
	}
	ring := f.culprit % perHost
	inRing := fmt.Sprintf("%x", dpID+ring)
	all := func(ring, tp int) {
		add(float64(ring), fmt.Sprintf(`"comm":%q`, inRing))
		for h := range f.hosts {
			add(float64(tp), fmt.Sprintf(`"comm":"%x"`, tpID+h))
		}
	}
	switch {
	case strings.HasPrefix(query, "count(culprit_nccl_process_info"):
		add(float64(f.world()), "")
	case strings.HasPrefix(query, "topk") && strings.Contains(query, "unless on (rank)"):
		add(1, fmt.Sprintf(`"rank":"%d"`, f.culprit))
	case strings.HasPrefix(query, "count by (comm) (topk"):
		all(f.hosts-1, perHost-1)
	case strings.HasPrefix(query, "group by (comm, nranks)"):
		add(1, fmt.Sprintf(`"comm":%q,"nranks":"%d"`, inRing, f.hosts))
		for h := range f.hosts {
			add(1, fmt.Sprintf(`"comm":"%x","nranks":"%d"`, tpID+h, perHost))
		}
	case strings.HasPrefix(query, "min by (comm)"):
		all(stuckAt, stuckAt)
	case strings.Contains(query, `rank=~"`):
		comm := fmt.Sprintf("%x", tpID+f.culprit/perHost)
		f.members(`culprit_nccl_comm_info{comm=~"`+comm+"|"+inRing+`"}`, inRing, func(v float64, labels string) {
			if strings.Contains(labels, fmt.Sprintf(`"rank":"%d"`, f.culprit)) {
				add(v, labels)
			}
		})
	case strings.Contains(query, "unless"):
	case strings.Contains(query, "culprit_nccl_process_info"):
		for r := range f.world() {
			h := r / perHost
			add(1, fmt.Sprintf(`"__name__":"culprit_nccl_process_info","job_id":%q,"rank":"%d","host":"host-%d","gpu":"%d","instance":"host-%d:9850","world_size":"%d",`+
				`"pid":"%d","gpu_uuid":"GPU-aaaaaaaa-bbbb-cccc-dddd-%012d","job":"culprit-exporter"`, jobID, r, h, r%perHost, h, f.world(), 1000+r, r))
		}
	case strings.Contains(query, "culprit_nccl_stall_seconds"):
		for i := range 16 { // All values are equal, which helps nobody.
			add(hangSeconds, fmt.Sprintf(`"rank":"%d"`, i*f.hosts/2))
		}
	case strings.Contains(query, "culprit_nccl_ops_"), strings.Contains(query, "culprit_nccl_comm_info"):
		f.members(query, inRing, add)
	}
	b.WriteString(`]}}`)
	return b.Bytes()
}

// members answers a query for the members of some communicators.
func (f *fleet) members(query, inRing string, add func(float64, string)) {
	one := func(comm, name string, rank, commRank, n, started, completed int) {
		labels := fmt.Sprintf(`"job_id":%q,"rank":"%d","comm":%q,"instance":"host-%d:9850"`, jobID, rank, comm, rank/perHost)
		switch {
		case strings.Contains(query, "started"):
			add(float64(started), labels)
		case strings.Contains(query, "completed"):
			add(float64(completed), labels)
		default:
			add(1, labels+fmt.Sprintf(`,"comm_name":%q,"comm_rank":"%d","nranks":"%d"`, name, commRank, n))
		}
	}
	for l := range perHost {
		comm := fmt.Sprintf("%x", dpID+l)
		for h := range f.hosts {
			if !strings.Contains(query, comm) {
				break
			}
			rank := h*perHost + l
			started := stuckAt + 1
			if comm != inRing || rank == f.culprit {
				started = stuckAt
			}
			one(comm, "dp", rank, h, f.hosts, started, stuckAt)
		}
	}
	for h := range f.hosts {
		comm := fmt.Sprintf("%x", tpID+h)
		if !strings.Contains(query, comm) {
			continue
		}
		for l := range perHost {
			started := stuckAt + 1
			if l == f.culprit%perHost {
				started = stuckAt
			}
			one(comm, "tp", h*perHost+l, l, perHost, started, stuckAt)
		}
	}
}

// state answers as a host's exporter, about some ranks or all.
func (f *fleet) state(key string) []byte {
	host, ranks, _ := strings.Cut(key, "?")
	only := strings.Split(ranks, ",")
	h, err := strconv.Atoi(strings.TrimPrefix(host, "host-"))
	if err != nil {
		panic(err)
	}
	state := nodeapi.State{Version: nodeapi.Version, Node: host, NowNS: nowNS}
	for l := range perHost {
		if ranks == "" || slices.Contains(only, strconv.Itoa(h*perHost+l)) {
			state.Processes = append(state.Processes, f.process(h, l))
		}
	}
	out, err := json.Marshal(&state)
	if err != nil {
		panic(err)
	}
	return out
}

func (f *fleet) process(h, l int) nodeapi.Process {
	rank := h*perHost + l
	p := nodeapi.Process{
		File: fmt.Sprintf("%d.trace", rank), JobID: jobID, Rank: int32(rank), Host: fmt.Sprintf("host-%d", h), GPU: strconv.Itoa(l),
		Kernel: &nodeapi.Kernel{State: nodeapi.ProcessSleep, Verified: true},
	}
	p.Identity = trace.Identity{
		PID: uint32(1000 + rank), Rank: int32(rank), WorldSize: int32(f.world()), JobID: jobID,
		Capabilities: trace.CapCommIdentity | trace.CapAPIEvents | trace.CapProxySteps | trace.CapPeerWait | trace.CapKernelCh | trace.CapCompletion,
	}
	at := nowNS - hangSeconds*second
	comm := func(index uint32, id uint64, name string, n, commRank int) {
		p.Comms = append(p.Comms, trace.Comm{
			Index: index, Generation: 1, ID: trace.CommID(id), NRanks: int32(n), Rank: int32(commRank), Name: name, OpsCalled: stuckAt, OpsStarted: stuckAt,
			OpsCompleted: stuckAt, LastCalledNS: at - second, LastCompletedNS: at - second,
		})
	}
	waits := func(c *trace.Comm, fn trace.Func, state trace.OpState) {
		c.OpsCalled, c.OpsStarted, c.LastCalledNS = stuckAt+1, stuckAt+1, at
		p.Ops = append(p.Ops, trace.Op{
			Index: c.Index, Generation: 1, CommIndex: c.Index, CommGeneration: 1, Number: stuckAt, Seq: stuckAt, Func: fn, Algo: trace.AlgoRing,
			Proto: trace.ProtoSimple, Datatype: "bfloat16", Count: 1 << 24, Bytes: 1 << 25, Peer: -1, Root: -1, Channels: channels, State: state,
			CalledNS: at, EnqueuedNS: at, EnteredNS: at, FirstStepNS: at, LastProgressNS: at, KernelStarted: 1<<channels - 1,
		})
	}
	inRing := l == f.culprit%perHost
	comm(0, uint64(dpID+l), "dp", f.hosts, h)
	comm(1, uint64(tpID+h), "tp", perHost, l)
	switch {
	case rank == f.culprit:
		p.Kernel.State = nodeapi.ProcessStopped
	case inRing:
		waits(&p.Comms[0], trace.AllReduce, trace.OpMoving)
		f.flows(&p, h)
	default:
		waits(&p.Comms[1], trace.AllGather, trace.OpEntered)
	}
	return p
}

// flows puts a rank into the ring, where it waits for its predecessor's data.
func (f *fleet) flows(p *nodeapi.Process, h int) {
	at := nowNS - hangSeconds*second
	for ch := range uint16(channels) {
		p.Flows = append(p.Flows,
			trace.Flow{
				CommIndex: 0, CommGeneration: 1, Channel: ch, IsSend: true, State: trace.FlowSendGPU, Peer: int32((h + 1) % f.hosts), OpIndex: 0, OpGeneration: 1,
				OpNumber: stuckAt, Func: trace.AllReduce, StepsTotal: 64, Posted: 8, Ready: 1, Transmitted: 1, Done: 1, OpStartedNS: at, LastProgressNS: at,
			},
			trace.Flow{
				CommIndex: 0, CommGeneration: 1, Channel: ch, State: trace.FlowRecvNet, Peer: int32((h + f.hosts - 1) % f.hosts), OpIndex: 0, OpGeneration: 1,
				OpNumber: stuckAt, Func: trace.AllReduce, StepsTotal: 64, Posted: 8, OpStartedNS: at, LastProgressNS: at,
			})
	}
}

func (f *fleet) diagnoser(tb testing.TB) *Diagnoser {
	tb.Helper()
	cfg := config.Default()
	cfg.Analysis.ConfirmAfter = model.Duration(time.Microsecond)
	if err := cfg.Check(); err != nil {
		tb.Fatal(err)
	}
	client, err := promapi.NewClient(promapi.Config{Address: "http://prometheus:9090", RoundTripper: f})
	if err != nil {
		tb.Fatal(err)
	}
	return &Diagnoser{
		Config: cfg.Analysis, Logger: promslog.NewNopLogger(), Clock: clock.System,
		Gatherer: &evidence.Gatherer{
			Directory: evidence.NewDirectory(v1.NewAPI(client), cfg.Prometheus, func(error) {}, clock.System),
			Exporters: cfg.Exporters,
			Nodes:     &evidence.Nodes{HTTP: &http.Client{Transport: f}, Timeout: time.Minute, Observe: func(error) {}},
		},
	}
}

func (f *fleet) request() incident.Request {
	return incident.Request{Job: identity.Job{ID: jobID}, Triggers: []incident.Trigger{{Key: "a", JobID: jobID, Rank: 17}}}
}

// Only the exporters that the search visits are asked (H6): under 3.4% of the data.
func TestLargeJobAsksFew(t *testing.T) {
	f := &fleet{hosts: 300, culprit: 1234}
	out, err := f.diagnoser(t).Diagnose(t.Context(), f.request())
	if err != nil {
		t.Fatal(err)
	}
	v := out.Verdict
	if v.Class != rca.NotEntered || v.Cause != rca.CauseProcessStopped || len(v.Culprits) != 1 || v.Culprits[0].Rank != f.culprit || !v.Page {
		t.Errorf("verdict is %+v", v)
	}
	t.Logf("%d of %d nodes, %d bytes, confidence %.2f", out.Asked, out.Nodes, out.Bytes, v.Confidence)
	if share := float64(out.Asked) / float64(out.Nodes); share > 0.034 {
		t.Errorf("%d of %d nodes were asked", out.Asked, out.Nodes)
	}
}

// TestSlowLinkLearnsMembers: who else is in the communicators of a slow link's ends is asked of Prometheus, so that the other end of what they
// send is known and can be asked.
func TestSlowLinkLearnsMembers(t *testing.T) {
	f := &fleet{hosts: 100, culprit: 123}
	d := f.diagnoser(t)
	known := 0 // Members of the communicator of the link, in the evidence that was analysed last.
	d.Engine = func(ev rca.Evidence, _ rca.Options) rca.Verdict {
		at := slices.IndexFunc(ev.Ranks, func(r rca.Rank) bool { return r.ID%perHost == 0 && len(r.Memberships) > 0 })
		if at < 0 {
			return rca.Verdict{Class: rca.Healthy}
		}
		known = 0
		for i := range ev.Comms {
			if c := &ev.Comms[i]; c.ID == ev.Ranks[at].Memberships[0].Comm {
				for _, r := range c.Members {
					if r >= 0 {
						known++
					}
				}
			}
		}
		return rca.Verdict{Class: rca.SlowComm, RestsOn: []int{ev.Ranks[at].ID}}
	}
	req := f.request()
	req.Triggers[0].Kind = incident.Slow
	if _, err := d.Diagnose(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if known != f.hosts {
		t.Errorf("%d members of the communicator are known, want %d", known, f.hosts)
	}
}

// TestHintsOfTriggers: a trigger on slowness that names a rank, or a communicator, has their exporters asked for finished work.
func TestHintsOfTriggers(t *testing.T) {
	for _, tc := range []struct {
		name string
		hint incident.Trigger
		host int
	}{
		{"a rank", incident.Trigger{Rank: 61 * perHost}, 61},
		{"a communicator", incident.Trigger{Rank: -1, Comm: strconv.FormatUint(tpID+77, 16)}, 77},
	} {
		f := &fleet{hosts: 100, culprit: 123}
		d := f.diagnoser(t)
		d.Engine = func(rca.Evidence, rca.Options) rca.Verdict { return rca.Verdict{Class: rca.Healthy} }
		tc.hint.Key, tc.hint.JobID, tc.hint.Kind = "a", jobID, incident.Slow
		if _, err := d.Diagnose(t.Context(), incident.Request{Job: identity.Job{ID: jobID}, Triggers: []incident.Trigger{tc.hint}}); err != nil {
			t.Fatal(err)
		}
		if name := fmt.Sprintf("host-%d", tc.host); f.asked[name] == 0 {
			t.Errorf("%s: %s was not asked, of %d that were", tc.name, name, len(f.asked))
		}
	}
}

// TestConfirm: in a large job, an accusation that rests on new states of some exporters and old ones of others is checked again.
// In a small job all exporters are asked again.
func TestConfirm(t *testing.T) {
	for small, want := range map[bool]int{false: 2, true: 4} {
		testConfirm(t, small, want)
	}
}

func testConfirm(t *testing.T, small bool, want int) {
	t.Helper()
	f := &fleet{hosts: 4, culprit: 13}
	d := f.diagnoser(t)
	if !small {
		d.Config.AllNodesUpTo = 0
	}
	first := ""
	d.Engine = func(_ rca.Evidence, _ rca.Options) rca.Verdict {
		f.mu.Lock()
		defer f.mu.Unlock()
		v := rca.Verdict{Class: rca.Fault, Cause: rca.CauseNetworkSend, Page: true, Culprits: []rca.Culprit{{Rank: 0}}}
		for host, n := range f.asked {
			if n > 1 && first == "" {
				first = host
			}
		}
		if first != "" {
			v.Culprits[0].Rank = 2 * perHost // On a host that was not looked at again.
		}
		return v
	}
	if _, err := d.Diagnose(t.Context(), f.request()); err != nil {
		t.Fatal(err)
	}
	twice := 0
	for _, n := range f.asked {
		if n > 1 {
			twice++
		}
	}
	if twice != want {
		t.Errorf("small %v: %d hosts were looked at again (%v), want %d", small, twice, f.asked, want)
	}
}

// BenchmarkDiagnose diagnoses a job whose members were looked up in advance, as the service does every minute, and one that was
// never seen.
func BenchmarkDiagnose(b *testing.B) {
	for _, hosts := range []int{8, 64, 1280, 12800} {
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("ranks=%d/known=%v", hosts*perHost, known), func(b *testing.B) {
				f := &fleet{hosts: hosts, culprit: hosts*perHost/2 + 3}
				d := f.diagnoser(b)
				if _, err := d.Diagnose(b.Context(), f.request()); err != nil { // The answers are made once.
					b.Fatal(err)
				}
				var out incident.Outcome
				f.bytes = 0
				b.ReportAllocs()
				for b.Loop() {
					if !known {
						d = f.diagnoser(b)
					}
					var err error
					if out, err = d.Diagnose(b.Context(), f.request()); err != nil {
						b.Fatal(err)
					}
				}
				if len(out.Verdict.Culprits) != 1 || out.Verdict.Culprits[0].Rank != f.culprit {
					b.Errorf("verdict is %+v", out.Verdict)
				}
				b.ReportMetric(float64(out.Asked), "nodes-asked")
				b.ReportMetric(float64(f.bytes)/float64(b.N), "bytes-read/op")
			})
		}
	}
}
