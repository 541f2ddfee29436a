// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
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

// locateNet names what all slow transfers share: an end, the ranks of one host, or a path.
func (a *slowAnalysis) locateNet(net, flush []slowEnd, gain float64) (finding, bool) {
	score := map[int32]int64{}
	var total int64
	for i := range net {
		e := &net[i]
		total += e.total
		score[e.node] += e.total
		if e.peer >= 0 && e.peer != e.node {
			score[e.peer] += e.total * 9 / 10
		}
	}
	best := int32(-1)
	for n, s := range score {
		if best < 0 || s > score[best] || s == score[best] && n < best {
			best = n
		}
	}
	f := finding{class: SlowComm, cause: CauseNetworkSend, comm: -1, lane: -1, gain: gain, weight: 0.85, nodes: []int32{best}}
	worst := 1.0
	for i := range net {
		worst = max(worst, net[i].times)
		if net[i].node == best {
			f.lane = max(f.lane, net[i].lane)
		}
	}
	f.what = fmt.Sprintf("its transfers are outstanding %.1f times as long as those of its peers: NIC, link or PCIe", worst)
	if float64(score[best]) < 0.8*float64(total) {
		return a.locatePath(net, flush, gain, worst)
	}
	if other := rivalOf(net, best); other >= 0 && float64(score[other]) >= 0.85*float64(score[best]) {
		// One link alone: its two ends are told apart by their nodes' evidence or by their proxies. Failing that it is
		// its sender's, with less confidence.
		mine, theirs := a.endSick(best, flush), a.endSick(other, flush)
		switch {
		case theirs && !mine:
			best = other
		case mine == theirs:
			best = net[0].node
			f.weight = 0.6
			if net[0].peer >= 0 {
				f.what = fmt.Sprintf("what it sends to %s is outstanding %.1f times as long as elsewhere: its NIC, the link, or the receiving end", a.rankName(net[0].peer), worst)
			}
		}
		f.nodes = []int32{best}
	}
	switch {
	case a.hasFact(best, "pcie"):
		f.cause = CausePCIe
	case a.starved(best, flush):
		f.cause = pick(a.hasFact(best, "cpu"), CauseCPU, CauseProxy)
		f.what = fmt.Sprintf("its transfers are outstanding %.1f times as long as those of its peers and what arrives is handed on late: its proxy thread does not get to run", worst)
	}
	return f, true
}

// rivalOf gives the other end when all slow transfers of a rank go to one, else -1.
func rivalOf(net []slowEnd, n int32) int32 {
	other := int32(-1)
	for i := range net {
		e := &net[i]
		o := e.peer
		if e.node != n {
			o = e.node
		}
		if o < 0 || other >= 0 && o != other {
			return -1
		}
		other = o
	}
	return other
}

// endSick says whether the node's own evidence, or its proxy's lateness, speaks against a rank.
func (a *slowAnalysis) endSick(n int32, flush []slowEnd) bool {
	return a.ailing(n, netAilment) || a.starved(n, flush)
}

// starved says that a rank's proxy thread is late in everything it does, not only in what the network answers.
func (a *slowAnalysis) starved(n int32, flush []slowEnd) bool {
	r := a.nodes[n].rank
	return slices.ContainsFunc(flush, func(e slowEnd) bool { return e.node == n }) || r != nil && r.ProxyRunDelay > 0.2 || a.hasFact(n, "cpu")
}

func (a *slowAnalysis) hasFact(n int32, component string) bool {
	return a.ailing(n, func(f *Fact) bool { return f.Component == component })
}

// locatePath: the slow transfers share no rank. They may share a host, or a pair of hosts.
func (a *slowAnalysis) locatePath(net, flush []slowEnd, gain, worst float64) (finding, bool) {
	hosts := map[string]int64{}
	pairs := map[[2]string]int64{}
	var total int64
	byHost := map[string][]int32{}
	for i := range net {
		e := &net[i]
		w := e.total
		total += w
		h := a.host(e.node)
		hosts[h] += w
		byHost[h] = append(byHost[h], e.node)
		if e.peer >= 0 {
			p := a.host(e.peer)
			pairs[[2]string{h, p}] += w
			if p != h {
				hosts[p] += w * 9 / 10
				byHost[p] = append(byHost[p], e.peer)
			}
		}
	}
	bestHost := ""
	for h, w := range hosts {
		if bestHost == "" || w > hosts[bestHost] || w == hosts[bestHost] && h < bestHost {
			bestHost = h
		}
	}
	var bestPair [2]string
	for p, w := range pairs {
		if w > pairs[bestPair] || w == pairs[bestPair] && (p[0] < bestPair[0] || p[0] == bestPair[0] && p[1] < bestPair[1]) {
			bestPair = p
		}
	}
	f := finding{class: SlowComm, cause: CauseNetworkSend, comm: -1, lane: -1, gain: gain, weight: 0.7}
	for i := range flush {
		if a.host(flush[i].node) == bestHost && float64(hosts[bestHost]) >= 0.8*float64(total) {
			return a.locateProxy(flush, gain)
		}
	}
	switch {
	case float64(pairs[bestPair]) >= 0.8*float64(total) && bestPair[0] != bestPair[1]:
		f.group = "path " + bestPair[0] + "->" + bestPair[1]
		f.what = fmt.Sprintf("transfers on it are outstanding %.1f times as long as elsewhere", worst)
		return f, true
	case float64(hosts[bestHost]) >= 0.8*float64(total):
		ns := byHost[bestHost]
		slices.Sort(ns)
		f.nodes = slices.Compact(ns)
		f.what = fmt.Sprintf("transfers of this host are outstanding up to %.1f times as long as elsewhere", worst)
		return f, true
	}
	f.group, f.weight = "network", 0.5
	f.what = fmt.Sprintf("transfers of %s are outstanding up to %.1f times as long as the others'", plural(len(net), "rank"), worst)
	return f, true
}

