// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// locateNet names the place that explains which flows are slow and which are not: the end of a rank, what the ranks of a
// host share, a path.
func (a *analysis) locateNet(groups []flowGroup, flush []slowEnd, gain float64) (finding, bool) {
	fs := a.newExplainer(groups).explain()
	if len(fs) == 0 || fs[0].fit < leastFit {
		return finding{}, false
	}
	best := &fs[0]
	if all := everywhere(fs); all != nil && len(best.nodes) != 1 && !a.anySick(best.nodes) {
		best = all
	}
	if best.all {
		if held, some := a.withoutSlack(groups); some {
			if fs = a.newExplainer(held).explain(); len(fs) == 0 || fs[0].fit < sureFit {
				return finding{}, false
			}
			best = &fs[0]
			if a.visitedRanks() < a.World && len(best.nodes) > 1 && sendsAll(groups, best.nodes) {
				return finding{}, false // Nobody else was seen to send: it may be everybody.
			}
		}
	}
	rival := rivalOf(fs)
	f := finding{class: rca.SlowComm, cause: rca.CauseNetworkSend, comm: -1, lane: -1, gain: gain, weight: fitWeight + fitSlope*best.fit, nodes: best.nodes, link: best.fit >= sureFit, times: best.factor}
	if rival != nil {
		f.ends = slices.Concat(best.nodes, rival.nodes)
	}
	silent, behind := a.silentBehind(groups)
	switch {
	case best.all:
		f.class, f.cause, f.nodes = rca.GlobalSlow, rca.CauseUnknown, nil
		f.what = fmt.Sprintf(words.AllTransfers, best.factor)
		return f, true
	case best.nodes == nil:
		return a.onPath(f, best, flush), true
	case best.link:
		return a.onWire(f, best, groups, flush), true
	case behind && !a.anySick(best.nodes):
		if !slices.ContainsFunc(best.nodes, func(n int32) bool { return !a.Nodes[n].Silent }) {
			silent = slowSenders(groups) // They are the place itself: the other end is who was seen.
		}
		return a.onLink(f, best, silent), true
	case rival != nil && rival.nodes == nil:
		return a.onPath(f, rival, flush), true
	case rival != nil && pathOf(fs, best) != nil:
		return a.onPath(f, pathOf(fs, best), flush), true
	case rival != nil && best.end == endSend && rival.end == endReceive:
		// One link, and only in one direction: its sender's wire, most likely.
		a.nameEnd(&f, best, groups, flush)
		f.weight = min(f.weight, twoEndsWeight)
		f.what += fmt.Sprintf(words.OrReceiver, words.RankNumbers(a.IDs(rival.nodes)))
		return f, true
	case rival != nil && rival.end == endSend && best.end == endReceive:
		a.nameEnd(&f, rival, groups, flush)
		f.nodes, f.weight = rival.nodes, min(f.weight, otherEndWeight)
		f.what += fmt.Sprintf(words.OrReceiver, words.RankNumbers(a.IDs(best.nodes)))
		return f, true
	case rival != nil:
		return a.onLink(f, best, rival.nodes), true
	}
	a.nameEnd(&f, best, groups, flush)
	return f, true
}

// onWire names the sender of a link that is slow in one direction only, while its other flows and the receiver's are as they should be:
// its wire, most likely. The receiver is named where only its own evidence speaks against it.
func (a *analysis) onWire(f finding, link *fitted, groups []flowGroup, flush []slowEnd) finding {
	from, to := link.nodes[:1], link.nodes[1:]
	one := *link
	one.link, one.nodes, one.end = false, from, endSend
	sick := a.anySick(to) && !a.anySick(from)
	if sick {
		one.nodes, one.end = to, endReceive
	}
	f.nodes = one.nodes
	a.nameEnd(&f, &one, groups, flush)
	if !sick {
		f.weight = min(f.weight, twoEndsWeight)
		f.what += fmt.Sprintf(words.OrReceiver, words.RankNumbers(a.IDs(to)))
	}
	return f
}

