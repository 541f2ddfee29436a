// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

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
	r.scratch = append(append(r.scratch[:0], r.name.jobID, r.name.owner, r.rank), more...)
	return r.scratch
}

func (r *rankMetrics) process() {
	p := r.p
	id, st, t := &p.Snap.Identity, &p.Snap.Status, &p.Totals
	pid := uint64(id.PID)
	if p.Kernel.HostPID != 0 {
		pid = uint64(p.Kernel.HostPID)
	}
	r.gauge(processInfoDesc, 1, p.Host, id.Address, p.GPU, id.GPUUUID, node.NormalPCI(id.GPUPCIBusID), strings.Join(p.NICs(), ","), number(id.LocalRank), number(id.WorldSize), number(pid),
		p.Place.Pod, p.Place.Namespace, p.Place.Container, p.Place.SlurmJob, p.Place.SlurmStep, p.UID(), number(id.WriterABI))
	if id.WorldSize > 0 {
		r.gauge(worldSizeDesc, float64(id.WorldSize))
	}
	r.gauge(processAgeDesc, seconds(r.now-min(id.CreatedNS, r.now)))
	r.gauge(processStartDesc, seconds(id.CreatedRealNS))
	if p.Dead() {
		// What it waits for is no question any more; its stall would only repeat how long it has been dead.
		r.gauge(processUpDesc, 0)
	} else {
		r.gauge(processUpDesc, 1)
		if p.Kernel.State == nodeapi.ProcessStopped {
			r.gauge(processStoppedDesc, 1)
		}
		var stall time.Duration
		for _, s := range p.Stalls(r.now) {
			stall = max(stall, s.For)
		}
		r.gauge(stallDesc, stall.Seconds())
		if age, called := p.LaunchAge(r.now); called {
			r.gauge(launchAgeDesc, age.Seconds())
		}
		r.gauge(groupOpenDesc, trace.Since(r.now, st.GroupOpenSinceNS).Seconds())
	}
	for f, v := range t.Func {
		if v.Ops > 0 {
			name := trace.Func(f).String()
			r.counter(functionOpsDesc, float64(v.Ops), name)
			r.counter(bytesDesc, float64(v.Bytes), name)
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
		always bool // An alert waits for its growth, from 0 on.
	}{
		{"dropped_comm", st.DroppedComms, true},
		{"dropped_op", st.DroppedOps, true},
		{"dropped_flow", st.DroppedFlows, true},
		{"contended", st.ContendedEvents, false},
		{"stale", st.StaleEvents, false},
		{"overrun", p.Overrun, true},
	} {
		if v.count > 0 || v.always {
			r.counter(lostDesc, float64(v.count), v.reason)
		}
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
	r.counter(epochsDesc, float64(t.Send.Epochs))
}

func stages(t *node.DirectionTotals) [4]uint64 {
	return [4]uint64{t.Posted, t.Ready, t.Transmitted, t.Done}
}

func (r *rankMetrics) comms() {
	seen := map[trace.CommID]bool{}
	opAge := r.p.OpAges(r.now)
	// The youngest communicator of an id is the one that counts.
	for _, c := range newestFirst(r.p.Snap.Comms) {
		if c.Ended || c.OpsCalled == 0 && c.OpsStarted == 0 || seen[c.ID] {
			continue
		}
		seen[c.ID] = true
		comm := c.ID.String()
		r.gauge(commInfoDesc, 1, comm, c.Name, number(c.Rank), number(c.NRanks), number(c.NNodes))
		r.counter(opsStartedDesc, float64(max(c.OpsCalled, c.OpsStarted)), comm)
		r.counter(opsCompletedDesc, float64(c.OpsCompleted), comm)
		if age := opAge(c); age >= oldOp && !r.p.Dead() {
			r.gauge(opAgeDesc, age.Seconds(), comm)
		}
	}
}

// What a healthy rank has at most beside its operations: for itself, for each function and for each communicator.
const (
	rankOwnSeries      = 36
	rankFunctionSeries = 4
	rankCommSeries     = 3
	commProbeSeries    = 2
)

// operations emits what has room: the probes of the communicators that have most, in at most half of it; time and bytes of the kinds of
// operations that take most time, in the rest; and by function the time of all others.
func (r *rankMetrics) operations(rankSeries int) {
	live := map[trace.CommID]bool{}
	comms, functions := 0, 0
	for i := range r.p.Snap.Comms {
		if c := &r.p.Snap.Comms[i]; !c.Ended && !live[c.ID] {
			live[c.ID] = true
			if c.OpsCalled > 0 || c.OpsStarted > 0 {
				comms++
			}
		}
	}
	for i := range r.p.Totals.Func {
		if r.p.Totals.Func[i].Ops > 0 {
			functions++
		}
	}
	room := rankSeries - rankOwnSeries - rankFunctionSeries*functions - rankCommSeries*comms
	ended := func(id trace.CommID) bool { return !live[id] }
	r.p.Probes.Show(room/2/commProbeSeries, ended, func(id trace.CommID, sum node.ProbeSum) {
		comm := id.String()
		r.counter(sendProbesDesc, float64(sum.Send), comm)
		r.counter(receiveProbesDesc, float64(sum.Recv), comm)
		room -= commProbeSeries
	})
	fit := room / 2
	r.p.Ops.Show(fit, ended, func(k node.OpKind, sum node.OpSum) {
		labels := []string{k.Comm.String(), k.Func.String(), "", "", k.Path.String(), node.OpSizes[k.Size].Name}
		if k.Algo != trace.AlgoUnknown {
			labels[2] = k.Algo.String()
		}
		if k.Proto != trace.ProtoUnknown {
			labels[3] = k.Proto.String()
		}
		r.counter(opSecondsDesc, seconds(sum.NS), labels...)
		r.counter(opBytesDesc, float64(sum.Bytes), labels...)
	}, func(f trace.Func, ns uint64) {
		r.counter(opSecondsDesc, seconds(ns), "", f.String(), "", "", "", "")
	})
}

// flowName is what tells a process's flow series apart.
type flowName struct {
	comm    trace.CommID
	channel uint16
	send    bool
	peer    int32
}

// askedFor is how long detail is exported after the state of a job was asked for: longer than an analyzer lets pass between two analyses
// of an open incident.
const askedFor = 3 * time.Minute

// asked reports whether somebody looks into the rank's job.
func (r *rankMetrics) asked() bool {
	return r.p.AskedNS != 0 && trace.Since(r.now, r.p.AskedNS) < askedFor
}

func (r *rankMetrics) flows(opts NCCLOptions) {
	wanted := map[[2]uint32]trace.CommID{}
	for _, s := range r.p.Stalls(r.now) {
		if opts.Detail == DetailFull || s.For >= opts.DetailAfter {
			wanted[[2]uint32{s.Comm.Index, s.Comm.Generation}] = s.Comm.ID
		}
	}
	if r.asked() { // Between operations, too: the counters of a job that is slow go on.
		for i := range r.p.Snap.Comms {
			if c := &r.p.Snap.Comms[i]; !c.Ended {
				wanted[[2]uint32{c.Index, c.Generation}] = c.ID
			}
		}
	}
	r.queuePairs(wanted)
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
}

// mostQueuePairs is how many queue pairs a rank shows at a time: those to 8 peers over 8 channels.
const mostQueuePairs = 64

// queuePairs emits the queue pairs that were seen to carry one of the communicators, and those of which one lagged lately, with its sisters.
func (r *rankMetrics) queuePairs(wanted map[[2]uint32]trace.CommID) {
	type qpName struct {
		comm   trace.CommID
		qp     uint32
		device string
	}
	var uneven, even []*trace.QP // Those that lag, and their sisters, come before the rest.
	for i := range r.p.Snap.QPs {
		if q := &r.p.Snap.QPs[i]; r.p.Lanes.Uneven(q, r.now) {
			uneven = append(uneven, q)
		} else {
			even = append(even, q)
		}
	}
	seen := map[qpName]bool{}
	for i, q := range append(uneven, even...) {
		comm := commOf(&r.p.Snap, q)
		if comm == nil || comm.Ended {
			continue
		}
		_, ok := wanted[[2]uint32{comm.Index, comm.Generation}]
		name := qpName{comm.ID, q.QPNum, q.Device}
		if !ok && i >= len(uneven) || seen[name] || len(seen) == mostQueuePairs {
			continue
		}
		seen[name] = true
		r.gauge(qpInfoDesc, 1, comm.ID.String(), number(q.QPNum), q.Device, number(q.DestQPNum), q.Remote, number(q.Peer), qpState(q.State))
		which := []string{comm.ID.String(), number(q.Peer), number(q.QPNum), q.Device}
		r.counter(qpBytesDesc, float64(q.SendBytes), which...)
		r.counter(qpEpochsDesc, float64(q.Epochs), which...)
		r.gauge(qpStandingDesc, q.Standing(r.now).Seconds(), which...)
		r.gauge(qpOutstandingDesc, float64(q.Outstanding()), which...)
		r.counter(qpErrorsDesc, float64(q.Errors), which...)
	}
}

// commOf gives the communicator that a queue pair carries; nil where that is not known.
func commOf(s *trace.Snapshot, q *trace.QP) *trace.Comm {
	for i := range s.Comms {
		if c := &s.Comms[i]; int64(c.Index) == q.CommIndex && c.Generation == q.CommGeneration {
			return c
		}
	}
	return nil
}

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
