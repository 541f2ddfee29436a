// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/notify"
	"github.com/culprit-project/culprit/analyzer/webhook"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const jobID = "train-7"

// cluster is a training job on some nodes, with its exporters and the Prometheus that knows them.
type cluster struct {
	t          *testing.T
	prometheus *httptest.Server
	nodes      []*node

	mu        sync.Mutex
	down      bool                             // Prometheus answers 500.
	slow      time.Duration                    // Prometheus takes so long.
	dead      map[int]bool                     // Nodes whose series have gone stale.
	longest   time.Duration                    // The longest wait that Prometheus has seen end by itself; 0 none.
	pause     time.Duration                    // And the longest time in which nobody called.
	alerts    []map[string]any                 // What Prometheus has of alerts that fire.
	evaluated time.Time                        // When rules found them true; zero: just now.
	labels    func(rank int) map[string]string // Further ones of processes; nil: none.
	later     time.Duration                    // By how much the nodes' time has gone on with nothing else changed.
	processes []*nodeapi.Process
	claims    []map[string]string // What exporters call their hosts, where two may call theirs alike.
	queries   []string
	looks     http.HandlerFunc // Answers requests for close looks; nil: no exporter takes any.
}

type node struct {
	name   string
	server *httptest.Server
	asked  int
	broken http.HandlerFunc // Answers instead, when set.
}

const (
	ranksPerNode = 2
	second       = uint64(time.Second)
	nowNS        = 1000 * second
)

// newCluster starts a job that runs well: every rank has finished ten operations and is in none.
func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{t: t, dead: map[int]bool{}}
	world := nodes * ranksPerNode
	for n := range nodes {
		h := &node{name: fmt.Sprintf("node-%d", n)}
		h.server = httptest.NewServer(c.exporter(h, n))
		t.Cleanup(h.server.Close)
		c.nodes = append(c.nodes, h)
		for l := range ranksPerNode {
			c.processes = append(c.processes, healthy(n*ranksPerNode+l, world, h.name))
		}
	}
	c.prometheus = httptest.NewServer(http.HandlerFunc(c.query))
	t.Cleanup(c.prometheus.Close)
	return c
}

func healthy(rank, world int, host string) *nodeapi.Process {
	p := &nodeapi.Process{
		File: fmt.Sprintf("rank%d.trace", rank), JobID: jobID, Rank: int32(rank), Host: host, GPU: strconv.Itoa(rank % ranksPerNode),
		Kernel: &nodeapi.Kernel{State: nodeapi.ProcessSleep, Verified: true, CPUCores: 0.2},
	}
	p.Identity = trace.Identity{
		PID: uint32(1000 + rank), Rank: int32(rank), WorldSize: int32(world), JobID: jobID, Hostname: host,
		Capabilities: trace.CapCommIdentity | trace.CapAPIEvents | trace.CapProxySteps | trace.CapPeerWait | trace.CapKernelCh | trace.CapCompletion,
	}
	p.Comms = []trace.Comm{{
		Index: 0, Generation: 1, ID: 0xabc, NRanks: int32(world), Rank: int32(rank), NNodes: int32(world / ranksPerNode), Name: "world",
		OpsCalled: 100, OpsStarted: 100, OpsCompleted: 100,
		LastCalledNS: nowNS - 6*second, LastProgressNS: nowNS - 6*second, LastCompletedNS: nowNS - 6*second,
	}}
	p.Comms[0].SeqStarted[trace.AllReduce] = 100
	return p
}

