// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Detail says when per-flow series are exported.
type Detail string

// Details.
const (
	DetailAuto Detail = "auto" // While a communicator makes no progress.
	DetailFull Detail = "full" // Always.
	DetailOff  Detail = "off"
)

// NCCLOptions configure the nccl collector.
type NCCLOptions struct {
	Detail      Detail
	DetailAfter time.Duration // With DetailAuto: how long without progress.
	MaxSeries   int           // Hard cap over all processes; what exceeds it is dropped and counted.
}

// oldOp is the age from which an operation's age is exported. Younger ones are usual, change between any two scrapes, and
// would cost a series for every communicator of every healthy rank.
const oldOp = time.Second

// Processes is what the nccl collector reads: a node.Sampler.
type Processes interface {
	Each(f func(sampledNS uint64, p *node.Process))
}

// NCCL exports the state of the traced processes' communication.
type NCCL struct {
	opts      NCCLOptions
	processes Processes
	dropped   atomic.Uint64
}

// NewNCCL makes the nccl collector.
func NewNCCL(processes Processes, opts NCCLOptions) *NCCL {
	return &NCCL{opts: opts, processes: processes}
}

// DroppedSeries counts the series left out by the hard cap so far.
func (c *NCCL) DroppedSeries() uint64 { return c.dropped.Load() }

func ncclDesc(name, help string, labels ...string) *series {
	return newSeries("nccl_"+name, help, append([]string{"job_id", "rank"}, labels...)...)
}

var (
	processInfoDesc = ncclDesc("process_info", "Who a traced process is. The value is 1.",
		"host", "gpu", "gpu_uuid", "pci_bus_id", "nic", "local_rank", "world_size", "pid", "pod", "namespace", "container", "slurm_job_id", "slurm_step_id", "abi")
	processUpDesc = ncclDesc("process_up",
		"1 while the process lives, 0 after it vanished without an orderly end.")
	processStartDesc = ncclDesc("process_start_timestamp_seconds",
		"When the process created its first communicator.")
	stallDesc = ncclDesc("stall_seconds",
		"Longest time that a communicator with an operation in flight has seen no progress; 0 when none is in flight.")
	groupOpenDesc = ncclDesc("group_open_seconds",
		"How long the process has been inside ncclGroupEnd; 0 when it is not.")
	bytesDesc = ncclDesc("bytes_total",
		"Payload bytes of completed operations.", "function")
	opSecondsDesc = ncclDesc("op_seconds_total",
		"Time from enqueued to left, summed over completed operations.", "function")
	kernelSecondsDesc = ncclDesc("kernel_seconds_total",
		"Time that the kernels of completed operations were seen running, waiting for other ranks included.", "function")
	functionOpsDesc = ncclDesc("function_ops_total",
		"Completed operations.", "function")
	sendStepsDesc = ncclDesc("send_steps_total",
		"Network steps of sending, by how far they have come. SendCount is the stage done.", "stage")
	receiveStepsDesc = ncclDesc("receive_steps_total",
		"Network steps of receiving, by how far they have come. RecvCount is the stage received.", "stage")
	sendRateDesc = ncclDesc("send_rate",
		"Reciprocal of how often SendCount changed in the last second; absent without traffic.")
	receiveRateDesc = ncclDesc("receive_rate",
		"Reciprocal of how often RecvCount changed in the last second; absent without traffic.")
	waitDesc = ncclDesc("wait_seconds_total",
		"Time that the flows' oldest unfinished steps waited, by what for, summed over flows.", "reason")
	activeDesc = ncclDesc("active_seconds_total",
		"Time with a transfer outstanding, summed over send flows.")
	iterationDesc = ncclDesc("iteration_seconds",
		"Duration of the training iterations found in the operation sequence.")
	lostDesc = ncclDesc("events_lost_total",
		"Events and records that the shim or the exporter could not keep.", "reason")

	commInfoDesc = ncclDesc("comm_info", "Who a communicator is. The value is 1.",
		"comm", "comm_name", "comm_rank", "nranks", "nnodes")
	opsStartedDesc = ncclDesc("ops_started_total",
		"Operations enqueued on the communicator.", "comm")
	opsCompletedDesc = ncclDesc("ops_completed_total",
		"Operations of the communicator that completed.", "comm")
	opAgeDesc = ncclDesc("op_age_seconds",
		"Age of the communicator's oldest operation in flight since it was called, barriers left out; absent below one second.", "comm")

	flowInfoDesc = ncclDesc("flow_info", "What a flow of an operation in flight waits for. The value is 1.",
		"comm", "channel", "direction", "peer", "state", "function", "op")
	flowStepsDesc = ncclDesc("flow_steps",
		"Steps of the flow's current operation, by how far they have come.", "comm", "channel", "direction", "peer", "stage")
	flowStateDesc = ncclDesc("flow_state_seconds",
		"For how long the flow has been in its state.", "comm", "channel", "direction", "peer")

	qpInfoDesc = ncclDesc("qp_info", "What an RDMA queue pair of a stuck communicator is. The value is 1.",
		"comm", "qp", "device", "dest_qp", "remote", "peer", "state")
	qpBytesDesc = ncclDesc("qp_send_bytes_total",
		"Bytes posted to the queue pair.", "comm", "qp", "device")
	qpOutstandingDesc = ncclDesc("qp_outstanding_sends",
		"Work requests posted to the queue pair and not known done.", "comm", "qp", "device")
	qpErrorsDesc = ncclDesc("qp_errors_total",
		"Completions of the queue pair with another status than success.", "comm", "qp", "device")
)