// onLink names two places between which nothing tells; without a rival the other one is whom nobody has seen.
func (a *analysis) onLink(f finding, best *fitted, rival []int32) finding {
	f.nodes, f.weight = nil, min(f.weight, twoEndsWeight)
	other := words.UnseenReceiver
	if len(rival) > 0 {
		other = words.RankNumbers(a.IDs(rival))
	}
	f.group = fmt.Sprintf(words.LinkBetween, words.RankNumbers(a.IDs(best.nodes)), other)
	f.what = fmt.Sprintf(words.LinkSlow, best.factor)
	return f
}

// silentBehind reports whether everything slow is sent to ranks that did not answer, too, and gives those that are known: they may hold
// it back and not tell.
func (a *analysis) silentBehind(groups []flowGroup) (known []int32, all bool) {
	for i := range groups {
		g := &groups[i]
		if !g.slow {
			continue
		}
		all = g.unseen
		for _, p := range g.peers {
			if a.Nodes[p.node].Silent {
				known, all = append(known, p.node), true
			}
		}
		if !all {
			return nil, false
		}
	}
	slices.Sort(known)
	return slices.Compact(known), all
}

func slowSenders(groups []flowGroup) []int32 {
	var out []int32
	for i := range groups {
		if groups[i].slow {
			out = append(out, groups[i].node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sendsAll says that all flows that were seen are of these ranks.
func sendsAll(groups []flowGroup, nodes []int32) bool {
	return !slices.ContainsFunc(groups, func(g flowGroup) bool { return !slices.Contains(nodes, g.node) })
}

// everywhere gives the explanation that every flow is slow, if it is as good as the best: between two hosts nothing
// tells one of them from both.
func everywhere(fs []fitted) *fitted {
	for i := range fs {
		if fs[i].all && fs[i].fit >= fs[0].fit-alikeFit {
			return &fs[i]
		}
	}
	return nil
}

func (a *analysis) anySick(nodes []int32) bool {
	return slices.ContainsFunc(nodes, func(n int32) bool { return a.endSick(n, nil) })
}

// rivalOf gives an explanation that is as good as the first and names others, nil none.
func rivalOf(fs []fitted) *fitted {
	for i := range fs[1:] {
		f := &fs[i+1]
		if f.score < fs[0].score-alikeFit {
			return nil
		}
		if f.all || fs[0].nodes == nil || f.nodes == nil && f.from == 1 && len(fs[0].nodes) == 1 {
			continue // A path that one rank alone is seen to use is that rank's.
		}
		if f.nodes == nil || !slices.ContainsFunc(f.nodes, func(n int32) bool { return slices.Contains(fs[0].nodes, n) }) {
			return f
		}
	}
	return nil
}

// pathOf gives the path that explains as much as the best place does, by what several ranks send on it: it is less that one path is
// slow than that several NICs at once are. nil none.
func pathOf(fs []fitted, best *fitted) *fitted {
	for i := range fs {
		if f := &fs[i]; f.nodes == nil && !f.all && f.from > 1 && len(best.nodes) > 1 && f.fit >= best.fit-alikeFit {
			return f
		}
	}
	return nil
}

// onPath names a path between two hosts, or those hosts' proxies where they hand on late.
func (a *analysis) onPath(f finding, p *fitted, flush []slowEnd) finding {
	elsewhere := func(e slowEnd) bool {
		h := a.Host(e.node)
		return h != p.path[0] && h != p.path[1]
	}
	if len(flush) > 0 && !slices.ContainsFunc(flush, elsewhere) {
		if g, ok := a.locateProxy(flush, f.gain); ok {
			return g
		}
	}
	f.nodes, f.weight = nil, min(f.weight, surePlace)
	f.group = "path " + p.path[0] + "->" + p.path[1]
	f.what = fmt.Sprintf(words.PathSlow, p.factor)
	return f
}

var (
	thirdPerson = map[end]string{endBoth: "sends and receives", endSend: "sends", endReceive: "receives"}
	plainVerb   = map[end]string{endBoth: "send and receive", endSend: "send", endReceive: "receive"}
)

// nameEnd says what is slow at the ranks found: the network, PCIe, or the thread that serves it.
func (a *analysis) nameEnd(f *finding, p *fitted, groups []flowGroup, flush []slowEnd) {
	for i := range groups {
		if g := &groups[i]; g.node == p.nodes[0] && g.slow {
			f.lane = max(f.lane, g.lane)
		}
	}
	whose := pick(len(p.nodes) == 1, "its", "their")
	f.what = fmt.Sprintf(words.EndSlow,
		pick(len(p.nodes) == 1, "it", "they"), pick(len(p.nodes) == 1, thirdPerson, plainVerb)[p.end], p.factor, whose)
	hosts := a.hostsOf(p.nodes)
	if countFunc(flush, func(e slowEnd) bool { return !slices.Contains(hosts, a.Host(e.node)) }) > 2*len(p.nodes) {
		flush = nil // Those who wait for one step at a time hand each on by itself: it comes with waiting.
	}
	pcie, late, cpu := 0, 0, 0
	for _, n := range p.nodes {
		if a.hasFact(n, "pcie") {
			pcie++
		}
		if a.starved(n, flush) {
			late++
		}
		if a.hasFact(n, "cpu") {
			cpu++
		}
	}
	switch {
	case 2*pcie > len(p.nodes):
		f.cause = rca.CausePCIe
	case 2*late > len(p.nodes):
		f.cause = pick(2*cpu > len(p.nodes), rca.CauseCPU, rca.CauseProxy)
		f.what = fmt.Sprintf(words.ProxyStarves, whose, p.factor, whose)
	}
}

// countFunc counts the elements of which something holds.
func countFunc[T any](v []T, is func(T) bool) (n int) {
	for _, e := range v {
		if is(e) {
			n++
		}
	}
	return n
}

// endSick says whether the node's own evidence, or its proxy's lateness, speaks against a rank.
func (a *analysis) endSick(n int32, flush []slowEnd) bool {
	return a.Ailing(n, job.NetAilment) || a.starved(n, flush)
}

// starved says that a rank's proxy thread is late in everything it does, not only in what the network answers.
func (a *analysis) starved(n int32, flush []slowEnd) bool {
	return slices.ContainsFunc(flush, func(e slowEnd) bool { return e.node == n }) || a.shortOfCPU(n) || a.ailing(n, "cpu")
}

func (a *analysis) hasFact(n int32, component string) bool {
	return a.Ailing(n, func(f *rca.Fact) bool { return f.Component == component })
}

// locateProxy: nothing is outstanding longer, but what has arrived is handed on late: the thread that does it starves.
func (a *analysis) locateProxy(flush []slowEnd, gain float64) (finding, bool) {
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
		class: rca.SlowComm, cause: rca.CauseProxy, comm: -1, lane: -1, gain: gain, weight: proxyWeight, nodes: nodes,
		what: words.ProxyLate,
	}
	if !a.lateAllOver(flush, nodes) {
		f.cause = rca.CausePCIe
		f.what = words.FlushLate
		return f, true
	}
	host, one := a.Host(nodes[0]), true
	for _, n := range nodes {
		one = one && a.Host(n) == host
	}
	if one && (len(nodes) > 1 || a.ailing(nodes[0], "cpu")) {
		f.cause = rca.CauseCPU
	}
	if !one {
		f.weight = severalHostsWeight
	}
	return f, true
}

// lateAllOver says that it is not the flush alone that takes long on these ranks: a thread that does not get to run is
// late to see the GPU take the data, too, whatever the operation.
func (a *analysis) lateAllOver(flush []slowEnd, nodes []int32) bool {
	for _, n := range nodes {
		if a.shortOfCPU(n) || a.ailing(n, "cpu") {
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
			late += int64(a.now.segs[g].RecvWait[recvFlush])
			taking += int64(a.now.segs[g].RecvWait[recvGPU])
		}
		if share := float64(taking) / float64(max(1, late)); least < 0 || share < least {
			least = share
		}
	}
	return least > takenLate
}

// startsUnseen says that the records come from calls, without kernels: an operation seems to begin when it is queued, so that
// neither what it takes nor who arrives late is known.
func (a *analysis) startsUnseen() bool {
	for n := range a.now.ranks {
		r := a.Nodes[n].Rank
		if len(a.now.ranks[n]) > 0 && r != nil && r.Caps&rca.SeesCalls != 0 && r.Caps&rca.SeesCompletion != 0 && r.Caps&rca.SeesKernels == 0 {
			return true
		}
	}
	return false
}

// slowGroup names the communicator or pair whose transfers take longer than their peers', when no end stands out.
func (a *analysis) slowGroup(gain float64) (finding, bool) {
	if len(a.base.slowComm) == 0 || a.startsUnseen() {
		return finding{}, false
	}
	slow := slices.Clone(a.base.slowComm)
	slices.SortStableFunc(slow, func(x, y slowComm) int {
		return cmp.Compare(y.excess(a)*float64(len(y.joints)), x.excess(a)*float64(len(x.joints)))
	})
	// What all that matter have in common.
	common := slices.Clone(slow[0].nodes)
	for _, s := range slow[1:] {
		if s.excess(a)*float64(len(s.joints)) < mattersFrom*slow[0].excess(a)*float64(len(slow[0].joints)) {
			continue
		}
		if both := intersect(common, s.nodes); len(both) > 0 {
			common = both
		}
	}
	f := finding{class: rca.SlowComm, cause: rca.CauseUnknown, comm: -1, lane: -1, gain: gain, weight: groupWeight}
	s := &a.now.segs[a.now.jobs[slow[0].joints[0]].parts[0]]
	if ci, ok := s.in(); ok {
		f.comm = ci
	}
	host, one := a.Host(common[0]), true
	for _, n := range common {
		one = one && a.Host(n) == host
	}
	f.what = fmt.Sprintf(words.GroupSlow, slow[0].ratio)
	sick := a.onlyAiling(common)
	if sick >= 0 && gain >= leastOnset {
		f.nodes, f.weight, f.cause = []int32{sick}, sickMemberWeight, rca.CauseGPU
		return f, true
	}
	if 2*len(common) > a.visitedRanks() && gain < a.Opt.IrregularFactor || a.waitsSeen(&slow[0]) && slow[0].ratio < noisyRatio {
		return f, false // Everybody's and not much, or seen inside without any end standing out: the noise of a network.
	}
	switch {
	case 2*len(common) > a.visitedRanks() && len(common) > 2:
		f.class, f.weight = rca.GlobalSlow, severalHostsWeight
		f.what = fmt.Sprintf(words.MostSlow, slow[0].ratio)
	case len(common) == 1:
		f.nodes, f.weight = common, commonWeight
	case one && host != "":
		f.group, f.cause = fmt.Sprintf("%s on %s", words.RankNumbers(a.IDs(common)), host), rca.CauseGPU
	default:
		f.group = words.RankNumbers(a.IDs(common))
	}
	return f, true
}

// waitsSeen says that the flows of the slow transfers were seen.
func (a *analysis) waitsSeen(s *slowComm) bool {
	for _, p := range a.now.jobs[s.joints[0]].parts {
		if a.now.segs[p].SendWait != [3]time.Duration{} || a.now.segs[p].RecvWait != [3]time.Duration{} {
			return true
		}
	}
	return false
}

// onlyAiling gives the one of the ranks whose GPU or NVLink shows an error, -1 none or several. A low clock slows
// computation, not transfers.
func (a *analysis) onlyAiling(ns []int32) int32 {
	sick := int32(-1)
	for _, n := range ns {
		if a.Ailing(n, job.GPUAilment) {
			if sick >= 0 {
				return -1
			}
			sick = n
		}
	}
	return sick
}

func (s *slowComm) excess(a *analysis) float64 {
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
