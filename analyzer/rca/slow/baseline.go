// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// baseline says how long everything takes on peers in the same position: own work (the gap before an operation, the
// length of a computation) by rank, transfers by communicator.
type baseline struct {
	*peerWork
	t        *timeline
	transfer []int64 // By joint.
	// excess is own work beyond the peers', by node and iteration; nil rows for ranks without segments.
	excess   [][]int64
	hostPart []float64 // By node: the share of its excess in which the host was late.
	// slowComm lists what is slower than its peers: a communicator, or a pair of ranks.
	slowComm []slowComm
	groups   []transferGroup         // Of which these are the slow ones, and the others.
	before   map[transferClass]int64 // Before the job became slower.
}

// peerWork is how long work takes on a segment's peers: the ranks of its role, at its position.
type peerWork struct {
	gap  []int64 // By segment: what its peers take.
	own  []int64 // What its rank usually takes there.
	body []int64
	host []int64 // By how much its peers' calls come late.
}

// slowComm is a communicator or pair whose transfers take longer than its peers'.
type slowComm struct {
	joints []int32
	ratio  float64
	nodes  []int32
}

func newBaseline(t, past *timeline) *baseline {
	b := &baseline{peerWork: t.peerWork(), t: t}
	if past != nil {
		b.before = past.usualTransfers()
	}
	b.excessWork()
	b.transfers()
	return b
}

// group is the values of one rank at one position.
type group struct {
	node     int32
	from, to int // Into the sorted list.
	median   int64
}

// peerWork works out what the peers take; once, for a timeline does not change.
func (t *timeline) peerWork() *peerWork {
	if t.peers != nil {
		return t.peers
	}
	w := &peerWork{gap: make([]int64, len(t.segs)), own: make([]int64, len(t.segs)), body: make([]int64, len(t.segs)), host: make([]int64, len(t.segs))}
	v := &variation{took: make([]int64, len(t.Nodes)), quick: make([]int64, len(t.Nodes))}
	late := &variation{took: make([]int64, len(t.Nodes)), quick: make([]int64, len(t.Nodes))}
	for i := range t.segs {
		w.gap[i], w.body[i], w.host[i] = t.segs[i].gap, t.segs[i].stay, t.segs[i].host
	}
	list := t.byPosition()
	for from := 0; from < len(list); {
		to := from
		for to < len(list) && t.segs[list[to]].pos == t.segs[list[from]].pos {
			to++
		}
		t.position(list[from:to], func(s *seg) int64 { return s.gap }, w.gap, w.own, v)
		t.position(list[from:to], func(s *seg) int64 { return s.host }, w.host, nil, late)
		if t.segs[list[from]].compute {
			t.position(list[from:to], func(s *seg) int64 { return s.stay }, w.body, nil, v)
		}
		from = to
	}
	v.setAlone()
	t.peers = w
	return w
}

// byPosition gives the segments of whole iterations in the order of their positions, and of nodes in each.
func (t *timeline) byPosition() []int32 {
	counts := func(s *seg) bool { return s.pos >= 0 && s.iter != noIteration }
	last := int32(-1)
	for i := range t.segs {
		last = max(last, t.segs[i].pos)
	}
	next := make([]int32, last+2) // How many segments the position before has, and then where the next one of a position goes.
	for i := range t.segs {
		if s := &t.segs[i]; counts(s) {
			next[s.pos+1]++
		}
	}
	for p := range last + 1 {
		next[p+1] += next[p]
	}
	list := make([]int32, next[last+1])
	for i := range t.segs { // They are in the order of nodes.
		if s := &t.segs[i]; counts(s) {
			list[next[s.pos]] = int32(i)
			next[s.pos]++
		}
	}
	return list
}

// variation is by how much ranks' work takes longer than in their quicker iterations.
type variation struct {
	took, quick []int64 // By node: what all its work takes, and would if each piece took what it does in the rank's quicker iterations, ns.
	alone       []loner
}

// loner is the work of one rank at a position that no other rank has.
type loner struct {
	segs  []int32
	quick int64   // What it takes in the rank's quicker iterations, ns.
	out   []int64 // Where to write what its peers would take.
}

// add counts what a rank takes at one position, sorted.
func (v *variation) add(node int32, sorted []int64) {
	for _, d := range sorted {
		v.took[node] += d
	}
	v.quick[node] += sorted[len(sorted)/5] * int64(len(sorted))
}

// usual gives by what factor a rank's work usually takes longer than in its quicker iterations: the lower median of the ranks that work
// enough to tell.
func (v *variation) usual() float64 {
	most := slices.Max(v.quick)
	var times []float64
	for n, q := range v.quick {
		if q > most/20 {
			times = append(times, float64(v.took[n])/float64(q))
		}
	}
	mid, _ := center(times)
	return max(1, mid)
}

// setAlone sets what ranks that are alone in their role would take if they varied as the others do. What makes all ranks vary, such as
// busy processors on all hosts, is no reason to accuse the one that has nothing else to be compared with.
func (v *variation) setAlone() {
	if len(v.alone) == 0 {
		return
	}
	usual := v.usual()
	for i := range v.alone {
		l := &v.alone[i]
		for _, s := range l.segs {
			l.out[s] = int64(float64(l.quick) * usual)
		}
	}
}

