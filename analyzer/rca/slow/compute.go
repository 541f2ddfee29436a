// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// over gives each rank's mean own work beyond its peers', as a share of an iteration; ranks without work are left out.
func (a *analysis) over() map[int32]float64 {
	out := map[int32]float64{}
	for n := range a.Nodes {
		e := a.base.excess[n]
		if e == nil || a.iterTime == 0 {
			continue
		}
		sum := int64(0)
		for _, d := range e {
			sum += d
		}
		out[int32(n)] = float64(sum) / float64(max(1, a.now.iters)) / a.iterTime
	}
	return out
}

// suspects are ranks whose own work stands out.
type suspects struct {
	nodes  []int32 // The worst first.
	share  float64 // What the worst's takes longer, as a share of an iteration.
	times  float64 // By what factor the worst's has grown; 0 where it is compared with peers.
	gain   float64
	weight float64
	mode   string
}

func againstPeers(a *analysis) *suspects { return a.beyondPeers() }
func againstPast(a *analysis) *suspects  { return a.beyondPast() }

// finding gives what all findings about the suspects share; the row adds the accused or the group.
func (s *suspects) finding(what string) finding {
	return finding{gain: s.gain, weight: s.weight, mode: s.mode, what: what, lane: -1}
}

// heavyRanks finds ranks whose own work takes longer than their peers', iteration after iteration or now and then; nil none.
func (a *analysis) heavyRanks() *suspects {
	share := a.over()
	mid, spread := center(slices.Collect(maps.Values(share)))
	along := alongFrom
	if a.startsUnseen() {
		spread, along = min(spread, a.unsteady()), alongUnseenFrom
	}
	limit := max(heavyShare, heavySpreads*spread)
	var heavy []int32
	for n, d := range share {
		if d-mid > limit && d > 0 && !a.bothWays(n) {
			heavy = append(heavy, n)
		}
	}
	if len(heavy) == 0 || 2*len(heavy) > len(share) {
		return nil
	}
	slices.SortFunc(heavy, func(x, y int32) int { return cmp.Or(cmp.Compare(share[y], share[x]), cmp.Compare(x, y)) })
	// Those far below the worst came along with it.
	heavy = slices.DeleteFunc(heavy, func(n int32) bool { return share[n] < along*share[heavy[0]] })
	late := func(n int32) bool { return a.base.hostPart[n] > mostlyHost }
	if a.startsUnseen() && len(a.hostsOf(heavy)) == 1 && slices.ContainsFunc(heavy, late) { // Inside a host, the others wait for those that call late.
		heavy = slices.DeleteFunc(heavy, func(n int32) bool { return !late(n) })
	}
	s := &suspects{nodes: heavy, share: share[heavy[0]], gain: a.idealise(heavy), weight: heavyWeight}
	if least := a.leastGainOf(s.share); s.gain < least {
		s.gain, s.weight = least, pick(a.past == nil, heavyAlwaysWeight, heavyGrownWeight)
	}
	if s.gain < leastGain {
		return nil
	}
	s.mode = a.modeOf(heavy)
	return s
}

// stageBeyondPeers finds that all ranks of a stage take longer, on several hosts.
func (a *analysis) stageBeyondPeers(s *suspects) (finding, bool) {
	f := s.finding(fmt.Sprintf(words.StageComputes, 100*s.share))
	st := a.allReplicas(s.nodes)
	if st == nil {
		return f, false
	}
	f.group = stageName(st, a.IDs(st.nodes))
	return f, true
}

// rankBeyondPeers finds ranks that compute longer, or call later, than ranks that do the same work.
func (a *analysis) rankBeyondPeers(s *suspects) (finding, bool) {
	f := s.finding("")
	f.nodes, f.against = slices.Sorted(slices.Values(s.nodes)), (*analysis).comparePeers
	f.cause, f.what = a.whyHeavy(s.nodes, s.share)
	if len(a.peersOf(s.nodes[0])) == 0 {
		f.weight = noPeersWeight
		f.what += words.NoPeers
	}
	if a.startsUnseen() {
		f.weight = min(f.weight, startsUnseenFactor)
	}
	return f, (!a.startsUnseen() || a.believable(f.nodes)) && !a.acrossStages(f.nodes)
}