var (
	sendStages    = [4]string{"posted", "gpu_ready", "transmitted", "done"}
	receiveStages = [4]string{"posted", "received", "given", "consumed"}
	sendWaits     = [3]string{"gpu", "peer", "network"}
	receiveWaits  = [3]string{"receive", "flush", "consume"}
)

// Collect implements Collector.
func (c *NCCL) Collect(_ context.Context, emit func(prometheus.Metric)) error {
	owners := c.owners()
	b := budget{emit: emit, left: c.opts.MaxSeries}
	// Flow detail comes last, so that the cap hits it first.
	c.processes.Each(func(now uint64, p *node.Process) {
		if owners[nameOf(p)] == p {
			r := rankMetrics{budget: &b, name: nameOf(p), p: p, now: now}
			r.process()
			r.comms()
			r.calls()
		}
	})
	if c.opts.Detail != DetailOff {
		c.processes.Each(func(now uint64, p *node.Process) {
			if owners[nameOf(p)] == p && !p.Dead() {
				r := rankMetrics{budget: &b, name: nameOf(p), p: p, now: now}
				r.flows(c.opts)
			}
		})
	}
	c.dropped.Add(b.dropped)
	return nil
}

// rankName is what a process's series are labelled with.
type rankName struct {
	jobID string
	rank  int32
}

func nameOf(p *node.Process) rankName { return rankName{p.JobID, p.Rank} }

// owners picks the process that speaks for each (job_id, rank). Two can claim the same: a restarted one and its dead
// predecessor, or an impostor. The living and the younger wins; those that ended in an orderly way are left out.
func (c *NCCL) owners() map[rankName]*node.Process {
	owners := map[rankName]*node.Process{}
	c.processes.Each(func(_ uint64, p *node.Process) {
		if p.Kernel.State == nodeapi.ProcessExited {
			return
		}
		if q := owners[nameOf(p)]; q == nil || q.Dead() && !p.Dead() ||
			q.Dead() == p.Dead() && p.Snap.Identity.CreatedNS > q.Snap.Identity.CreatedNS {
			owners[nameOf(p)] = p
		}
	})
	return owners
}

// budget passes metrics on until the cap is reached and counts the rest.
type budget struct {
	emit    func(prometheus.Metric)
	left    int
	dropped uint64
}

func (b *budget) series(n int) bool {
	if b.left < n {
		b.dropped += uint64(n)
		return false
	}
	b.left -= n
	return true
}

// rankMetrics emits the series of one process.
type rankMetrics struct {
	*budget
	name    rankName
	rank    string // As a label.
	p       *node.Process
	now     uint64
	scratch []string
}

func (r *rankMetrics) gauge(d *series, v float64, labels ...string) {
	if r.series(1) {
		r.emit(d.gauge(v, r.labels(labels)...))
	}
}

func (r *rankMetrics) counter(d *series, v float64, labels ...string) {
	if r.series(1) {
		r.emit(d.counter(v, r.labels(labels)...))
	}
}

