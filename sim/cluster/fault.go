// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/trace"
)

// FaultKind is what goes wrong.
type FaultKind string

// Faults. In comments: what Remaining and Peer mean where they are used.
const (
	NICDown           FaultKind = "nic_down"
	NICBandwidth      FaultKind = "nic_bandwidth"    // Remaining share of the line rate, sending.
	LinkFlap          FaultKind = "link_flap"        // Down for Remaining of every second.
	SwitchPortSlow    FaultKind = "switch_port_slow" // Remaining share, both directions of one NIC's port.
	Congestion        FaultKind = "congestion"       // Remaining share on the path from Rank's host to Peer's host.
	PCIeDowngrade     FaultKind = "pcie_downgrade"   // Remaining share.
	PCIeContention    FaultKind = "pcie_contention"  // Remaining share.
	CrossNUMA         FaultKind = "cross_numa"       // Remaining share between GPU and NIC.
	Misalignment      FaultKind = "memory_misalignment"
	GPUThrottle       FaultKind = "gpu_throttle"       // Remaining clock.
	BackgroundCompute FaultKind = "background_compute" // Remaining share of the GPU; the whole host.
	GPUError          FaultKind = "gpu_error"          // XID; the GPU stops, the process stays.
	CUDAError         FaultKind = "cuda_error"         // Out of memory and the like: the process dies.
	NVLinkError       FaultKind = "nvlink_error"       // Remaining share of NVLink, 0 dead.
	ECCError          FaultKind = "ecc_error"          // Uncorrectable: the GPU stops.
	CPUContention     FaultKind = "cpu_contention"     // Remaining share of CPU time; the whole host.
	CPUThrottle       FaultKind = "cpu_throttle"       // Remaining clock; the whole host.
	ProxyDelay        FaultKind = "proxy_delay"        // One rank's proxy thread sleeps for Delay now and then, 1-Remaining its chance per action.
	ProcessStopped    FaultKind = "process_stopped"
	ProcessKilled     FaultKind = "process_killed"
	HostLost          FaultKind = "host_lost"
	NotEntered        FaultKind = "op_not_entered" // The rank runs on in user code and calls nothing.
	OtherFunc         FaultKind = "other_op"       // Another function than its peers.
	OtherSize         FaultKind = "other_size"
	SkippedOp         FaultKind = "skipped_op"
	Deadlock          FaultKind = "deadlock" // Two groups called in opposite orders.
	DataStuck         FaultKind = "data_loader_stuck"
	StorageStuck      FaultKind = "storage_stuck"
	SlowData          FaultKind = "data_loader_slow" // Delay more per iteration.
	ExpertImbalance   FaultKind = "expert_imbalance" // One expert gets 1/Remaining times its tokens.
	StageImbalance    FaultKind = "stage_imbalance"  // One stage takes 1/Remaining times as long, by the model's cut.
	GlobalSlow        FaultKind = "global_slow"      // Every GPU at Remaining.
	GlobalNetwork     FaultKind = "global_network"   // Every NIC at Remaining.
)

// Fault is one injected fault.
type Fault struct {
	Kind      FaultKind
	Rank      int // Where: the rank, or a rank on the host, NIC or stage meant.
	Peer      int // Other end of a path.
	At        time.Duration
	For       time.Duration // 0: to the end.
	Remaining float64
	Delay     time.Duration
	// Every repeats the fault with this period, each lasting For (spikes and fluctuations).
	Every time.Duration
	// FromIteration is when an imbalance begins, in place of At; 0: from the start, as a bad cut of the model does.
	FromIteration int
	Slot          string // Communicator meant, for inconsistent operations: "tp", "dp", …; empty: "dp", else "world".
}

// deviationKind is how a rank's host thread leaves the common program.
type deviationKind int

const (
	deviateData deviationKind = iota
	deviateSlowData
	deviateSkip
	deviateFunc
	deviateSize
	deviateOrder
)