// acrossStages reports whether ranks of a pipeline's stages were compared with ranks of other stages alone: these do other work. Others of
// their own stage would tell, and a search asks for them first (unseenReplicas); whole stages on several hosts are no machine's fault.
func (a *analysis) acrossStages(nodes []int32) bool {
	replicas, peers := a.replicasOf(nodes), a.peersOf(nodes[0])
	others := len(replicas) > len(nodes) || !a.Ev.Partial && len(a.unseenReplicas(nodes)) > 0 || a.pipelined() && len(a.hostsOf(nodes)) > 1
	return others && len(peers) > 0 && !slices.ContainsFunc(replicas, func(n int32) bool { return !slices.Contains(nodes, n) && slices.Contains(peers, n) })
}

// unsteady is how far ranks' own work beyond their peers' differs from one iteration to the next, as a share of an iteration. Where kernels
// are not seen whole groups of ranks are late with one of them, so that ranks differ much from each other: what counts is that each
// is late time and again.
func (a *analysis) unsteady() float64 {
	var each []float64
	for _, n := range a.withWork() {
		series := make([]float64, 0, len(a.base.excess[n]))
		for _, d := range a.base.excess[n] {
			series = append(series, float64(d)/a.iterTime)
		}
		_, spread := center(series)
		each = append(each, spread)
	}
	typical, _ := center(each)
	return typical
}

// bothWays reports whether a rank's own work falls short of its peers' about as much in some iterations as it exceeds it in others: what its
// mean shows beyond them is chance, as uneven data has it. A machine that is slow now and then is never the quicker for it.
func (a *analysis) bothWays(n int32) bool {
	var more, less int64
	for _, e := range a.base.excess[n] {
		more, less = more+max(0, e), less+max(0, -e)
	}
	return float64(less) > chanceShare*float64(more)
}

// idealise gives the gain when the ranks' own work takes what their peers' takes.
func (a *analysis) idealise(heavy []int32) float64 {
	in := a.among(heavy)
	return a.replay.gain(change{gap: atMost(a.base.gap, in), body: atMost(a.base.body, in)})
}

// atMost makes ideal what ranks' segments take longer than their peers'.
func atMost(peers []int64, in func(*seg) bool) func(*seg, int64) int64 {
	return func(s *seg, was int64) int64 {
		if in(s) {
			return min(was, peers[s.id])
		}
		return was
	}
}

// among tells the segments of some ranks.
func (a *analysis) among(nodes []int32) func(*seg) bool {
	in := make([]bool, len(a.Nodes))
	for _, n := range nodes {
		in[n] = true
	}
	return func(s *seg) bool { return in[s.node] }
}

// whyHeavy tells the GPU from the host: is the extra time before the call comes, or after?
func (a *analysis) whyHeavy(heavy []int32, share float64) (rca.Cause, string) {
	host := 0.0
	for _, n := range heavy {
		host += a.base.hostPart[n] / float64(len(heavy))
	}
	own := fmt.Sprintf(pick(len(heavy) > 1, words.Compute, words.Computes), 100*share)
	switch c := a.factCause(heavy); {
	case c != rca.CauseUnknown:
		return c, own
	case host > mostlyHost:
		return rca.CauseCPU, own + words.HostCallsLate
	}
	return rca.CauseGPU, own
}

// slowParts are the components that can slow computation, the likeliest first.
var slowParts = []struct {
	component string
	cause     rca.Cause
}{{"gpu", rca.CauseGPU}, {"cpu", rca.CauseCPU}, {"storage", rca.CauseStorage}}

// factCause reads what sets the ranks' hosts apart (X2). What it says of a rank counts before what it says of its
// host: the CPUs of most hosts are busy at some time.
func (a *analysis) factCause(ns []int32) rca.Cause {
	best := 2 * len(slowParts)
	for i := range a.Apart {
		f := &a.Apart[i]
		for _, n := range ns {
			r := a.Nodes[n].Rank
			if f.Rank != a.Nodes[n].ID && (f.Rank >= 0 || r == nil || r.Host != f.Host) {
				continue
			}
			for p := range slowParts {
				if slowParts[p].component == f.Component {
					best = min(best, pick(f.Rank < 0, p+len(slowParts), p))
				}
			}
		}
	}
	if best == 2*len(slowParts) {
		return rca.CauseUnknown
	}
	return slowParts[best%len(slowParts)].cause
}