// waits puts a rank into the operation that its job is about to do, and that one rank stays outside of.
func waits(p *nodeapi.Process, outside int) {
	world := p.Comms[0].NRanks
	p.Comms[0].OpsCalled, p.Comms[0].OpsStarted, p.Comms[0].OpsInFlight = 101, 101, 1
	p.Comms[0].SeqStarted[trace.AllReduce] = 101
	p.Comms[0].LastCalledNS = nowNS - 5*second
	p.Ops = []trace.Op{{
		Index: 0, Generation: 7, CommIndex: 0, CommGeneration: 1, Number: 100, Seq: 100, Func: trace.AllReduce, Algo: trace.AlgoRing,
		Proto: trace.ProtoSimple, Datatype: "float32", Count: 1 << 20, Bytes: 4 << 20, Peer: -1, Root: -1, Channels: 1, State: trace.OpMoving,
		CalledNS: nowNS - 5*second, EnqueuedNS: nowNS - 5*second, EnteredNS: nowNS - 5*second, FirstStepNS: nowNS - 5*second,
		LastProgressNS: nowNS - 5*second, KernelStarted: 1,
	}}
	// A ring: the first chunk is one's own, the next is the predecessor's.
	flow := trace.Flow{
		Generation: 1, CommIndex: 0, CommGeneration: 1, OpIndex: 0, OpGeneration: 7, OpNumber: 100, OpSeq: 100, Func: trace.AllReduce, StepsTotal: 16,
		OpStartedNS: nowNS - 5*second, LastProgressNS: nowNS - 5*second,
	}
	send, recv := flow, flow
	send.IsSend, send.Peer, send.State, send.Posted, send.Ready, send.Transmitted, send.Done = true, (p.Rank+1)%world, trace.FlowSendGPU, 5, 1, 1, 1
	recv.Index, recv.Peer, recv.State, recv.Posted, recv.Ready, recv.Transmitted, recv.Done = 1, (p.Rank+world-1)%world, trace.FlowRecvNet, 5, 1, 1, 1
	if int(send.Peer) == outside {
		send.State, send.Transmitted, send.Done, send.PeerPolls = trace.FlowSendPeer, 0, 0, 1000
	}
	if int(recv.Peer) == outside {
		recv.Ready, recv.Transmitted, recv.Done = 0, 0, 0
	}
	p.Flows = []trace.Flow{send, recv}
}

// hang keeps one rank outside NCCL, with its process in the given state; all others wait in the next operation.
func (c *cluster) hang(rank int, state nodeapi.ProcessState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.processes {
		*p = *healthy(i, len(c.processes), p.Host)
		if i == rank {
			p.Kernel.State = state
		} else {
			waits(p, rank)
		}
	}
}

func (c *cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) exporter(h *node, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		h.asked++
		broken := h.broken
		c.mu.Unlock()
		if broken != nil {
			broken(w, r)
			return
		}
		if r.URL.Path == nodeapi.LookPath && c.looks != nil {
			c.looks(w, r)
			return
		}
		if r.URL.Path != nodeapi.StatePath {
			http.NotFound(w, r)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		state := nodeapi.State{Version: nodeapi.Version, Exporter: "test", Node: h.name, NowNS: nowNS + uint64(c.later)}
		for _, p := range c.processes[n*ranksPerNode : (n+1)*ranksPerNode] {
			if p.JobID == r.URL.Query().Get("job_id") {
				state.Processes = append(state.Processes, *p)
			}
		}
		_ = json.NewEncoder(w).Encode(&state)
	}
}

