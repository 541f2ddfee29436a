// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Detail says when per-flow series are exported.
type Detail string

// Details.
const (
	DetailAuto Detail = "auto" // While a communicator makes no progress, or an incident of its job is open.
	DetailFull Detail = "full" // Always.
	DetailOff  Detail = "off"
)

// NCCLOptions configure the nccl collector.
type NCCLOptions struct {
	Detail      Detail
	DetailAfter time.Duration // With DetailAuto: how long without progress.
	RankSeries  int           // Of a healthy rank; 0: 100. What is left of them goes to the kinds of operations that take most time.
	MaxSeries   int           // Hard cap over all processes; what exceeds it is dropped and counted.
}

// oldOp is the age from which an operation's age is exported. Younger ones are usual, change between any two scrapes, and
// would cost a series for every communicator of every healthy rank.
const oldOp = time.Second

// Processes is what the nccl collector reads: a node.Sampler.
type Processes interface {
	All(f func(sampledNS uint64, list []*node.Process))
}

// NCCL exports the state of the traced processes' communication.
type NCCL struct {
	opts      NCCLOptions
	processes Processes
	dropped   atomic.Uint64
}

// NewNCCL makes the nccl collector.
func NewNCCL(processes Processes, opts NCCLOptions) *NCCL {
	if opts.RankSeries == 0 {
		opts.RankSeries = 100
	}
	return &NCCL{opts: opts, processes: processes}
}

// DroppedSeries counts the series left out by the hard cap so far.
func (c *NCCL) DroppedSeries() uint64 { return c.dropped.Load() }

func ncclDesc(name, help string, labels ...string) *series {
	return newSeries("culprit_nccl_"+name, help, append([]string{"job_id", "owner", "rank"}, labels...)...)
}

// qpLabels tell queue pairs apart; peer is a rank of the communicator.
var qpLabels = []string{"comm", "peer", "qp", "device"}

var opLabels = []string{"comm", "function", "algorithm", "protocol", "path", "size"}