// modeOf tells persistent degradation from fluctuation and spikes (H7).
func (a *analysis) modeOf(heavy []int32) string {
	hit := 0
	for i := range a.now.iters {
		sum := int64(0)
		for _, n := range heavy {
			sum += a.base.excess[n][i]
		}
		if float64(sum)/float64(len(heavy)) > heavyShare*a.iterTime {
			hit++
		}
	}
	switch s := float64(hit) / float64(max(1, a.now.iters)); {
	case s >= persistentFrom:
		return words.NearlyAlways
	case s >= fluctuatesFrom:
		return fmt.Sprintf(words.InSome, hit, a.now.iters)
	}
	return fmt.Sprintf(words.InSpikes, hit, a.now.iters)
}

// peersOf gives the other ranks of a rank's role.
func (a *analysis) peersOf(n int32) []int32 {
	var out []int32
	for m := range a.now.role {
		if a.now.role[m] == a.now.role[n] && int32(m) != n {
			out = append(out, int32(m))
		}
	}
	return out
}

// experts finds that the suspects receive most of an uneven exchange: experts with more tokens, not bad machines.
func (a *analysis) experts(s *suspects) (finding, bool) {
	if !a.sentMore(s.nodes) {
		return finding{}, false
	}
	f := finding{gain: a.idealise(s.nodes), weight: routingWeight, group: "experts on " + words.RankNumbers(a.IDs(s.nodes)), what: words.MoreTokens, lane: -1}
	if s.times > 0 {
		f.gain = max(f.gain, s.gain)
	}
	return f, true
}

// sentMore reports whether ranks get more of an uneven exchange than others.
func (a *analysis) sentMore(nodes []int32) bool {
	bytes := make([]float64, len(a.Nodes))
	var all []float64
	for n := range a.now.ranks {
		for _, i := range a.now.ranks[n] {
			s := &a.now.segs[i]
			if s.compute || s.bytes <= 0 {
				continue
			}
			ci, ok := s.in()
			if job.UnevenSizes(a.now.FuncNames[s.fn]) || ok && a.now.exchange[ci] && s.dir < 0 {
				bytes[n] += float64(s.bytes)
			}
		}
		if bytes[n] > 0 {
			all = append(all, bytes[n])
		}
	}
	mid, _ := center(all)
	return len(all) > 0 && !slices.ContainsFunc(nodes, func(n int32) bool { return bytes[n] < moreTokens*mid })
}

// rotating finds that the heaviest rank changes from iteration to iteration: the data is uneven, and no machine is bad. It is no rotation
// where ranks that are heavy all the time, such as all ranks of one host, account for most of it.
func (a *analysis) rotating() (finding, bool) {
	constant := 1.0 // What the removal of the constant offenders gains.
	if s := a.beyondPeers(); s != nil {
		constant = s.gain
	}
	g := a.idealise(a.withWork())
	if g < leastScatter*constant || a.now.iters < 4 {
		return finding{}, false
	}
	tops := map[int32]int64{}
	var sum int64
	for i := range a.now.iters {
		top, most := int32(-1), int64(0)
		for n := range a.Nodes {
			if e := a.base.excess[n]; e != nil && e[i] > most {
				top, most = int32(n), e[i]
			}
		}
		if top >= 0 {
			tops[top] += most
			sum += most
		}
	}
	if sum == 0 || len(tops) < 3 {
		return finding{}, false
	}
	for _, d := range tops {
		if float64(d) > oneOfRotating*float64(sum) {
			return finding{}, false
		}
	}
	return finding{
		weight: rotatingWeight, gain: g, lane: -1,
		group: "uneven data", what: fmt.Sprintf(words.SlowestChanges, len(tops), a.now.iters),
	}, true
}

// computeAlike gives the factor by which every rank's own work has grown; false where they have not grown by about the same.
func (a *analysis) computeAlike() (times float64, ok bool) {
	before, after := ownWorkOf(a.past), ownWorkOf(a.now)
	times, even := a.evenly(before, after)
	return times, even && times >= leastEven && a.fitsOnset(before, after)
}