// deviation is one departure of a rank from the common program.
type deviation struct {
	kind     deviationKind
	from, to Time
	extra    Time
	slot     slot
	done     bool
}

// deviate applies inconsistent calls: nil to leave the call out.
func (r *rank) deviate(in *instr) *instr {
	for i := range r.script {
		d := &r.script[i]
		if d.done || in.kind != doCollect || in.slot != d.slot || r.host < d.from || r.comms[in.slot].comm < 0 {
			continue
		}
		other := *in
		switch d.kind {
		case deviateSkip:
			d.done = true
			return nil
		case deviateFunc:
			other.fn = trace.AllReduce
			if in.fn == trace.AllReduce {
				other.fn = trace.ReduceScatter
			}
		case deviateSize:
			other.bytes = in.bytes / 2
		default:
			continue
		}
		d.done = true
		return &other
	}
	return in
}

// swapOrder gives a copy of the program with its last two blocking collectives on different communicators exchanged,
// nil when there are none.
func (r *rank) swapOrder(prog []instr) []instr {
	last := -1
	for i := len(prog) - 1; i >= 0; i-- {
		in := &prog[i]
		if in.kind != doCollect || !in.blocking || r.comms[in.slot].comm < 0 {
			continue
		}
		if last < 0 {
			last = i
			continue
		}
		if in.slot != prog[last].slot {
			out := slices.Clone(prog)
			out[i], out[last] = out[last], out[i]
			return out
		}
	}
	return nil
}

// spans lists when the fault holds.
func (f *Fault) spans(horizon Time) [][2]Time {
	from, to := At(f.At), Never
	if f.For > 0 {
		to = from + At(f.For)
	}
	if f.Every == 0 {
		return [][2]Time{{from, to}}
	}
	var out [][2]Time
	for t := from; t <= horizon+Time(f.Every); t += At(f.Every) {
		out = append(out, [2]Time{t, t + At(f.For)})
	}
	return out
}

func (s *sim) applyFaults() (*Answer, error) {
	a := &Answer{}
	for i := range s.cfg.Faults {
		f := &s.cfg.Faults[i]
		if f.Rank < 0 || f.Rank >= len(s.hw) || f.Peer < 0 || f.Peer >= len(s.hw) {
			return nil, fmt.Errorf("fault %s: rank %d or peer %d outside 0..%d", f.Kind, f.Rank, f.Peer, len(s.hw)-1)
		}
		t, err := s.applyFault(f)
		if err != nil {
			return nil, fmt.Errorf("applying fault %s: %w", f.Kind, err)
		}
		t.Fault, t.AtSeconds = string(f.Kind), f.At.Seconds()
		a.Truths = append(a.Truths, t)
	}
	return a, nil
}

