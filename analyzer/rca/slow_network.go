// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"slices"
	"time"
)

// What the parts of SendWait and RecvWait mean.
const (
	sendNet   = 2 // Sent, not acknowledged: the time a transfer was outstanding.
	recvFlush = 1 // Arrived, not given to the GPU.
	recvGPU   = 2 // Given to the GPU, not consumed.
)

// slowEnd is a rank whose transfers of one class take longer than its peers'.
type slowEnd struct {
	node  int32
	peer  int32   // Where its slowest flow goes, -1 unknown.
	segs  []int32 // Its segments of the class.
	times float64 // How many times longer than its peers'.
	ref   int64   // What its peers take, ns.
	total int64   // Beyond that, over the window, ns.
	lane  int
}

// network finds transfers that take longer than they should, and whose NIC, PCIe, proxy or path that is. What decides
// is the time a transfer was outstanding: waiting does not pollute it (Pulse's actual communication time, P5).
func (a *slowAnalysis) network() []finding {
	net, flush := a.slowEnds()
	all := a.replay.gain(change{transfer: a.idealTransfers(true, net, flush)})
	if all < leastGain {
		return nil
	}
	// What the slow ends explain, or, where their delays add up in a pipeline of steps, plainly dominate.
	g := a.replay.gain(change{transfer: a.idealTransfers(false, net, flush)})
	if g >= leastGain && g-1 >= 0.3*(all-1) || a.dominate(net) || a.dominate(flush) {
		if len(net) > 0 && sumTotal(net) >= sumTotal(flush) {
			if f, ok := a.locateNet(net, flush, all); ok {
				return []finding{f}
			}
		}
		if f, ok := a.locateProxy(flush, all); ok {
			return []finding{f}
		}
	}
	if f, ok := a.slowGroup(all); ok {
		return []finding{f}
	}
	return nil
}

func sumTotal(es []slowEnd) int64 {
	var sum int64
	for i := range es {
		sum += es[i].total
	}
	return sum
}

// dominate says that the worst of the slow ends takes several times what its peers take, and a good part of the window.
func (a *slowAnalysis) dominate(es []slowEnd) bool {
	return len(es) > 0 && es[0].times >= 3 && float64(es[0].total) >= 0.03*a.replay.base
}

// idealTransfers gives transfers what they take without the slow ends' extra time, and, if elsewhere, what they take
// elsewhere.
func (a *slowAnalysis) idealTransfers(elsewhere bool, ends ...[]slowEnd) func(*joint, int64) int64 {
	best := make(map[*joint]int64)
	lower := func(j *joint, to int64) {
		if old, ok := best[j]; to < j.transfer && (!ok || to < old) {
			best[j] = to
		}
	}
	for j := range a.jobs {
		if elsewhere {
			lower(&a.jobs[j], a.base.transfer[j])
		}
	}
	for _, es := range ends {
		for i := range es {
			e := &es[i]
			for _, g := range e.segs {
				s := &a.segs[g]
				over := max(int64(s.SendWait[sendNet]), int64(s.RecvWait[recvFlush])) - e.ref
				if j := &a.jobs[s.job]; over > 0 {
					lower(j, max(j.transfer/10, j.transfer-over))
				}
			}
		}
	}
	return func(j *joint, was int64) int64 {
		if i, ok := best[j]; ok {
			return min(was, i)
		}
		return was
	}
}

type endKey struct {
	class transferClass
	node  int32
	peer  int32
}

type endTimes struct {
	key        endKey
	net, flush []int64
	segs       []int32
	peers      map[int]int
	chans      map[int]int
}