// excessWork sets what ranks' own work takes beyond their peers'.
func (b *baseline) excessWork() {
	t := b.t
	b.excess = make([][]int64, len(t.Nodes))
	b.hostPart = make([]float64, len(t.Nodes))
	over, late := make([][]int64, len(t.Nodes)), make([][]int64, len(t.Nodes))
	var usual []int64
	for n := range t.Nodes {
		if len(t.ranks[n]) == 0 {
			continue
		}
		b.excess[n], over[n], late[n] = make([]int64, t.iters), make([]int64, t.iters), make([]int64, t.iters)
		calls, sum, lateness := make([]int64, t.iters), int64(0), int64(0)
		for _, i := range t.ranks[n] {
			s := &t.segs[i]
			if !s.works() {
				continue
			}
			d := s.gap - b.gap[i]
			if s.holed {
				d = min(d, b.own[i]-b.gap[i]) // The rest may be an operation whose record is lost.
			}
			if s.compute {
				d += s.stay - b.body[i]
			}
			b.excess[n][s.iter] += d
			sum += d
			if !s.holed && !s.restored { // Else the time before it may be that of an operation whose record is lost.
				calls[s.iter] += s.host - b.host[i]
				lateness += s.host - b.host[i]
			}
			if d > 0 && !s.restored { // A restored record cannot tell whether the call came late.
				over[n][s.iter] += d
				late[n][s.iter] += min(d, s.host)
			}
		}
		// Where kernels are not seen, what all ranks of a host take alike may be waiting in an operation inside it for the one that calls late.
		if r := t.Nodes[n].Rank; r != nil && r.Caps&(rca.SeesCalls|rca.SeesKernels) == rca.SeesCalls && lateness > max(sum, -sum) {
			b.excess[n] = calls
		}
		if t.iters > 0 {
			usual = append(usual, max(0, median64(slices.Clone(b.excess[n]))))
		}
	}
	for n := range t.Nodes {
		b.hostPart[n] = hostPart(b.excess[n], over[n], late[n], median64(usual))
	}
}

// hostPart gives the share of a rank's excess in which its host was late: of each iteration what of its longer pieces was, and iterations
// count as far as their excess is above the usual one, which is the noise of computation that takes now longer, now shorter.
func hostPart(excess, over, late []int64, usual int64) float64 {
	sum, part := 0.0, 0.0
	for i := range excess {
		if e := excess[i] - usual; e > 0 && over[i] > 0 {
			sum += float64(e)
			part += float64(e) * float64(late[i]) / float64(over[i])
		}
	}
	if sum == 0 {
		return 0
	}
	return part / sum
}

// position sets what the peers take at one position: the lower median of the other ranks' medians. A rank alone in its role is left to
// setAlone.
func (t *timeline) position(list []int32, value func(*seg) int64, out, own []int64, v *variation) {
	var groups []group
	var vals, holed []int64
	for from := 0; from < len(list); {
		to := from
		vals, holed = vals[:0], holed[:0]
		for to < len(list) && t.segs[list[to]].node == t.segs[list[from]].node {
			switch s := &t.segs[list[to]]; {
			case s.pred < 0:
			case own != nil && s.holed:
				holed = append(holed, value(s))
			default:
				vals = append(vals, value(s))
			}
			to++
		}
		if len(vals) == 0 && len(holed) > 0 {
			vals = append(vals, slices.Min(holed))
		}
		slices.Sort(vals)
		g := group{node: t.segs[list[from]].node, from: from, to: to}
		if len(vals) > 0 {
			g.median = vals[(len(vals)-1)/2]
			v.add(g.node, vals)
		}
		for _, i := range list[from:to] {
			if own != nil {
				own[i] = g.median
			}
		}
		groups = append(groups, g)
		from = to
	}
	if len(groups) == 1 {
		if len(vals) > 0 {
			v.alone = append(v.alone, loner{segs: list, quick: vals[len(vals)/5], out: out})
		}
		return
	}
	sorted := make([]int64, len(groups))
	for i := range groups {
		sorted[i] = groups[i].median
	}
	slices.Sort(sorted)
	for _, g := range groups {
		others := medianOfOthers(sorted, g.median)
		for _, i := range list[g.from:g.to] {
			out[i] = others
		}
	}
}

// transferClass groups transfers that can be compared across communicators.
type transferClass struct {
	fn    int32
	bytes int64
	size  int
	p2p   bool
	cross bool // Over more than one host.
}

// transferKey groups transfers that are compared over time: of one class, on one communicator and, for sends, between one pair of ranks.
type transferKey struct {
	class    transferClass
	comm     int32 // -1 one that is not known.
	from, to int32 // Nodes; -1 of collectives.
}

