// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"math"
	"slices"
)

// Iterations differ, and of some ranks one is always the slowest. mayBeChance asks whether those who are accused differ from the others by
// more than that. It is no chance if either of two classical tests says so:
//
//   - Student's t of the difference between the accused and the others, iteration by iteration: a small difference counts where it is
//     steady. In differences within an iteration it does not matter how long that was for all.
//   - The binomial test of how often the slowest of all is one of the accused, among the iterations in which somebody is plainly slower than
//     the others: what comes now and then counts where it is always the same rank. One outlier, however long, is one.
//
// Neither takes iterations that resemble the one before for as many as they are: load that comes lasts for some of them. Where iterations
// are few and long, t takes parts of them for what transfers take: each transfer has its own chances. Work has not: an iteration's data may
// make all of it longer for a rank.
func (a *analysis) mayBeChance(c *chosen) bool { return !a.beyondChance(c.alone, nameChance) }

// beyondChance reports whether chance would single out as who is accused anybody less often than p; true of findings that nothing is compared
// for: they rest on what a node reports, or on communicators as a whole.
func (a *analysis) beyondChance(f *finding, p float64) bool {
	return f.against == nil || f.against(a, f).differ(p)
}

// comparison is how long something took, of those who are accused and of those they are compared with.
type comparison struct {
	now, before [][]float64 // By member and iteration, in units of what is usual for the member; NaN not seen. before may be nil.
	accused     []bool      // By member.
	parts       [][]float64 // As now, by parts of iterations; nil where these are many, or not divided.
	rank        []int32     // By member: its node, of which more than one member may be, or its group.
	each        bool        // Each of the accused has to differ by itself; else they are one thing, such as a place of the network.
	shared      bool        // What makes it longer for all is in it, too.
	of          int         // How many ranks, or groups, there are that might have been accused.
	plain       float64     // By how much a member must be above the others to be plainly slower.
}

// comparePeers compares own work beyond the peers' with that of ranks of the same role or, where there are none, of all.
func (a *analysis) comparePeers(f *finding) *comparison {
	s := &comparison{each: true, plain: heavyShare, of: a.visitedRanks()}
	size := map[int32]int{} // Of roles, in ranks.
	for _, r := range a.now.role {
		size[r]++
	}
	accused := map[int32]int{} // Of those, accused.
	for _, n := range f.nodes {
		accused[a.now.role[n]]++
	}
	alone := true
	for r, n := range accused {
		alone = alone && n == size[r]
	}
	work := a.now.ownWork()
	for _, n := range a.withWork() {
		role := a.now.role[n]
		if !alone && accused[role] == 0 {
			continue
		}
		series := toFloats(a.base.excess[n])
		for i := range series {
			if math.IsNaN(work[n][i]) {
				series[i] = math.NaN()
			}
		}
		level := a.iterTime
		if alone {
			level = meanOf(work[n])
		} else {
			// The excess is over the others of the role, of whose median chance may have a part; that over all of them is not.
			shift := meanOf(series) / float64(size[role])
			for i := range series {
				series[i] -= shift
			}
		}
		s.add(n, slices.Contains(f.nodes, n), level, series, nil)
	}
	return s
}

// comparePast compares by what factor own work has changed since the job became slower.
func (a *analysis) comparePast(f *finding) *comparison {
	s := &comparison{each: true, plain: leastGrowth - 1, of: a.visitedRanks()}
	now, before := a.now.ownWork(), a.past.ownWork()
	for _, n := range a.withWork() {
		s.add(n, slices.Contains(f.nodes, n), meanOf(before[n]), now[n], before[n])
	}
	return s
}

// compareFlows compares how long flows through the accused place are outstanding with how long others are, both by what they should take.
// Flows of which less than half goes through it tell neither. Beside its own past a place may be named for less than makes one plainly slower
// than others, and then is so in hardly any iteration: those count in which it is as much slower as it must be to be named.
func (a *analysis) compareFlows(f *finding) *comparison {
	accused := place{nodes: f.nodes, end: f.end}
	plain := pick(a.past != nil && f.times < leastSlow, leastSlower, leastSlow)
	s := &comparison{shared: true, plain: math.Log(plain), of: a.visitedRanks()}
	groups := a.flows()
	counts := map[flowClass]bool{} // A slow flow can take so long that the others of its class hardly matter beside it.
	for i := range groups {
		if g := &groups[i]; g.weight >= leastWeight {
			counts[a.now.flowClassOf(g)] = true
		}
	}
	for _, g := range groups {
		if !counts[a.now.flowClassOf(&g)] {
			continue
		}
		if share := accused.share(a, &g); share == 0 || share >= mostlyThrough {
			s.addTransfers(a.now, g.node, share > 0, g.segs, 0, func(s *seg) float64 { return outstanding(s) / g.ref })
		}
	}
	return s
}