// applyFault changes the resources that the fault touches and says what is true then.
func (s *sim) applyFault(f *Fault) (Truth, error) {
	r := f.Rank
	hw := &s.hw[r]
	host := &s.hosts[hw.host]
	nic := &s.nics[hw.host][hw.nic]
	one := []int{r}
	all := make([]int, 0, len(host.ranks))
	for _, q := range host.ranks {
		all = append(all, int(q))
	}
	spans := f.spans(s.end)
	switch f.Kind {
	case NICDown:
		s.limit(spans, 0, s.onNIC(r), &nic.tx, &nic.rx)
		return truth(classFault, s.onNIC(r), causeNetSend, causeReceiver, causeGPU).comp("nic", nicName(hw.nic)), nil
	case LinkFlap:
		end := s.end
		if f.For > 0 {
			end = min(end, At(f.At+f.For)-1)
		}
		for t := At(f.At); t <= end; t += seconds(1) {
			s.limit([][2]Time{{t, t + seconds(f.Remaining)}}, 0, s.onNIC(r), &nic.tx, &nic.rx)
		}
		return truth(classSlowComm, s.onNIC(r), causeNetSend).comp("nic", nicName(hw.nic)), nil
	case NICBandwidth:
		s.limit(spans, f.Remaining, s.onNIC(r), &nic.tx)
		return truth(classSlowComm, s.onNIC(r), causeNetSend).comp("nic", nicName(hw.nic)), nil
	case SwitchPortSlow:
		s.limit(spans, f.Remaining, s.onNIC(r), &nic.tx, &nic.rx)
		return truth(classSlowComm, s.onNIC(r), causeNetSend).comp("switch", fmt.Sprintf("port of %s %s", host.name, nicName(hw.nic))), nil
	case Congestion:
		return s.congest(f, spans)
	case CrossNUMA: // Pulse, D.2: the rate is not evenly lower, it fluctuates.
		s.wobble(spans, f.Remaining, 0.5, one, &hw.pcie)
		return truth(classSlowComm, one, causePCIe, causeNetSend).comp("pcie", ""), nil
	case PCIeDowngrade, PCIeContention, Misalignment:
		s.limit(spans, f.Remaining, one, &hw.pcie)
		return truth(classSlowComm, one, causePCIe, causeNetSend).comp("pcie", ""), nil
	case GPUThrottle:
		s.limit(spans, f.Remaining, one, &hw.gpu)
		return truth(classSlowCompute, one, causeGPU).comp("gpu", ""), nil
	case BackgroundCompute:
		for _, q := range all {
			s.limit(spans, f.Remaining, []int{q}, &s.hw[q].gpu)
		}
		return truth(classSlowCompute, all, causeGPU).comp("host", host.name), nil
	case GPUError, ECCError:
		s.limit(spans, 0, one, &hw.gpu)
		return truth(classFault, one, causeGPU, causeKernel).or(classNotEntered).comp("gpu", ""), nil
	case CUDAError, ProcessKilled:
		s.limit(spans, 0, one, &hw.gpu, &hw.cpu, &hw.proxy)
		return truth(classNotEntered, one, causeGone).or(classFault).comp("process", ""), nil
	case ProcessStopped:
		s.limit(spans, 0, one, &hw.cpu, &hw.proxy)
		return truth(classNotEntered, one, causeStopped).or(classFault).comp("process", ""), nil
	case NVLinkError:
		s.limit(spans, f.Remaining, one, &hw.nv)
		if f.Remaining > 0 {
			return truth(classSlowComm, one, causeGPU, causeUnknown).or(classSlowCompute, classSlowMixed).comp("nvlink", ""), nil
		}
		return truth(classFault, one, causeGPU, causeKernel, causeUnknown).comp("nvlink", ""), nil
	case CPUContention, CPUThrottle:
		for _, q := range all {
			s.limit(spans, f.Remaining, []int{q}, &s.hw[q].cpu, &s.hw[q].proxy)
			for _, w := range spans {
				s.hw[q].proxyDelay = append(s.hw[q].proxyDelay, proxyDelay{from: w[0], to: w[1], mean: At(f.Delay)})
			}
		}
		return truth(classSlowComm, all, causeCPU, causeProxy).or(classSlowCompute, classSlowMixed).comp("cpu", host.name), nil
	case ProxyDelay:
		for _, w := range spans {
			s.odd(one, w[0], w[1])
			hw.proxyDelay = append(hw.proxyDelay, proxyDelay{from: w[0], to: w[1], chance: 1 - f.Remaining, pause: At(f.Delay)})
		}
		return truth(classSlowComm, one, causeProxy, causeCPU).or(classSlowMixed).comp("process", ""), nil
	case HostLost:
		host.lostAt = min(host.lostAt, At(f.At))
		for _, q := range all {
			h := &s.hw[q]
			s.limit(spans, 0, []int{q}, &h.gpu, &h.cpu, &h.proxy)
		}
		for i := range s.nics[hw.host] {
			s.limit(spans, 0, nil, &s.nics[hw.host][i].tx, &s.nics[hw.host][i].rx)
		}
		return truth(classFault, all, causeHost, causeGone, causeNetSend).or(classNotEntered).comp("host", host.name), nil
	case NotEntered:
		s.limit(spans, 0, one, &hw.cpu)
		return truth(classNotEntered, one, causeNotCalled).comp("process", ""), nil
	default:
		return s.applyScript(f, spans, one)
	}
}