var (
	processInfoDesc = ncclDesc("process_info", "Identity of a traced process. The value is 1.",
		"host", "address", "gpu", "gpu_uuid", "pci_bus_id", "nic", "local_rank", "world_size", "pid", "pod", "namespace", "container", "slurm_job_id", "slurm_step_id", "uid", "abi")
	processUpDesc = ncclDesc("process_up",
		"1 while the process lives, 0 after it vanished without an orderly end.")
	worldSizeDesc = ncclDesc("world_size",
		"Ranks of the job, by what the process was started with.")
	processAgeDesc = ncclDesc("process_age_seconds",
		"Time since the process created its first communicator, by the clock of its host.")
	processStartDesc = ncclDesc("process_start_time_seconds",
		"When the process created its first communicator, in Unix time by the clock of its host.")
	processStoppedDesc = ncclDesc("process_stopped",
		"1 while the process is stopped, by a signal or a debugger; absent otherwise.")
	stallDesc = ncclDesc("stall_seconds",
		"Longest time that a communicator with an operation in flight has made no progress; 0 when none is in flight.")
	launchAgeDesc = ncclDesc("launch_age_seconds",
		"Time since the process last called an operation.")
	groupOpenDesc = ncclDesc("group_open_seconds",
		"How long the process has been inside ncclGroupEnd; 0 when it is not.")
	bytesDesc = ncclDesc("bytes_total",
		"Payload bytes of completed operations.", "function")
	opSecondsDesc = ncclDesc("op_seconds_total",
		"Time of completed operations from their kernel's start to its end, waiting for other ranks included; from the enqueuing where no kernel is seen. "+
			"Without communicator: of all that have no series of their own.", opLabels...)
	opBytesDesc = ncclDesc("op_bytes_total",
		"Payload bytes of the operations in culprit_nccl_op_seconds_total, as nccl-tests count them: of AllGather, ReduceScatter, AlltoAll, Gather and Scatter those of all ranks.", opLabels...)
	kernelSecondsDesc = ncclDesc("kernel_seconds_total",
		"Time that the kernels of completed operations were seen running, waiting for other ranks included.", "function")
	functionOpsDesc = ncclDesc("function_ops_total",
		"Completed operations.", "function")
	sendStepsDesc = ncclDesc("send_steps_total",
		"Network steps of sending, by how far they have come. SendCount is the stage done.", "stage")
	receiveStepsDesc = ncclDesc("receive_steps_total",
		"Network steps of receiving, by how far they have come. RecvCount is the stage received.", "stage")
	waitDesc = ncclDesc("wait_seconds_total",
		"Time that the flows' oldest unfinished steps waited, by what for, summed over flows.", "reason")
	activeDesc = ncclDesc("active_seconds_total",
		"Time with a transfer in flight, summed over send flows.")
	epochsDesc = ncclDesc("active_epochs_total",
		"Epochs of 32.768 µs in which a transfer was in flight, summed over send flows.")
	iterationDesc = ncclDesc("iteration_seconds",
		"Duration of the training iterations found in the operation sequence.")
	lostDesc = ncclDesc("events_lost_total",
		"Events and records that the shim or the exporter could not keep.", "reason")

	commInfoDesc = ncclDesc("comm_info", "Identity of a communicator. The value is 1.",
		"comm", "comm_name", "comm_rank", "nranks", "nnodes")
	opsStartedDesc = ncclDesc("ops_started_total",
		"Operations called on the communicator; where calls are not seen, enqueued on it.", "comm")
	opsCompletedDesc = ncclDesc("ops_completed_total",
		"Operations of the communicator that completed.", "comm")
	sendProbesDesc = ncclDesc("send_probes_total",
		"Probes, one every 1.05 ms, that found SendCount of an operation changed, summed over the communicator's completed operations. "+
			"Completed operations divided by it are the SendRate (CCL-D) of the mean operation.", "comm")
	receiveProbesDesc = ncclDesc("receive_probes_total",
		"Probes, one every 1.05 ms, that found RecvCount of an operation changed, summed over the communicator's completed operations. "+
			"Completed operations divided by it are the RecvRate (CCL-D) of the mean operation.", "comm")
	opAgeDesc = ncclDesc("op_age_seconds",
		"Age of the communicator's oldest operation in flight since it was called, barriers left out; absent below one second.", "comm")

	flowInfoDesc = ncclDesc("flow_info", "What a flow of an operation in flight waits for. The value is 1.",
		"comm", "channel", "direction", "peer", "state", "function", "op")
	flowStepsDesc = ncclDesc("flow_steps",
		"Steps of the flow's current operation, by how far they have come.", "comm", "channel", "direction", "peer", "stage")
	flowStateDesc = ncclDesc("flow_state_seconds",
		"For how long the flow has been in its state.", "comm", "channel", "direction", "peer")

	qpInfoDesc = ncclDesc("qp_info", "Identity of an RDMA queue pair of a stuck communicator, or beside one that lags. The value is 1.",
		"comm", "qp", "device", "dest_qp", "remote", "peer", "state")
	qpBytesDesc = ncclDesc("qp_send_bytes_total",
		"Bytes posted to the queue pair.", qpLabels...)
	qpEpochsDesc = ncclDesc("qp_active_epochs_total",
		"Epochs of 32.768 µs in which a send of the queue pair was outstanding.", qpLabels...)
	qpStandingDesc = ncclDesc("qp_standing_seconds",
		"How long a send has been outstanding with nothing posted or completed since; 0 when none is outstanding.", qpLabels...)
	qpOutstandingDesc = ncclDesc("qp_outstanding_sends",
		"Work requests posted to the queue pair and not known done.", qpLabels...)
	qpErrorsDesc = ncclDesc("qp_errors_total",
		"Completions of the queue pair with another status than success.", qpLabels...)
)

var (
	sendStages    = [4]string{"posted", "gpu_ready", "transmitted", "done"}
	receiveStages = [4]string{"posted", "received", "given", "consumed"}
	sendWaits     = [3]string{"gpu", "peer", "network"}
	receiveWaits  = [3]string{"receive", "flush", "consume"}
)