// transferKeyOf gives a joint's.
func (t *timeline) transferKeyOf(j *joint) transferKey {
	s := &t.segs[j.parts[0]]
	k := transferKey{class: j.class, comm: max(-1, s.comm), from: -1, to: -1}
	if j.p2p {
		k.from, k.to = s.node, t.NodeOf(s.peer)
		if s.dir < 0 {
			k.from, k.to = k.to, k.from
		}
	}
	return k
}

// transferGroup is a communicator's (or pair's) transfers of a class.
type transferGroup struct {
	class  transferClass
	joints []int32
	// inferred are transfers between two ranks of which one has no record. Their length is not a measurement.
	inferred []int32
	median   int64
	quick    int64
}

func (b *baseline) transfers() {
	t := b.t
	b.transfer = make([]int64, len(t.jobs))
	at := map[transferKey]int{}
	var groups []transferGroup
	for j := range t.jobs {
		jo := &t.jobs[j]
		b.transfer[j] = jo.transfer
		if !t.complete(jo) {
			continue // The shortest stay seen need not be the last arriver's.
		}
		k := t.transferKeyOf(jo)
		if jo.p2p {
			k.comm = -1 // Between two ranks it is one link, whatever they send on.
		}
		g, ok := at[k]
		if !ok {
			g = len(groups)
			at[k] = g
			groups = append(groups, transferGroup{class: k.class})
		}
		if jo.p2p && slices.ContainsFunc(jo.parts, func(p int32) bool { return t.segs[p].restored }) {
			groups[g].inferred = append(groups[g].inferred, int32(j))
			continue
		}
		groups[g].joints = append(groups[g].joints, int32(j))
	}
	groups = slices.DeleteFunc(groups, func(g transferGroup) bool { return len(g.joints) == 0 })
	b.groups = groups
	byClass := map[transferClass][]int{}
	var classes []transferClass
	for g := range groups {
		gr := &groups[g]
		v := make([]int64, 0, len(gr.joints))
		for _, j := range gr.joints {
			v = append(v, t.jobs[j].transfer)
		}
		slices.Sort(v)
		gr.median, gr.quick = v[(len(v)-1)/2], v[len(v)/5]
		if byClass[gr.class] == nil {
			classes = append(classes, gr.class)
		}
		byClass[gr.class] = append(byClass[gr.class], g)
	}
	for _, c := range classes {
		b.class(groups, byClass[c])
	}
}

// complete reports whether all members of an operation were seen.
func (t *timeline) complete(j *joint) bool {
	if j.compute || len(j.parts) == 0 {
		return false
	}
	if j.p2p {
		return len(j.parts) == 2
	}
	ci, ok := t.segs[j.parts[0]].in()
	return !ok || t.Comms[ci].Size <= len(j.parts)
}

func (t *timeline) classOf(j *joint) transferClass {
	s := &t.segs[j.parts[0]]
	c := transferClass{fn: s.fn, bytes: s.bytes, p2p: j.p2p}
	if job.UnevenSizes(t.FuncNames[s.fn]) {
		c.bytes = -1
	}
	if j.p2p {
		c.fn = -1
		peer := t.NodeOf(s.peer)
		c.cross = peer >= 0 && t.Host(peer) != t.Host(s.node)
		return c
	}
	if ci, ok := s.in(); ok {
		c.size, c.cross = t.Comms[ci].Size, t.across[ci]
	}
	return c
}

// spanHosts tells for every communicator whether its members are on more than one host.
func (t *timeline) spanHosts() {
	t.across = make([]bool, len(t.Comms))
	for i := range t.Comms {
		first := int32(-1)
		for _, n := range t.Comms[i].At {
			switch {
			case n < 0:
			case first < 0:
				first = n
			case t.Host(n) != t.Host(first):
				t.across[i] = true
			}
		}
	}
}

// class sets what transfers of one class take elsewhere: the lower median of the other communicators' medians; of one
// alone in its class, its quicker ones.
func (b *baseline) class(groups []transferGroup, ids []int) {
	t := b.t
	sorted := make([]int64, 0, len(ids))
	for _, g := range ids {
		sorted = append(sorted, groups[g].median)
	}
	slices.Sort(sorted)
	for _, g := range ids {
		gr := &groups[g]
		ideal := gr.quick
		if len(ids) > 1 {
			ideal = medianOfOthers(sorted, gr.median)
		}
		if e, ok := b.before[gr.class]; ok && e > 0 {
			ideal = min(ideal, e)
		}
		for _, j := range gr.joints {
			b.transfer[j] = ideal
		}
		for _, j := range gr.inferred {
			b.transfer[j] = min(t.jobs[j].transfer, ideal)
		}
		if ratio := float64(gr.median) / float64(max(1, ideal)); ratio >= slowTransfers {
			sc := slowComm{joints: gr.joints, ratio: ratio}
			seen := map[int32]bool{}
			for _, j := range gr.joints {
				for _, p := range t.jobs[j].parts {
					if n := t.segs[p].node; !seen[n] {
						seen[n] = true
						sc.nodes = append(sc.nodes, n)
					}
				}
			}
			slices.Sort(sc.nodes)
			b.slowComm = append(b.slowComm, sc)
		}
	}
}