// throttledGPU finds that one GPU alone runs at a lower clock. Where nothing shows when ranks begin to communicate, its computing longer
// looks like longer transfers of all: they go in lockstep, and wait for it.
func (a *analysis) throttledGPU() (finding, bool) {
	n := a.OnlyAiling(a.withWork(), job.ThrottledGPU)
	f := finding{nodes: []int32{n}, gain: a.onset, weight: throttledWeight, what: fmt.Sprintf(words.ThrottledGPU, a.onset), assumed: true, lane: -1}
	return f, n >= 0
}

// ailingHost finds that all ranks are on one host whose node reports a reason. A host that is all that was seen of a job is not all of it:
// the others may have become slower alike.
func (a *analysis) ailingHost() (finding, bool) {
	times, ok := a.computeAlike()
	nodes := a.withWork()
	f := finding{nodes: nodes, gain: a.onset, weight: evenHostWeight, what: fmt.Sprintf(words.HostComputes, times), lane: -1}
	f.cause = a.factCause(nodes)
	return f, ok && a.visitedRanks() >= a.World && a.oneHostAiling(nodes)
}

func (a *analysis) allCompute() (finding, bool) {
	times, ok := a.computeAlike()
	return finding{gain: a.onset, weight: evenWeight, what: fmt.Sprintf(words.AllCompute, times), lane: -1}, ok
}

func (a *analysis) allSend() (finding, bool) {
	times, even := a.evenly(sendTimeOf(a.past), sendTimeOf(a.now))
	return finding{gain: a.onset, weight: evenWeight, what: fmt.Sprintf(words.AllTransfers, times), lane: -1}, even && times >= leastEvenSends && !a.networkHasSlack()
}

func (a *analysis) allSlower() (finding, bool) {
	return finding{gain: a.onset, weight: globalWeight, what: fmt.Sprintf(words.AllSlower, a.onset), lane: -1}, true
}

// fitsOnset reports whether own work has not grown by more than the iterations have: else it was not seen whole before.
func (a *analysis) fitsOnset(before, after []float64) bool {
	var more []float64
	for n := range before {
		if before[n] > 0 && after[n] > 0 {
			more = append(more, after[n]-before[n])
		}
	}
	usual, _ := center(more)
	return usual <= onsetRoom*a.iterTime*(1-1/a.onset)
}

// withWork lists the ranks that were seen at work.
func (a *analysis) withWork() []int32 {
	var out []int32
	for n, list := range a.now.ranks {
		if len(list) > 0 {
			out = append(out, int32(n))
		}
	}
	return out
}

// evenly compares what each rank took before and after: the median ratio, and whether nearly all ranks share it.
func (a *analysis) evenly(before, after []float64) (ratio float64, even bool) {
	var rs []float64
	most := slices.Max(before)
	for n := range before {
		if before[n] > most/20 && after[n] > 0 {
			rs = append(rs, after[n]/before[n])
		}
	}
	if len(rs) < 2 {
		return 1, false
	}
	ratio, _ = center(rs)
	alike := countFunc(rs, func(r float64) bool { return (r-1) > evenLow*(ratio-1) && (r-1) < evenHigh*(ratio-1) })
	return ratio, float64(alike) >= nearlyAll*float64(len(rs))
}

// ownWorkOf gives each rank's own work per iteration, ns.
func ownWorkOf(t *timeline) []float64 {
	return t.perIteration(func(s *seg) int64 {
		switch {
		case s.pred < 0 || s.also:
			return 0
		case s.compute:
			return s.gap + s.stay
		}
		return s.gap
	})
}

// sendTimeOf gives the time each rank's sends were outstanding per iteration, ns.
func sendTimeOf(t *timeline) []float64 {
	return t.perIteration(func(s *seg) int64 { return int64(s.record.SendWait[sendNet]) })
}

// perIteration adds up something over each rank's work and divides by the number of iterations that the rank was seen in:
// histories of ranks need not go back equally far.
func (t *timeline) perIteration(value func(*seg) int64) []float64 {
	out := make([]float64, len(t.Nodes))
	for n, list := range t.ranks {
		iters, last, sum := 0, int32(noIteration), int64(0)
		for _, i := range list {
			s := &t.segs[i]
			if s.iter == noIteration {
				continue
			}
			if s.iter > last {
				last = s.iter
				iters++
			}
			sum += value(s)
		}
		out[n] = float64(sum) / float64(max(1, iters))
	}
	return out
}
