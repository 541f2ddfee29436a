// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// flowGroup is the sends of one rank in operations of one class: the smallest part of the network that finished work
// shows. Between the same two ranks in send/recv it is one link, in a ring as well; in a tree it is several.
type flowGroup struct {
	key   transferKey // Its sender; the receiver for send/recv only.
	node  int32
	peers []peerShare
	segs  []int32
	now   float64 // Mean time an operation's sends were outstanding, ns.
	ref   float64 // The same of its own healthy past or, failing that, of its peers.
	ratio float64
	// weight falls where an operation is so short that latency is most of it.
	weight float64
	lane   int // The one slow channel, -1 none.
	slow   bool
	unseen []int32 // Members of its communicator that some of its flows go to and that are not known, by their ranks in it; not more than two.
}

// peerShare is the part of a rank's flows that goes to one other.
type peerShare struct {
	node  int32
	share float64
}

// flowGroups gives the flows seen to send, with what they take now and should take.
func (a *analysis) flowGroups() []flowGroup {
	groups := a.now.gatherFlows()
	past := map[transferKey]float64{}
	if a.past != nil {
		for _, g := range a.past.gatherFlows() {
			past[g.key] = g.now
		}
	}
	byClass := map[flowClass][]float64{}
	class := a.now.flowClassOf
	for i := range groups {
		c := class(&groups[i])
		byClass[c] = append(byClass[c], groups[i].now)
	}
	for c := range byClass {
		slices.Sort(byClass[c])
	}
	to := a.flowPeers()
	for i := range groups {
		g := &groups[i]
		if p, ok := past[g.key]; ok && p > 0 {
			g.ref, g.slow = p, g.now >= leastSlower*p
		} else if v := byClass[class(g)]; len(v) > 1 {
			g.ref = v[(len(v)-1)/3] // A slow end shows at two ranks or more: the lower third is safe.
			g.slow = g.now >= leastSlow*g.ref
		}
		if g.ref > 0 {
			g.ratio = g.now / g.ref
			spent := g.now * float64(len(g.segs)) / float64(max(1, groupFlows(a.now, g)))
			g.weight = g.ref / (g.ref + latencyScale) * spent / (spent + noteworthyTime*a.replay.base)
		}
		g.peers, g.unseen = to.of(&g.key)
	}
	return slices.DeleteFunc(groups, func(g flowGroup) bool { return g.ref <= 0 || g.now <= 0 })
}

type flowClass struct {
	class transferClass
	flows int
}

func (t *timeline) flowClassOf(g *flowGroup) flowClass {
	return flowClass{g.key.class, groupFlows(t, g)}
}

// groupFlows is the number of flows of a group's operations.
func groupFlows(t *timeline, g *flowGroup) int { return t.segs[g.segs[0]].record.SendFlows }

// gatherFlows groups a timeline's sends over the network.
func (t *timeline) gatherFlows() []flowGroup {
	at := map[transferKey]int{}
	var groups []flowGroup
	for i := range t.segs {
		s := &t.segs[i]
		j := &t.jobs[s.job]
		if s.compute || s.record.SendWait[sendNet] <= 0 && s.record.SendActive <= 0 || j.p2p && s.dir < 0 {
			continue
		}
		k := transferKey{class: j.class, comm: max(-1, s.comm), from: s.node, to: -1}
		if j.p2p {
			k.to = t.NodeOf(s.peer)
		}
		g, ok := at[k]
		if !ok {
			g = len(groups)
			at[k] = g
			groups = append(groups, flowGroup{key: k, node: s.node})
		}
		groups[g].segs = append(groups[g].segs, int32(i))
		groups[g].now += outstanding(s)
	}
	for i := range groups {
		g := &groups[i]
		g.now /= float64(len(g.segs))
		g.lane = t.slowLane(g.segs)
	}
	return groups
}

// slowLane gives the channel that is much slower than another in most of a group's operations, -1 none.
func (t *timeline) slowLane(segs []int32) int {
	counts := map[int]int{}
	for _, i := range segs {
		if s := &t.segs[i]; s.uneven() {
			counts[s.record.SlowestChannel]++
		}
	}
	ch, n := mostFrequent(counts, cmp.Compare)
	return pick(2*n > len(segs), ch, -1)
}