// slowEnds compares every rank's outstanding and flush time with those of the others in the same class of transfer.
func (a *slowAnalysis) slowEnds() (net, flush []slowEnd) {
	at := map[endKey]int{}
	var ends []endTimes
	for i := range a.segs {
		s := &a.segs[i]
		if s.Kind != SegmentOp || s.SendWait == [3]time.Duration{} && s.RecvWait == [3]time.Duration{} {
			continue
		}
		j := &a.jobs[s.job]
		k := endKey{class: a.classOf(j), node: s.node, peer: -1}
		if j.p2p {
			k.peer = a.nodeOf(s.Peer)
			if direction(s.Func) < 0 {
				k.class.fn = -2 // Receives are compared with receives.
			}
		}
		e, ok := at[k]
		if !ok {
			e = len(ends)
			at[k] = e
			ends = append(ends, endTimes{key: k, peers: map[int]int{}, chans: map[int]int{}})
		}
		t := &ends[e]
		t.net = append(t.net, int64(s.SendWait[sendNet]))
		t.flush = append(t.flush, int64(s.RecvWait[recvFlush]))
		t.segs = append(t.segs, int32(i))
		t.peers[s.SlowestPeer]++
		if s.SlowestTime > 2*s.FastestTime && s.FastestTime > 0 {
			t.chans[s.SlowestChannel]++
		}
	}
	byClass := map[transferClass][]int{}
	var classes []transferClass
	for e := range ends {
		if byClass[ends[e].key.class] == nil {
			classes = append(classes, ends[e].key.class)
		}
		byClass[ends[e].key.class] = append(byClass[ends[e].key.class], e)
	}
	for _, c := range classes {
		net = append(net, a.outliers(ends, byClass[c], 1.4, func(t *endTimes) []int64 { return t.net })...)
		flush = append(flush, a.outliers(ends, byClass[c], 3, func(t *endTimes) []int64 { return t.flush })...)
	}
	return heaviest(net), heaviest(flush)
}

// heaviest drops what hardly matters beside the rest, and what is not of its kind: one cause slows all that it touches
// by a like factor. It sorts by what matters most.
func heaviest(es []slowEnd) []slowEnd {
	slices.SortFunc(es, func(x, y slowEnd) int {
		return cmp.Or(cmp.Compare(y.total, x.total), cmp.Compare(x.node, y.node), cmp.Compare(x.peer, y.peer))
	})
	if len(es) == 0 {
		return es
	}
	top := es[0]
	return slices.DeleteFunc(es, func(e slowEnd) bool { return e.total < top.total/10 || e.times-1 < 0.3*(top.times-1) })
}

// outliers gives the ends whose mean is more than factor times the others', and that take a noticeable part of the
// window.
func (a *slowAnalysis) outliers(ends []endTimes, ids []int, factor float64, of func(*endTimes) []int64) []slowEnd {
	means := make([]int64, len(ids))
	var sorted []int64
	for i, e := range ids {
		v := of(&ends[e])
		for _, d := range v {
			means[i] += d / int64(len(v))
		}
		if means[i] > 0 {
			sorted = append(sorted, means[i])
		}
	}
	slices.Sort(sorted)
	if len(sorted) < 2 {
		return nil
	}
	ref := sorted[(len(sorted)-1)/3] // A slow end shows at two ranks or more: the lower third is safe.
	var out []slowEnd
	for i, e := range ids {
		t := &ends[e]
		total := (means[i] - ref) * int64(len(t.segs))
		if float64(means[i]) < factor*float64(ref) || float64(total) < 0.005*a.replay.base {
			continue
		}
		se := slowEnd{node: t.key.node, peer: t.key.peer, segs: t.segs, times: float64(means[i]) / float64(ref), ref: ref, total: total, lane: -1}
		if se.peer < 0 {
			se.peer = a.commonPeer(t)
		}
		for ch, n := range t.chans {
			if 2*n > len(t.segs) {
				se.lane = ch
			}
		}
		out = append(out, se)
	}
	return out
}

// commonPeer gives the peer of the slowest flow, when it is mostly one.
func (a *slowAnalysis) commonPeer(t *endTimes) int32 {
	ci, ok := a.comOf[a.segs[t.segs[0]].Comm]
	if !ok {
		return -1
	}
	for p, n := range t.peers {
		if 2*n > len(t.segs) && p >= 0 && p < len(a.comms[ci].at) {
			return a.comms[ci].at[p]
		}
	}
	return -1
}