// compareFlushes compares how long received data takes to be handed on by the accused and by others, in the classes of transfer in which one
// of the accused is late. What is sooner than usual counts as usual.
func (a *analysis) compareFlushes(f *finding) *comparison {
	s := &comparison{shared: true, plain: math.Log(dominantTimes), of: a.visitedRanks()}
	for _, r := range a.receiversByClass() {
		if !slices.ContainsFunc(a.lateOf(r), func(e slowEnd) bool { return slices.Contains(f.nodes, e.node) }) {
			continue
		}
		usual, _ := r.usualFlush()
		for i := range r {
			s.addTransfers(a.now, r[i].node, slices.Contains(f.nodes, r[i].node), r[i].segs, 1, func(s *seg) float64 {
				return float64(s.record.RecvWait[recvFlush]) / float64(usual)
			})
		}
	}
	return s
}

// compareGroups compares how long the transfers of the slow communicators or pairs take with how long those of others of their classes do, by
// what they take elsewhere.
func (a *analysis) compareGroups(m *slowMembers) *comparison {
	s := &comparison{shared: true, plain: math.Log(slowTransfers), of: len(a.base.groups)}
	slow, classes := map[int32]bool{}, map[transferClass]bool{} // By their first joints.
	for i := range m.all {
		first := m.all[i].joints[0]
		slow[first], classes[a.now.jobs[first].class] = true, true
	}
	for i := range a.base.groups {
		g := &a.base.groups[i]
		if !classes[g.class] {
			continue
		}
		first := make([]int32, len(g.joints))
		for k, j := range g.joints {
			first[k] = a.now.jobs[j].parts[0]
		}
		s.addTransfers(a.now, int32(i), slow[g.joints[0]], first, 0, func(s *seg) float64 {
			return float64(max(1, a.now.jobs[s.job].transfer)) / float64(max(1, a.base.transfer[s.job]))
		})
	}
	return s
}

// meanByPart gives the mean of something over those of some segments, in their order, that are in each of so many parts of every iteration;
// NaN in parts that have none.
func (t *timeline) meanByPart(segs []int32, parts int, of func(*seg) float64) []float64 {
	whole := make([]int, t.iters) // How many of the segments are in each iteration.
	for _, i := range segs {
		if k := t.segs[i].iter; k != noIteration {
			whole[k]++
		}
	}
	sum, count, seen := make([]float64, t.iters*parts), make([]float64, t.iters*parts), make([]int, t.iters)
	for _, i := range segs {
		s := &t.segs[i]
		if s.iter == noIteration {
			continue
		}
		p := int(s.iter)*parts + seen[s.iter]*parts/whole[s.iter]
		seen[s.iter]++
		sum[p] += of(s)
		count[p]++
	}
	for i := range sum {
		sum[i] /= count[i] // Nothing over nothing is not a number.
	}
	return sum
}

// addTransfers adds a member by the logarithms of what its transfers took on average, in units of what is usual. Less than floor counts as floor.
func (s *comparison) addTransfers(t *timeline, rank int32, accused bool, segs []int32, floor float64, took func(*seg) float64) {
	by := func(parts int) []float64 {
		times := t.meanByPart(segs, parts, took)
		for k := range times {
			times[k] = math.Log(max(floor, times[k]))
		}
		return times
	}
	s.add(rank, accused, 1, by(1), nil)
	if parts := steadyParts / max(1, t.iters); parts > 1 {
		s.parts = append(s.parts, by(parts))
	}
}

// add adds a member, unless what is usual for it is not known.
func (s *comparison) add(rank int32, accused bool, usual float64, now, before []float64) {
	if usual <= 0 || math.IsNaN(usual) {
		return
	}
	s.rank, s.accused = append(s.rank, rank), append(s.accused, accused)
	s.now = append(s.now, scaled(now, 1/usual))
	if before != nil {
		s.before = append(s.before, scaled(before, 1/usual))
	}
}

// differ reports whether chance would make anybody differ from the others as the accused do less often than p. Of several ranks each has to by
// itself: one that is slow indeed does not speak against another. It is true where there is nobody to compare with.
func (s *comparison) differ(p float64) bool {
	others := countFunc(s.accused, func(b bool) bool { return !b })
	if others == 0 || others == len(s.accused) {
		return true
	}
	p /= float64(s.of)
	if !s.each {
		return s.steady(p) || s.sameAgain() < p
	}
	for m, accused := range s.accused {
		if !accused {
			continue
		}
		if one := s.alone(m); !one.steady(p) && one.sameAgain() >= p {
			return false
		}
	}
	return true
}