// outstanding is the time that an operation's sends had a transfer outstanding, summed over flows, ns.
func outstanding(s *seg) float64 {
	return float64(max(s.record.SendActive, s.record.SendWait[sendNet]))
}

// overdue is by how much an operation's sends, outstanding for ref when all is well, held it up, ns. Flows run side by side: what
// each is slower by counts once, and what one of them alone is slower by counts whole.
func (s *seg) overdue(ref float64) float64 {
	over, flows := outstanding(s)-ref, float64(max(1, s.record.SendFlows))
	if s.uneven() {
		return max(over/flows, min(over, float64(s.record.SlowestTime)-ref/flows))
	}
	return over / flows
}

// uneven reports whether one of an operation's channels took much longer than another.
func (s *seg) uneven() bool {
	return s.record.FastestTime > 0 && s.record.SlowestTime > unevenTimes*s.record.FastestTime
}

// receivers are the ranks that receive the flows of collectives.
type receivers struct {
	known  map[commNode][]peerShare
	unseen map[commNode][]int32 // Members that are not known, by their ranks in the communicator; not more than two.
}

// nobodyKnown is the receiver of sends to a rank that the evidence does not name.
const nobodyKnown int32 = -1

// of gives where the flows of a key go.
func (r *receivers) of(k *transferKey) (known []peerShare, unseen []int32) {
	if k.class.p2p && k.to < 0 {
		return nil, []int32{nobodyKnown}
	}
	if k.class.p2p {
		return []peerShare{{k.to, 1}}, nil
	}
	at := commNode{k.comm, k.from}
	return r.known[at], r.unseen[at]
}

// flowPeers tells where the flows of collectives go: what is in flight shows all of them, finished work the slowest.
func (a *analysis) flowPeers() receivers {
	count := map[commNode]map[int32]float64{}
	unseen := map[commNode][]int32{}
	add := func(k commNode, peer int, w float64) {
		if k.comm < 0 || peer < 0 {
			return
		}
		at := a.Comms[k.comm].At // Not longer than up to the last member that is known.
		if peer >= len(at) || at[peer] < 0 {
			if p := int32(peer); len(unseen[k]) < 2 && !slices.Contains(unseen[k], p) {
				unseen[k] = append(unseen[k], p)
			}
			return
		}
		if count[k] == nil {
			count[k] = map[int32]float64{}
		}
		count[k][at[peer]] += w
	}
	seen := map[commNode]bool{}
	for ci := range a.Comms {
		for _, m := range a.Comms[ci].Members {
			if m.Membership == nil {
				continue
			}
			k := commNode{int32(ci), m.Node}
			for o := range m.Membership.InFlight {
				op := &m.Membership.InFlight[o]
				if op.Peer >= 0 || seen[k] {
					continue
				}
				for f := range op.Flows {
					if op.Flows[f].Send {
						add(k, op.Flows[f].Peer, 1)
						seen[k] = true
					}
				}
			}
		}
	}
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if s.record.SendFlows == 0 || s.dir != 0 {
			continue
		}
		if ci, ok := s.in(); ok && !seen[commNode{ci, s.node}] {
			add(commNode{ci, s.node}, s.record.SendPeer, 1)
		}
	}
	out := make(map[commNode][]peerShare, len(count))
	for k, c := range count {
		sum := 0.0
		for _, w := range c {
			sum += w
		}
		for _, n := range slices.Sorted(maps.Keys(c)) {
			out[k] = append(out[k], peerShare{n, c[n] / sum})
		}
	}
	return receivers{out, unseen}
}

// end is which side of its flows a place slows.
type end uint8

const (
	endBoth end = iota
	endSend
	endReceive
)

// place is a part of the network that may be slow: the end of flows at some ranks, the link from one rank to another, or the path
// between two hosts.
type place struct {
	nodes []int32 // Ranks at whose end, or sender and receiver of a link; nil for a path.
	end   end
	link  bool
	path  [2]string // From host to host.
	all   bool      // Every flow.
}