// locateProxy: nothing is outstanding longer, but what has arrived is handed on late: the thread that does it starves.
func (a *slowAnalysis) locateProxy(flush []slowEnd, gain float64) (finding, bool) {
	if len(flush) == 0 {
		return finding{}, false
	}
	var nodes []int32
	for _, e := range flush {
		if e.total*3 >= flush[0].total {
			nodes = append(nodes, e.node)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	f := finding{
		class: SlowComm, cause: CauseProxy, comm: -1, lane: -1, gain: gain, weight: 0.75, nodes: nodes,
		what: "transfers are outstanding no longer than elsewhere, yet data is handed on late: the proxy thread does not get to run",
	}
	if !a.lateAllOver(flush, nodes) {
		f.cause = CausePCIe
		f.what = "transfers are outstanding no longer than elsewhere, yet what has arrived takes long to reach the GPU: PCIe between NIC and GPU"
		return f, true
	}
	host, one := a.host(nodes[0]), true
	for _, n := range nodes {
		one = one && a.host(n) == host
	}
	if one && (len(nodes) > 1 || a.hasFact(nodes[0], "cpu")) {
		f.cause = CauseCPU
	}
	if !one {
		f.weight = 0.4
	}
	return f, true
}

// lateAllOver says that it is not the flush alone that takes long on these ranks: a thread that does not get to run is
// late to see the GPU take the data, too, whatever the operation.
func (a *slowAnalysis) lateAllOver(flush []slowEnd, nodes []int32) bool {
	for _, n := range nodes {
		if r := a.nodes[n].rank; r != nil && r.ProxyRunDelay > 0.2 || a.hasFact(n, "cpu") {
			return true
		}
		if a.hasFact(n, "pcie") {
			return false
		}
	}
	least := -1.0
	for i := range flush {
		var late, taking int64
		for _, g := range flush[i].segs {
			late += int64(a.segs[g].RecvWait[recvFlush])
			taking += int64(a.segs[g].RecvWait[recvGPU])
		}
		if share := float64(taking) / float64(max(1, late)); least < 0 || share < least {
			least = share
		}
	}
	return least > 0.4
}

// slowGroup names the communicator or pair whose transfers take longer than their peers', when no end stands out.
func (a *slowAnalysis) slowGroup(gain float64) (finding, bool) {
	if len(a.base.slowComm) == 0 {
		return finding{}, false
	}
	slow := slices.Clone(a.base.slowComm)
	slices.SortStableFunc(slow, func(x, y slowComm) int {
		return cmp.Compare(y.excess(a)*float64(len(y.joints)), x.excess(a)*float64(len(x.joints)))
	})
	// What all that matter have in common.
	common := slices.Clone(slow[0].nodes)
	for _, s := range slow[1:] {
		if s.excess(a)*float64(len(s.joints)) < 0.3*slow[0].excess(a)*float64(len(slow[0].joints)) {
			continue
		}
		if both := intersect(common, s.nodes); len(both) > 0 {
			common = both
		}
	}
	f := finding{class: SlowComm, cause: CauseUnknown, comm: -1, lane: -1, gain: gain, weight: 0.5}
	s := &a.segs[a.jobs[slow[0].joints[0]].parts[0]]
	if ci, ok := a.comOf[s.Comm]; ok {
		f.comm = ci
	}
	host, one := a.host(common[0]), true
	for _, n := range common {
		one = one && a.host(n) == host
	}
	f.what = fmt.Sprintf("transfers take %.2f times as long as their peers', and arrivals are normal", slow[0].ratio)
	if 2*len(common) > a.visitedRanks() && gain < a.opt.IrregularFactor || a.waitsSeen(&slow[0]) && slow[0].ratio < 1.5 {
		return f, false // Everybody's and not much, or seen inside without any end standing out: the noise of a network.
	}
	switch {
	case len(common) == 1:
		f.nodes, f.weight = common, 0.65
	case one && host != "":
		f.group, f.cause = fmt.Sprintf("%s on %s", rankNumbers(a.ids(common)), host), CauseGPU
		if sick := a.onlyAiling(common); sick >= 0 {
			f.nodes, f.weight = []int32{sick}, 0.8
		}
	default:
		f.group = rankNumbers(a.ids(common))
	}
	return f, true
}

// waitsSeen says that the flows of the slow transfers were seen.
func (a *slowAnalysis) waitsSeen(s *slowComm) bool {
	for _, p := range a.jobs[s.joints[0]].parts {
		if a.segs[p].SendWait != [3]time.Duration{} || a.segs[p].RecvWait != [3]time.Duration{} {
			return true
		}
	}
	return false
}

// onlyAiling gives the one of the ranks whose node shows a GPU's ailment, -1 none or several.
func (a *slowAnalysis) onlyAiling(ns []int32) int32 {
	sick := int32(-1)
	for _, n := range ns {
		if a.ailing(n, func(f *Fact) bool { return f.Component == "gpu" || f.Component == "nvlink" }) {
			if sick >= 0 {
				return -1
			}
			sick = n
		}
	}
	return sick
}

func (s *slowComm) excess(a *slowAnalysis) float64 {
	j := s.joints[0]
	return (s.ratio - 1) * float64(max(1, a.base.transfer[j]))
}

func intersect(a, b []int32) []int32 {
	var out []int32
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