// query answers the few questions that the analyzer asks Prometheus.
func (c *cluster) query(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queries = append(c.queries, query)
	time.Sleep(c.slow)
	if c.down {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	var result []map[string]any
	if strings.Contains(query, "and on (short)") {
		for _, claim := range c.claims {
			result = append(result, map[string]any{"value": []any{1, "1"}, "metric": claim})
		}
	}
	if strings.Contains(query, "job_id:culprit_nccl_wait_ended_seconds:max") && c.longest > 0 {
		result = append(result, map[string]any{"value": []any{1, strconv.FormatFloat(c.longest.Seconds(), 'f', -1, 64)}, "metric": map[string]string{}})
	}
	if strings.Contains(query, "job_id:culprit_nccl_launch_pause_seconds:max") && c.pause > 0 {
		result = append(result, map[string]any{"value": []any{1, strconv.FormatFloat(c.pause.Seconds(), 'f', -1, 64)}, "metric": map[string]string{}})
	}
	switch {
	case strings.Contains(query, "ALERTS_FOR_STATE"):
		result = append(result, c.alerts...)
	case strings.Contains(query, "timestamp(ALERTS"):
		evaluated := c.evaluated
		if evaluated.IsZero() {
			evaluated = time.Now()
		}
		for _, a := range c.alerts {
			at := strconv.FormatFloat(float64(evaluated.UnixMilli())/1000, 'f', 3, 64)
			result = append(result, map[string]any{"metric": a["metric"], "value": []any{1, at}})
		}
	}
	for i, p := range c.processes {
		n := i / ranksPerNode
		if strings.Contains(query, "unless") != c.dead[n] && !strings.Contains(query, "culprit_nccl_comm_info") || !strings.Contains(query, jobID) && !strings.Contains(query, `!=""`) {
			continue
		}
		labels := map[string]string{
			"job_id": p.JobID, "rank": strconv.Itoa(int(p.Rank)), "instance": strings.TrimPrefix(c.nodes[n].server.URL, "http://"),
		}
		comm, value := &p.Comms[0], 1.0
		switch {
		case strings.Contains(query, "culprit_nccl_process_info"):
			labels["host"], labels["gpu"] = p.Host, p.GPU
			if c.labels != nil {
				maps.Copy(labels, c.labels(int(p.Rank)))
			}
			labels["world_size"], labels["pid"] = strconv.Itoa(int(p.Identity.WorldSize)), strconv.Itoa(int(p.Identity.PID))
		case strings.Contains(query, "culprit_nccl_comm_info"):
			labels["comm"], labels["comm_name"] = comm.ID.String(), comm.Name
			labels["comm_rank"], labels["nranks"] = strconv.Itoa(int(comm.Rank)), strconv.Itoa(int(comm.NRanks))
		case strings.Contains(query, "culprit_nccl_ops_started_total"):
			labels["comm"], value = comm.ID.String(), float64(comm.OpsStarted)
		case strings.Contains(query, "culprit_nccl_ops_completed_total"):
			labels["comm"], value = comm.ID.String(), float64(comm.OpsCompleted)
		case strings.Contains(query, "culprit_nccl_op_age_seconds"):
			if len(p.Ops) == 0 {
				continue
			}
			labels, value = map[string]string{"comm": comm.ID.String()}, 5
		default:
			continue
		}
		result = append(result, map[string]any{"value": []any{1, strconv.FormatFloat(value, 'f', -1, 64)}, "metric": labels})
		if strings.Contains(query, "max by (comm)") {
			break
		}
	}
	if result == nil {
		result = []map[string]any{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

// alertmanager is one Alertmanager: it keeps what it is posted and lists what fires.
type alertmanager struct {
	server *httptest.Server

	mu      sync.Mutex
	down    bool
	posts   int
	alerts  map[string]notify.Alert // The newest by fingerprint.
	history []notify.Alert
	firing  []notify.Listed // Triggers that it has.
	asked   []string        // Queries of listings.
}

func newAlertmanager(t *testing.T) *alertmanager {
	am := &alertmanager{alerts: map[string]notify.Alert{}}
	am.server = httptest.NewServer(http.HandlerFunc(am.serve))
	t.Cleanup(am.server.Close)
	return am
}

func (am *alertmanager) serve(w http.ResponseWriter, r *http.Request) {
	am.mu.Lock()
	defer am.mu.Unlock()
	switch {
	case am.down:
		http.Error(w, "down", http.StatusInternalServerError)
	case r.URL.Path != "/api/v2/alerts":
		http.NotFound(w, r)
	case r.Method == http.MethodGet:
		am.asked = append(am.asked, r.URL.RawQuery)
		_ = json.NewEncoder(w).Encode(am.firing)
	default:
		var alerts []notify.Alert
		if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		am.posts++
		for _, a := range alerts {
			am.alerts[webhook.Fingerprint(a.Labels)] = a
			am.history = append(am.history, a)
		}
	}
}

// verdicts gives the alerts that fire at the moment.
func (am *alertmanager) verdicts() []notify.Alert {
	am.mu.Lock()
	defer am.mu.Unlock()
	var out []notify.Alert
	for _, fp := range slices.Sorted(maps.Keys(am.alerts)) {
		if a := am.alerts[fp]; a.EndsAt.After(time.Now()) {
			out = append(out, a)
		}
	}
	return out
}

// eventually polls until ok, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited for: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