// share says what part of a group's flows goes through the place.
func (p *place) share(a *analysis, g *flowGroup) float64 {
	switch {
	case p.all:
		return 1
	case p.nodes == nil:
		if a.Host(g.node) != p.path[0] {
			return 0
		}
		sum := 0.0
		for _, q := range g.peers {
			if a.Host(q.node) == p.path[1] {
				sum += q.share
			}
		}
		return sum
	case p.link:
		if g.node != p.nodes[0] {
			return 0
		}
		return shareTo(g, p.nodes[1:])
	}
	if p.end != endReceive && slices.Contains(p.nodes, g.node) {
		return 1
	}
	if p.end == endSend {
		return 0
	}
	return shareTo(g, p.nodes)
}

// shareTo says what part of a group's flows goes to some ranks.
func shareTo(g *flowGroup, nodes []int32) float64 {
	sum := 0.0
	for _, q := range g.peers {
		if slices.Contains(nodes, q.node) {
			sum += q.share
		}
	}
	return sum
}

// fitted is how well a place explains all that is seen: the share of the (logarithmic) slowness that is left when its
// flows, and no others, are slower by one factor.
type fitted struct {
	place
	factor float64
	fit    float64 // 1: explains everything, 0: nothing.
	score  float64
	from   int // How many ranks send noteworthy amounts through it.
}

// explainer looks for the place that explains which flows are slow and which are not.
type explainer struct {
	a      *analysis
	groups []flowGroup
	sends  map[int32][]int // Groups by sender, by receiver.
	takes  map[int32][]int
	total  float64
}

func (a *analysis) newExplainer(groups []flowGroup) *explainer {
	x := &explainer{a: a, groups: groups, sends: map[int32][]int{}, takes: map[int32][]int{}}
	for i := range groups {
		g := &groups[i]
		x.sends[g.node] = append(x.sends[g.node], i)
		for _, p := range g.peers {
			x.takes[p.node] = append(x.takes[p.node], i)
		}
		l := math.Log(min(max(1, g.ratio), mostSlow))
		x.total += g.weight * l * l
	}
	return x
}

// fit measures how well a place explains the groups.
func (x *explainer) fit(p place) fitted {
	var touched []int
	if p.nodes != nil {
		for _, n := range p.nodes {
			if p.end != endReceive {
				touched = append(touched, x.sends[n]...)
			}
			if p.end != endSend {
				touched = append(touched, x.takes[n]...)
			}
		}
		slices.Sort(touched)
		touched = slices.Compact(touched)
	} else {
		for i := range x.groups {
			touched = append(touched, i)
		}
	}
	f := fitted{place: p, factor: 1}
	type covered struct{ share, log, weight, implied float64 }
	var in []covered
	var senders []int32
	logs, sum := 0.0, 0.0
	for _, i := range touched {
		g := &x.groups[i]
		s := p.share(x.a, g)
		if s <= 0 {
			continue
		}
		ratio := min(max(1, g.ratio), mostSlow)
		// What few flows go through would have to be slower than is measured of any: it explains as much as it can.
		c := covered{s, math.Log(ratio), g.weight, min(1+(ratio-1)/s, mostSlow)}
		in = append(in, c)
		if g.weight >= leastWeight && !slices.Contains(senders, g.node) {
			senders = append(senders, g.node)
		}
		logs += c.weight * s * math.Log(c.implied)
		sum += c.weight * s
	}
	if sum == 0 || x.total == 0 {
		return f
	}
	f.from = len(senders)
	f.factor = math.Exp(logs / sum)
	before, after := 0.0, 0.0
	for _, c := range in {
		before += c.weight * c.log * c.log
		d := c.log - math.Log(1+(f.factor-1)*c.share)
		after += c.weight * d * d
	}
	f.fit = (before - after) / x.total
	return f
}