// Collect implements Collector. Flow detail comes last, so that the cap hits it first.
func (c *NCCL) Collect(_ context.Context, emit func(prometheus.Metric)) error {
	c.processes.All(func(now uint64, list []*node.Process) {
		speakers := speakersOf(list)
		b := budget{emit: emit, left: c.opts.MaxSeries}
		b.share(speakers, func(p *node.Process) {
			r := rankMetrics{budget: &b, name: nameOf(p), p: p, now: now}
			r.process()
			r.comms()
			r.calls()
			r.operations(c.opts.RankSeries)
		})
		if c.opts.Detail != DetailOff {
			b.share(slices.DeleteFunc(speakers, (*node.Process).Dead), func(p *node.Process) {
				r := rankMetrics{budget: &b, name: nameOf(p), p: p, now: now}
				r.flows(c.opts)
			})
		}
		c.dropped.Add(b.dropped)
	})
	return nil
}

// rankName is what a process's series are labelled with.
type rankName struct {
	jobID, owner string
	rank         int32
}

func nameOf(p *node.Process) rankName { return rankName{p.JobID, p.Owner(), p.Rank} }

// speakersOf picks the process that speaks for each rank of each job. Of a restarted one and its dead predecessor it is the
// living and the younger. Those that ended in an orderly way are left out, and those whose claim is disputed.
func speakersOf(list []*node.Process) []*node.Process {
	speakers := map[rankName]*node.Process{}
	for _, p := range list {
		if p.Kernel.State == nodeapi.ProcessExited || p.Disputed != "" {
			continue
		}
		if q := speakers[nameOf(p)]; q == nil || q.Dead() && !p.Dead() ||
			q.Dead() == p.Dead() && p.Snap.Identity.CreatedNS > q.Snap.Identity.CreatedNS {
			speakers[nameOf(p)] = p
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(p *node.Process) bool { return speakers[nameOf(p)] != p })
}

// budget passes metrics on until a limit is reached and counts the rest.
type budget struct {
	emit    func(prometheus.Metric)
	left    int // Of the cap.
	limit   int // Of the process whose turn it is.
	dropped uint64
}

func (b *budget) series(n int) bool {
	if b.limit < n {
		b.dropped += uint64(n)
		return false
	}
	b.limit -= n
	b.left -= n
	return true
}

// share gives each process its turn. What is left is shared equally between tenants, and within one between its processes; who
// needs least comes first, so that what it leaves is the others'.
func (b *budget) share(list []*node.Process, emit func(*node.Process)) {
	need := func(p *node.Process) int { return len(p.Snap.Comms) + len(p.Snap.Flows) + len(p.Snap.QPs) }
	tenants := map[node.Tenant][]*node.Process{}
	needs := map[node.Tenant]int{}
	for _, p := range list {
		tenants[p.Tenant()] = append(tenants[p.Tenant()], p)
		needs[p.Tenant()] += need(p)
	}
	order := slices.SortedFunc(maps.Keys(tenants), func(x, y node.Tenant) int {
		return cmp.Or(cmp.Compare(needs[x], needs[y]), cmp.Compare(x.UID, y.UID), cmp.Compare(x.Pod, y.Pod))
	})
	for i, t := range order {
		share := b.left / (len(order) - i)
		own := tenants[t]
		slices.SortStableFunc(own, func(p, q *node.Process) int { return cmp.Compare(need(p), need(q)) })
		for j, p := range own {
			b.limit = share / (len(own) - j)
			given := b.limit
			emit(p)
			share -= given - b.limit
		}
	}
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

func number[N int32 | uint32 | uint64](n N) string {
	if n > 0 {
		return strconv.FormatUint(uint64(n), 10)
	}
	return strconv.FormatInt(int64(n), 10)
}

// qpStates are the names of enum ibv_qp_state.
var qpStates = []string{"reset", "init", "rtr", "rts", "sqd", "sqe", "err"}
