// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

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
