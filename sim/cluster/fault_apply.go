// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
)

// applyFault changes the resources that the fault touches and says what is true then.
func (s *sim) applyFault(f *Fault) (Truth, error) {
	spans := f.spans(s.end)
	switch f.Kind {
	case NICDown, LinkFlap, NICBandwidth, SwitchPortSlow:
		return s.applyToNIC(f, spans), nil
	case Congestion:
		return s.congest(f, spans)
	case CrossNUMA, PCIeDowngrade, PCIeContention, Misalignment, GPUThrottle, GPUError, ECCError, NVLinkError:
		return s.applyToGPU(f, spans), nil
	case CUDAError, ProcessKilled, ProcessStopped, NotEntered, ProxyDelay:
		return s.applyToProcess(f, spans), nil
	case BackgroundCompute, CPUContention, CPUThrottle, HostLost:
		return s.applyToHost(f, spans), nil
	default:
		return s.applyScript(f, spans)
	}
}

// applyToNIC applies a fault of the rank's NIC, which others may use as well.
func (s *sim) applyToNIC(f *Fault, spans [][2]Time) Truth {
	hw := &s.hw[f.Rank]
	nic, name, users := &s.nics[hw.host][hw.nic], nicName(hw.nic), s.onNIC(f.Rank)
	switch f.Kind {
	case NICDown:
		s.limit(spans, 0, users, &nic.tx, &nic.rx)
		return truth(classFault, users, causeNetSend, causeReceiver, causeGPU).comp("nic", name)
	case LinkFlap:
		end := s.end
		if f.For > 0 {
			end = min(end, At(f.At+f.For)-1)
		}
		for t := At(f.At); t <= end; t += seconds(1) {
			s.limit([][2]Time{{t, t + seconds(f.Remaining)}}, 0, users, &nic.tx, &nic.rx)
		}
	case SwitchPortSlow:
		s.limit(spans, f.Remaining, users, &nic.tx, &nic.rx)
		return truth(classSlowComm, users, causeNetSend).comp("switch", fmt.Sprintf("port of %s %s", s.hosts[hw.host].name, name))
	default:
		s.limit(spans, f.Remaining, users, &nic.tx)
	}
	return truth(classSlowComm, users, causeNetSend).comp("nic", name)
}

// applyToGPU applies a fault of the rank's GPU or of what connects it.
func (s *sim) applyToGPU(f *Fault, spans [][2]Time) Truth {
	hw, one := &s.hw[f.Rank], []int{f.Rank}
	switch f.Kind {
	case GPUThrottle:
		s.limit(spans, f.Remaining, one, &hw.gpu)
		return truth(classSlowCompute, one, causeGPU).comp("gpu", "")
	case GPUError, ECCError:
		s.limit(spans, 0, one, &hw.gpu)
		return truth(classFault, one, causeGPU, causeKernel).or(classNotEntered).comp("gpu", "")
	case NVLinkError:
		s.limit(spans, f.Remaining, one, &hw.nv)
		if f.Remaining > 0 {
			return truth(classSlowComm, one, causeGPU, causeUnknown).or(classSlowCompute, classSlowMixed).comp("nvlink", "")
		}
		return truth(classFault, one, causeGPU, causeKernel, causeUnknown).comp("nvlink", "")
	case CrossNUMA: // Pulse, D.2: the rate is not evenly lower, it fluctuates.
		s.wobble(spans, f.Remaining, 0.5, one, &hw.pcie)
	default:
		s.limit(spans, f.Remaining, one, &hw.pcie)
	}
	return truth(classSlowComm, one, causePCIe, causeNetSend).comp("pcie", "")
}

// applyToProcess applies a fault of one rank's process or of its threads.
func (s *sim) applyToProcess(f *Fault, spans [][2]Time) Truth {
	hw, one := &s.hw[f.Rank], []int{f.Rank}
	switch f.Kind {
	case ProcessStopped:
		s.limit(spans, 0, one, &hw.cpu, &hw.proxy)
		return truth(classNotEntered, one, causeStopped).or(classFault).comp("process", "")
	case NotEntered:
		s.limit(spans, 0, one, &hw.cpu)
		return truth(classNotEntered, one, causeNotCalled).comp("process", "")
	case ProxyDelay:
		for _, w := range spans {
			s.odd(one, w[0], w[1])
			hw.proxyDelay = append(hw.proxyDelay, proxyDelay{from: w[0], to: w[1], chance: 1 - f.Remaining, pause: At(f.Delay)})
		}
		return truth(classSlowComm, one, causeProxy, causeCPU).or(classSlowMixed).comp("process", "")
	default: // It is gone.
		s.limit(spans, 0, one, &hw.gpu, &hw.cpu, &hw.proxy)
		return truth(classNotEntered, one, causeGone).or(classFault).comp("process", "")
	}
}

// applyToHost applies a fault of all that is on the rank's host.
func (s *sim) applyToHost(f *Fault, spans [][2]Time) Truth {
	at := s.hw[f.Rank].host
	host := &s.hosts[at]
	all := make([]int, 0, len(host.ranks))
	for _, q := range host.ranks {
		all = append(all, int(q))
	}
	switch f.Kind {
	case BackgroundCompute:
		for _, q := range all {
			s.limit(spans, f.Remaining, []int{q}, &s.hw[q].gpu)
		}
		return truth(classSlowCompute, all, causeGPU).comp("host", host.name)
	case HostLost:
		host.lostAt = min(host.lostAt, At(f.At))
		for _, q := range all {
			h := &s.hw[q]
			s.limit(spans, 0, []int{q}, &h.gpu, &h.cpu, &h.proxy)
		}
		for i := range s.nics[at] {
			s.limit(spans, 0, nil, &s.nics[at][i].tx, &s.nics[at][i].rx)
		}
		return truth(classFault, all, causeHost, causeGone, causeNetSend).or(classNotEntered).comp("host", host.name)
	default: // The CPUs.
		for _, q := range all {
			s.limit(spans, f.Remaining, []int{q}, &s.hw[q].cpu, &s.hw[q].proxy)
			for _, w := range spans {
				s.hw[q].proxyDelay = append(s.hw[q].proxyDelay, proxyDelay{from: w[0], to: w[1], mean: At(f.Delay)})
			}
		}
		return truth(classSlowComm, all, causeCPU, causeProxy).or(classSlowCompute, classSlowMixed).comp("cpu", host.name)
	}
}

// applyScript applies the faults of the program and of the work's distribution.
func (s *sim) applyScript(f *Fault, spans [][2]Time) (Truth, error) {
	r, one := &s.ranks[f.Rank], []int{f.Rank}
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
	s.uneven = append(s.uneven, unevenness{from: int32(f.FromIteration), expert: true, index: e, factor: 1 / f.Remaining})
	return truth(classImbalance, nil, causeRouting).comp("experts", fmt.Sprintf("expert rank %d", e)), nil
}

// unbalanceStage makes one pipeline stage longer from an iteration on.
func (s *sim) unbalanceStage(f *Fault) (Truth, error) {
	job := &s.cfg.Job
	if job.PP < 2 || f.Remaining <= 0 {
		return Truth{}, fmt.Errorf("needs stages and a remaining share, has PP %d and %g", job.PP, f.Remaining)
	}
	stage := int(s.ranks[f.Rank].stage)
	s.uneven = append(s.uneven, unevenness{from: int32(f.FromIteration), index: stage, factor: 1 / f.Remaining})
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