// applyScript applies the faults of the program and of the work's distribution.
func (s *sim) applyScript(f *Fault, spans [][2]Time, one []int) (Truth, error) {
	r := &s.ranks[f.Rank]
	sl, err := s.slotOf(f)
	if err != nil {
		return Truth{}, err
	}
	script := func(k deviationKind) {
		for _, w := range spans {
			r.script = append(r.script, deviation{kind: k, from: w[0], to: w[1], extra: At(f.Delay), slot: sl})
		}
	}
	switch f.Kind {
	case OtherFunc:
		script(deviateFunc)
		return truth(classInconsistent, one, causeOtherOp).comp("program", ""), nil
	case OtherSize:
		script(deviateSize)
		return truth(classInconsistent, one, causeOtherOp).comp("program", ""), nil
	case SkippedOp:
		script(deviateSkip)
		return truth(classInconsistent, one, causeOtherOp).or(classNotEntered).comp("program", ""), nil
	case Deadlock:
		script(deviateOrder)
		return truth(classInconsistent, one, causeDeadlock, causeOtherOp).comp("program", "").involving(), nil
	case DataStuck:
		script(deviateData)
		return truth(classNotEntered, one, causeNotCalled, causeStorage).comp("process", ""), nil
	case StorageStuck:
		script(deviateData)
		return truth(classNotEntered, one, causeStorage).comp("storage", ""), nil
	case SlowData:
		script(deviateSlowData)
		return truth(classSlowCompute, one, causeNotCalled, causeCPU, causeStorage, causeUnknown).or(classSlowMixed).comp("process", ""), nil
	case GlobalSlow:
		for q := range s.hw {
			s.limit(spans, f.Remaining, nil, &s.hw[q].gpu)
		}
		s.oddEverywhere(spans)
		return truth(classGlobalSlow, nil).comp("none", ""), nil
	case GlobalNetwork:
		for h := range s.nics {
			for n := range s.nics[h] {
				s.limit(spans, f.Remaining, nil, &s.nics[h][n].tx)
			}
		}
		s.oddEverywhere(spans)
		return truth(classGlobalSlow, nil).comp("none", ""), nil
	case ExpertImbalance:
		return s.unbalanceExpert(f)
	case StageImbalance:
		return s.unbalanceStage(f)
	}
	return Truth{}, fmt.Errorf("unknown kind %q", f.Kind)
}

// oddEverywhere notes that every rank has the same resource lowered in the spans. Where that is all that is wrong, and lasts,
// operations after it are alike, as those before it are.
func (s *sim) oddEverywhere(spans [][2]Time) {
	if len(s.cfg.Faults) == 1 && len(spans) == 1 && spans[0][1] >= s.end {
		s.changed = spans[0][0]
		return
	}
	for q := range s.hw {
		for _, w := range spans {
			s.odd([]int{q}, w[0], w[1])
		}
	}
}

// limit lowers resources to the remaining share in the spans; the ranks are those that use them.
func (s *sim) limit(spans [][2]Time, remaining float64, ranks []int, ps ...**profile) {
	s.wobble(spans, remaining, 0, ranks, ps...)
}

// wobble lowers resources to the remaining share on average, unsteadily.
func (s *sim) wobble(spans [][2]Time, remaining, by float64, ranks []int, ps ...**profile) {
	for _, w := range spans {
		for _, p := range ps {
			if *p == nil {
				*p = &profile{seed: random(s.cfg.Seed, forWobble, int64(w[0]), 1, 0)}
			}
			(*p).add(window{w[0], w[1], remaining, by})
		}
		s.odd(ranks, w[0], w[1])
	}
}