// alone gives the comparison of one of the accused with the others.
func (s *comparison) alone(member int) *comparison {
	one := &comparison{of: s.of, plain: s.plain, shared: s.shared}
	for m := range s.accused {
		if s.accused[m] && m != member {
			continue
		}
		one.rank, one.accused, one.now = append(one.rank, s.rank[m]), append(one.accused, s.accused[m]), append(one.now, s.now[m])
		if s.before != nil {
			one.before = append(one.before, s.before[m])
		}
	}
	return one
}

// steady reports whether the mean difference would come of chance less often than p (Student's t; Welch's where there is a past). What makes
// the transfers of all slower or faster is no chance of the accused: of the differences that part is left out that goes with what the others
// take (analysis of covariance), at the cost of a degree of freedom.
func (s *comparison) steady(p float64) bool {
	above, others := contrast(pick(s.parts == nil, s.now, s.parts), s.accused)
	now := momentsOf(above)
	free := now.n - 1
	if s.shared {
		now = momentsOf(unexplained(above, others))
		now.variance *= float64(len(above)-1) / float64(len(above)-2)
		free = now.n - 2
	}
	v := now.variance / now.n
	if s.before == nil {
		return free > 0 && exceedsZero(now.mean, v, studentT(p, free))
	}
	past, _ := contrast(s.before, s.accused)
	before := momentsOf(past)
	w := before.variance / before.n
	return now.n > 1 && before.n > 1 && exceedsZero(now.mean-before.mean, v+w, studentT(p, (v+w)*(v+w)/(v*v/(now.n-1)+w*w/(before.n-1))))
}

// exceedsZero reports whether a mean is above zero by more than so many of its standard deviations.
func exceedsZero(mean, variance, times float64) bool {
	return mean > 0 && (variance == 0 || mean/math.Sqrt(variance) > times)
}

// unexplained gives values less what goes with others (the slope of their regression). Their mean stays.
func unexplained(v, others []float64) []float64 {
	mean, theirs := meanOf(v), meanOf(others)
	products, squares := 0.0, 0.0
	for i := range v {
		products += (v[i] - mean) * (others[i] - theirs)
		squares += (others[i] - theirs) * (others[i] - theirs)
	}
	out := slices.Clone(v)
	for i := range out {
		if squares > 0 {
			out[i] -= products / squares * (others[i] - theirs)
		}
	}
	return out
}

// contrast gives by how much those accused exceed the others in each iteration in which both were seen, and what the others took in it.
func contrast(series [][]float64, accused []bool) (above, others []float64) {
	for i := range series[0] {
		var sum, n [2]float64
		for m := range series {
			if x := series[m][i]; !math.IsNaN(x) {
				k := pick(accused[m], 1, 0)
				sum[k] += x
				n[k]++
			}
		}
		if n[0] > 0 && n[1] > 0 {
			above, others = append(above, sum[1]/n[1]-sum[0]/n[0]), append(others, sum[0]/n[0])
		}
	}
	return above, others
}

// sameAgain gives the probability that the slowest is one of the accused as often as it was, if it may be any. What lasts for several
// iterations is one event, of one rank or of those accused.
func (s *comparison) sameAgain() float64 {
	const nobody, theAccused = -1, -2
	hits, plain, last := 0, 0, int32(nobody)
	for i := range s.now[0] {
		worst := -1
		var seen []float64
		for m := range s.now {
			x := s.now[m][i]
			if math.IsNaN(x) {
				continue
			}
			seen = append(seen, x)
			if worst < 0 || x > s.now[worst][i] {
				worst = m
			}
		}
		if len(seen) < 2 {
			continue
		}
		who := pick(s.accused[worst], theAccused, s.rank[worst])
		if slices.Sort(seen); s.now[worst][i]-seen[(len(seen)-1)/2] <= s.plain {
			who = nobody
		}
		if who != nobody && who != last {
			plain++
			if who == theAccused {
				hits++
			}
		}
		last = who
	}
	share := float64(countFunc(s.accused, func(b bool) bool { return b })) / float64(len(s.accused))
	return binomialTail(hits, plain, share)
}

// ownWork gives each rank's own work, ns, by iteration; NaN where it was not seen from the iteration's begin on.
func (t *timeline) ownWork() [][]float64 {
	out := make([][]float64, len(t.Nodes))
	for n := range out {
		out[n] = make([]float64, t.iters)
		for i := range out[n] {
			out[n][i] = math.NaN()
		}
		cut := int32(noIteration)
		for _, i := range t.ranks[n] {
			s := &t.segs[i]
			if s.pred < 0 {
				cut = s.iter
			}
			if !s.works() || s.iter == cut {
				continue
			}
			if math.IsNaN(out[n][s.iter]) {
				out[n][s.iter] = 0
			}
			out[n][s.iter] += float64(s.gap)
			if s.compute {
				out[n][s.iter] += float64(s.stay)
			}
		}
	}
	return out
}