// candidates are the places that slow flows touch.
func (x *explainer) candidates() []place {
	load := map[int32]float64{}
	links := map[[2]int32]float64{}
	pairs := map[[2]string]float64{}
	for i := range x.groups {
		g := &x.groups[i]
		if !g.slow {
			continue
		}
		w := g.weight * math.Log(g.ratio)
		load[g.node] += w
		for _, p := range g.peers {
			load[p.node] += w * p.share
			links[[2]int32{g.node, p.node}] += w * p.share
			if h, q := x.a.Host(g.node), x.a.Host(p.node); h != "" && q != "" && h != q {
				pairs[[2]string{h, q}] += w * p.share
			}
		}
	}
	const most = 64
	nodes := heaviestFirst(load, cmp.Compare)
	var shared [][]int32 // Ranks of one host.
	var hosts []string
	for _, n := range nodes {
		if h := x.a.Host(n); h != "" && !slices.Contains(hosts, h) && len(hosts) < most {
			hosts = append(hosts, h)
			if mates := x.a.Mates[h]; len(mates) > 1 {
				shared = append(shared, mates)
			}
		}
	}
	var out []place
	atEnds := func(nodes []int32) {
		for _, e := range []end{endBoth, endSend, endReceive} {
			out = append(out, place{nodes: nodes, end: e})
		}
	}
	for _, n := range nodes[:min(most, len(nodes))] {
		atEnds([]int32{n})
	}
	for _, mates := range shared {
		atEnds(mates)
	}
	ends := heaviestFirst(links, comparePairs)
	for _, l := range ends[:min(most, len(ends))] {
		out = append(out, place{nodes: l[:], link: true})
	}
	paths := heaviestFirst(pairs, comparePairs)
	for _, p := range paths[:min(most, len(paths))] {
		out = append(out, place{path: p})
	}
	return append(out, place{all: true})
}

func comparePairs[T cmp.Ordered](x, y [2]T) int {
	return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
}

// explain gives the places that explain best, best first: the smaller one where two explain alike, and the one of which
// the node's own evidence speaks. A link is among them only as the first: what one link explains a rank's end explains nearly as well,
// unless that rank's other flows are as they should be.
func (x *explainer) explain() []fitted {
	var out []fitted
	for _, p := range x.candidates() {
		f := x.fit(p)
		if f.fit <= 0 || f.factor < leastSlower {
			continue
		}
		if len(f.nodes) == 1 {
			f = x.widen(f)
		}
		f.score = f.fit + x.prior(&f)
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(p, q fitted) int { return cmp.Compare(q.score, p.score) })
	if len(out) == 0 {
		return nil
	}
	return append(out[:1], slices.DeleteFunc(out[1:], func(f fitted) bool { return f.link })...)
}

// widen adds ranks of the same host that make the explanation plainly better: they share a NIC.
func (x *explainer) widen(f fitted) fitted {
	for {
		best := f
		for _, n := range x.a.Mates[x.a.Host(f.nodes[0])] {
			if slices.Contains(f.nodes, n) {
				continue
			}
			p := f.place
			p.nodes = append(slices.Clone(f.nodes), n)
			slices.Sort(p.nodes)
			if g := x.fit(p); g.fit > best.fit {
				best = g
			}
		}
		if best.fit < f.fit+widerFit {
			return f
		}
		f = best
	}
}

// prior favours small places over large ones, and those of which the node's own evidence speaks (X2), a little: it
// decides between places that explain alike.
func (x *explainer) prior(f *fitted) float64 {
	p := 0.0
	switch {
	case f.all:
		p = -everywherePrior
	case f.link:
		p = -onlyLink
	case f.nodes == nil:
		p = -pathPrior
		for _, h := range f.path {
			if mates := x.a.Mates[h]; len(mates) > 0 && x.a.endSick(mates[0], f.factor) {
				p += sickPathPrior
			}
		}
	default:
		p = -rankPrior * float64(min(4, len(f.nodes)-1))
		if f.end != endBoth {
			p -= oneEndPrior
		}
		for _, n := range f.nodes {
			if x.a.endSick(n, f.factor) {
				p += sickEndPrior / float64(len(f.nodes))
			}
		}
	}
	return p
}