// labels puts the process's labels in front. The result is valid until the next call.
func (r *rankMetrics) labels(more []string) []string {
	if r.rank == "" {
		r.rank = strconv.Itoa(int(r.name.rank))
	}
	r.scratch = append(append(r.scratch[:0], r.name.jobID, r.rank), more...)
	return r.scratch
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

func number[N int32 | uint32 | uint64](n N) string {
	if n > 0 {
		return strconv.FormatUint(uint64(n), 10)
	}
	return strconv.FormatInt(int64(n), 10)
}

func (r *rankMetrics) process() {
	p := r.p
	id, st, t := &p.Snap.Identity, &p.Snap.Status, &p.Totals
	pid := uint64(id.PID)
	if p.Kernel.HostPID != 0 {
		pid = uint64(p.Kernel.HostPID)
	}
	r.gauge(processInfoDesc, 1, p.Host, p.GPU, id.GPUUUID, node.NormalPCI(id.GPUPCIBusID), strings.Join(p.NICs(), ","), number(id.LocalRank), number(id.WorldSize), number(pid),
		p.Place.Pod, p.Place.Namespace, p.Place.Container, p.Place.SlurmJob, p.Place.SlurmStep, number(id.WriterABI))
	r.gauge(processStartDesc, seconds(id.CreatedRealNS))
	if p.Dead() {
		// What it waits for is no question any more; its stall would only repeat how long it has been dead.
		r.gauge(processUpDesc, 0)
	} else {
		r.gauge(processUpDesc, 1)
		var stall time.Duration
		for _, s := range p.Stalls(r.now) {
			stall = max(stall, s.For)
		}
		r.gauge(stallDesc, stall.Seconds())
		r.gauge(groupOpenDesc, trace.Since(r.now, st.GroupOpenSinceNS).Seconds())
		if n := p.Rates.SendSteps; n > 0 {
			r.gauge(sendRateDesc, 1/float64(n))
		}
		if n := p.Rates.ReceiveSteps; n > 0 {
			r.gauge(receiveRateDesc, 1/float64(n))
		}
	}
	for f, v := range t.Func {
		if v.Ops > 0 {
			name := trace.Func(f).String()
			r.counter(functionOpsDesc, float64(v.Ops), name)
			r.counter(bytesDesc, float64(v.Bytes), name)
			r.counter(opSecondsDesc, seconds(v.NS), name)
			if v.KernelNS > 0 {
				r.counter(kernelSecondsDesc, seconds(v.KernelNS), name)
			}
		}
	}
	if t.Send.Posted > 0 || t.Recv.Posted > 0 {
		r.network(t)
	}
	r.iterations()
	for _, v := range []struct {
		reason string
		count  uint64
	}{
		{"dropped_comm", st.DroppedComms},
		{"dropped_op", st.DroppedOps},
		{"dropped_flow", st.DroppedFlows},
		{"contended", st.ContendedEvents},
		{"stale", st.StaleEvents},
		{"overrun", p.Overrun},
	} {
		r.counter(lostDesc, float64(v.count), v.reason)
	}
}

// iterations emits the histogram of iterations once one was found.
func (r *rankMetrics) iterations() {
	var m dto.Metric
	if err := r.p.Iterations.Write(&m); err != nil || m.GetHistogram().GetSampleCount() == 0 {
		return
	}
	if r.series(len(m.GetHistogram().GetBucket()) + 3) { // The bucket +Inf, sum and count.
		r.emit(iterationDesc.histogram(m.GetHistogram(), r.labels(nil)...))
	}
}

// network emits what only processes with network flows have.
func (r *rankMetrics) network(t *node.Totals) {
	for i, v := range stages(&t.Send) {
		r.counter(sendStepsDesc, float64(v), sendStages[i])
	}
	for i, v := range stages(&t.Recv) {
		r.counter(receiveStepsDesc, float64(v), receiveStages[i])
	}
	for i, reason := range sendWaits {
		r.counter(waitDesc, seconds(t.Send.WaitNS[i]), reason)
	}
	for i, reason := range receiveWaits {
		r.counter(waitDesc, seconds(t.Recv.WaitNS[i]), reason)
	}
	r.counter(activeDesc, seconds(t.Send.ActiveNS))
}

func stages(t *node.DirectionTotals) [4]uint64 {
	return [4]uint64{t.Posted, t.Ready, t.Transmitted, t.Done}
}

func (r *rankMetrics) comms() {
	seen := map[trace.CommID]bool{}
	// The youngest communicator of an id is the one that counts.
	for _, c := range newestFirst(r.p.Snap.Comms) {
		if c.Ended || c.OpsCalled == 0 && c.OpsStarted == 0 || seen[c.ID] {
			continue
		}
		seen[c.ID] = true
		comm := c.ID.String()
		r.gauge(commInfoDesc, 1, comm, c.Name, number(c.Rank), number(c.NRanks), number(c.NNodes))
		r.counter(opsStartedDesc, float64(c.OpsStarted), comm)
		r.counter(opsCompletedDesc, float64(c.OpsCompleted), comm)
		if age := r.p.OpAge(c, r.now); age >= oldOp && !r.p.Dead() {
			r.gauge(opAgeDesc, age.Seconds(), comm)
		}
	}
}

// flowName is what tells a process's flow series apart.
type flowName struct {
	comm    trace.CommID
	channel uint16
	send    bool
	peer    int32
}

func (r *rankMetrics) flows(opts NCCLOptions) {
	wanted := map[[2]uint32]trace.CommID{}
	for _, s := range r.p.Stalls(r.now) {
		if opts.Detail == DetailFull || s.For >= opts.DetailAfter {
			wanted[[2]uint32{s.Comm.Index, s.Comm.Generation}] = s.Comm.ID
		}
	}
	if len(wanted) == 0 {
		return
	}
	seen := map[flowName]bool{}
	for i := range r.p.Snap.Flows {
		f := &r.p.Snap.Flows[i]
		id, ok := wanted[[2]uint32{f.CommIndex, f.CommGeneration}]
		name := flowName{id, f.Channel, f.IsSend, f.Peer}
		if !ok || f.State == trace.FlowIdle || seen[name] {
			continue
		}
		seen[name] = true
		r.flow(f, id.String())
	}
	r.queuePairs(wanted)
}

// queuePairs emits the queue pairs that were seen to carry one of the communicators.
func (r *rankMetrics) queuePairs(wanted map[[2]uint32]trace.CommID) {
	type qpName struct {
		comm   trace.CommID
		qp     uint32
		device string
	}
	seen := map[qpName]bool{}
	for i := range r.p.Snap.QPs {
		q := &r.p.Snap.QPs[i]
		id, ok := wanted[[2]uint32{uint32(q.CommIndex), q.CommGeneration}] //nolint:gosec // -1 is in no table.
		name := qpName{id, q.QPNum, q.Device}
		if !ok || q.CommIndex < 0 || seen[name] {
			continue
		}
		seen[name] = true
		comm, qp := id.String(), number(q.QPNum)
		r.gauge(qpInfoDesc, 1, comm, qp, q.Device, number(q.DestQPNum), q.Remote, number(q.Peer), qpState(q.State))
		r.counter(qpBytesDesc, float64(q.SendBytes), comm, qp, q.Device)
		r.gauge(qpOutstandingDesc, max(0, float64(q.SendsPosted)-float64(q.SendsCompleted)), comm, qp, q.Device)
		r.counter(qpErrorsDesc, float64(q.Errors), comm, qp, q.Device)
	}
}

// qpStates are the names of enum ibv_qp_state.
var qpStates = []string{"reset", "init", "rtr", "rts", "sqd", "sqe", "err"}

func qpState(s uint16) string {
	if int(s) < len(qpStates) {
		return qpStates[s]
	}
	return "unknown"
}

func (r *rankMetrics) flow(f *trace.Flow, comm string) {
	channel, peer := number(uint32(f.Channel)), number(f.Peer)
	direction, names := "receive", receiveStages
	if f.IsSend {
		direction, names = "send", sendStages
	}
	r.gauge(flowInfoDesc, 1, comm, channel, direction, peer, f.State.String(), f.Func.String(), number(f.OpNumber))
	for i, v := range [4]uint32{f.Posted, f.Ready, f.Transmitted, f.Done} {
		r.gauge(flowStepsDesc, float64(v), comm, channel, direction, peer, names[i])
	}
	r.gauge(flowStateDesc, trace.Since(r.now, f.StateSinceNS).Seconds(), comm, channel, direction, peer)
}

func newestFirst(comms []trace.Comm) []*trace.Comm {
	sorted := make([]*trace.Comm, len(comms))
	for i := range comms {
		sorted[i] = &comms[i]
	}
	slices.SortStableFunc(sorted, func(a, b *trace.Comm) int { return cmp.Compare(b.CreatedNS, a.CreatedNS) })
	return sorted
}