// odd notes that ranks differ from nominal in the span.
func (s *sim) odd(ranks []int, from, to Time) {
	for _, r := range ranks {
		hw := &s.hw[r]
		hw.oddFrom, hw.oddTo = min(hw.oddFrom, from), max(hw.oddTo, to)
	}
}

// onNIC lists the ranks that use rank's NIC.
func (s *sim) onNIC(rank int) []int {
	hw := &s.hw[rank]
	var out []int
	for _, q := range s.hosts[hw.host].ranks {
		if s.hw[q].nic == hw.nic {
			out = append(out, int(q))
		}
	}
	return out
}

// congest loads the path between two hosts.
func (s *sim) congest(f *Fault, spans [][2]Time) (Truth, error) {
	a, b := s.hw[f.Rank].host, s.hw[f.Peer].host
	if a == b {
		return Truth{}, fmt.Errorf("ranks %d and %d are on the same host: no network lies between them", f.Rank, f.Peer)
	}
	key := [2]int32{a, b}
	p := s.paths[key]
	var ranks []int
	for _, h := range []int32{a, b} {
		for _, q := range s.hosts[h].ranks {
			ranks = append(ranks, int(q))
		}
	}
	s.limit(spans, f.Remaining, ranks, &p)
	s.paths[key] = p
	return truth(classSlowComm, ranks, causeNetSend).comp("link", s.hosts[a].name+"->"+s.hosts[b].name), nil
}

func (s *sim) slotOf(f *Fault) (slot, error) {
	name := f.Slot
	if name == "" {
		name = "dp"
		if s.ranks[f.Rank].comms[slotDP].comm < 0 {
			name = "world"
		}
	}
	i := slices.Index(slotNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("unknown communicator %q", name)
	}
	return slot(i), nil
}

// unbalanceExpert gives one expert more than its share of tokens from an iteration on.
func (s *sim) unbalanceExpert(f *Fault) (Truth, error) {
	job := &s.cfg.Job
	if job.EP < 2 || f.Remaining <= 0 {
		return Truth{}, fmt.Errorf("needs experts and a remaining share, has EP %d and %g", job.EP, f.Remaining)
	}
	e := s.ranks[f.Rank].place.dp % job.EP
	s.uneven = append(s.uneven, unevenness{from: int32(f.FromIteration), expert: true, index: e, factor: 1 / f.Remaining}) //nolint:gosec // Small.
	return truth(classImbalance, nil, causeRouting).comp("experts", fmt.Sprintf("expert rank %d", e)), nil
}

// unbalanceStage makes one pipeline stage longer from an iteration on.
func (s *sim) unbalanceStage(f *Fault) (Truth, error) {
	job := &s.cfg.Job
	if job.PP < 2 || f.Remaining <= 0 {
		return Truth{}, fmt.Errorf("needs stages and a remaining share, has PP %d and %g", job.PP, f.Remaining)
	}
	stage := int(s.ranks[f.Rank].stage)
	s.uneven = append(s.uneven, unevenness{from: int32(f.FromIteration), index: stage, factor: 1 / f.Remaining}) //nolint:gosec // Small.
	return truth(classImbalance, nil, causeStage).comp("stage", fmt.Sprintf("stage %d", stage)), nil
}

// unevenness is more work for one expert or stage from an iteration on.
type unevenness struct {
	from   int32
	expert bool
	index  int
	factor float64
}

// extra is the factor of an expert's or a stage's work in an iteration.
func (s *sim) extra(iter int32, expert bool, index int) float64 {
	f := 1.0
	for _, u := range s.uneven {
		if u.expert == expert && u.index == index && iter >= u.from {
			f *= u.factor
		}
	}
	return f
}
