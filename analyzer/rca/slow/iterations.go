// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// token describes an operation as its rank sees it. It is the same in every iteration and on every rank of a role.
type token struct {
	fn      int32
	size    int32 // Of the communicator.
	bytes   int64
	dir     int8 // Send or receive to a higher or lower rank of the communicator.
	compute bool
}

// noIteration marks segments before the first iteration that was seen whole.
const noIteration = -1 << 31

// findIterations cuts every rank's work into iterations (H2), unless the source numbered them, and gives roles and
// positions.
func (t *timeline) findIterations() {
	t.findExchanges()
	t.findSeats()
	t.findTokens()
	if !t.numbered() {
		t.cut = true
		t.cutAll(t.frequencies())
		t.alignIterations()
	}
	t.renumber()
	t.assignRoles()
	t.findLostWork()
}

// findTokens gives every segment its token.
func (t *timeline) findTokens() {
	t.tokenAt = make([]int32, len(t.segs))
	ids := map[token]int32{}
	for i := range t.segs {
		k := t.newToken(&t.segs[i])
		id, ok := ids[k]
		if !ok {
			id = int32(len(ids))
			ids[k] = id
			t.tokens = append(t.tokens, k)
		}
		t.tokenAt[i] = id
	}
}

// findLostWork marks, where a source records computations, the gaps in which one may have been that has no record: in the
// iterations in which a rank has fewer of a kind than its role has, what takes about as long as one.
func (t *timeline) findLostWork() {
	type kind struct{ role, token int32 }
	type count struct {
		kind
		node, iter int32
	}
	counts, stays := map[count]int{}, map[kind][]int64{}
	for i := range t.segs {
		s := &t.segs[i]
		if !s.compute || s.iter == noIteration {
			continue
		}
		k := kind{t.role[s.node], t.tokenAt[i]}
		counts[count{k, s.node, s.iter}]++
		stays[k] = append(stays[k], s.stay)
	}
	if len(counts) == 0 || !t.recordsWork() {
		return
	}
	most, usual := map[kind]int{}, map[int32][]kind{}
	for c, n := range counts {
		most[c.kind] = max(most[c.kind], n)
	}
	takes := make(map[kind]int64, len(stays))
	for k, v := range stays {
		takes[k] = median64(v)
		usual[k.role] = append(usual[k.role], k)
	}
	for i := range t.segs {
		s := &t.segs[i]
		if s.iter == noIteration || s.holed || s.gap <= rounding {
			continue
		}
		for _, k := range usual[t.role[s.node]] {
			if 2*s.gap >= takes[k] && counts[count{k, s.node, s.iter}] < most[k] {
				s.holed = true
				break
			}
		}
	}
}

// findExchanges marks the communicators whose sends and receives are exchanges (all-to-all, rings), not pipelines: members send to many
// others, or each call of each member both sends and receives. The first stage of a pipeline begins with a call that only sends.
func (t *timeline) findExchanges() {
	t.exchange = make([]bool, len(t.Comms))
	const pipelinePeers = 2
	many, oneWay, bothWays := make([]bool, len(t.Comms)), make([]bool, len(t.Comms)), make([]bool, len(t.Comms))
	for n := range t.ranks {
		peers, calls := map[int32][]int{}, map[int32]groupCall{}
		for _, i := range t.ranks[n] {
			s := &t.segs[i]
			ci, ok := s.in()
			if !ok || s.dir == 0 || many[ci] {
				continue
			}
			if s.peer >= 0 && !slices.Contains(peers[ci], s.peer) {
				peers[ci] = append(peers[ci], s.peer)
				many[ci] = len(peers[ci]) > pipelinePeers
			}
			call, begun := calls[ci]
			if first := s.number - s.record.GroupOrdinal; !begun || first != call.first {
				// The window may have cut the rank's first call, and its last one, which no other ends.
				oneWay[ci] = oneWay[ci] || call.whole && call.sends != call.receives
				bothWays[ci] = bothWays[ci] || call.whole && call.sends
				call = groupCall{first: first, whole: begun}
			}
			call.sends, call.receives = call.sends || s.dir > 0, call.receives || s.dir < 0
			oneWay[ci] = oneWay[ci] || s.record.GroupOrdinal <= 0 // Nobody knows what was called with it.
			calls[ci] = call
		}
	}
	for ci := range t.exchange {
		t.exchange[ci] = many[ci] || bothWays[ci] && !oneWay[ci]
	}
}

// groupCall is one group call of a rank on one communicator.
type groupCall struct {
	first           int64 // Number of the operation in front of it.
	sends, receives bool
	whole           bool // It is not the first one that was seen.
}

// findSeats gives the members' ranks in the communicators in which something is sent. Their order is that of a pipeline's stages, whatever
// the ranks' numbers in the job are.
func (t *timeline) findSeats() {
	t.seats = map[commNode]int32{}
	seen := make([]bool, len(t.Comms))
	for i := range t.segs {
		ci, ok := t.segs[i].in()
		if !ok || t.segs[i].dir == 0 || seen[ci] {
			continue
		}
		seen[ci] = true
		for r, n := range t.Comms[ci].At {
			if n >= 0 {
				t.seats[commNode{ci, n}] = int32(r)
			}
		}
	}
}

// before compares two ranks of the job by their ranks in a communicator or, where one is not known there, by their numbers.
func (t *timeline) before(comm int32, x, y int) int {
	px, known := t.seats[commNode{comm, t.NodeOf(x)}]
	py, both := t.seats[commNode{comm, t.NodeOf(y)}]
	if known && both {
		return cmp.Compare(px, py)
	}
	return cmp.Compare(x, y)
}

func (t *timeline) numbered() bool {
	for i := range t.segs {
		if t.segs[i].record.Iteration < 0 {
			return false
		}
	}
	return true
}

// newToken describes a segment.
func (t *timeline) newToken(s *seg) token {
	k := token{fn: s.fn, compute: s.compute, bytes: s.bytes}
	if c, ok := s.in(); ok {
		k.size = int32(t.Comms[c].Size)
	}
	if job.UnevenSizes(t.FuncNames[s.fn]) {
		k.bytes = -1 // The size follows the data.
	}
	if d := s.dir; d != 0 && s.peer >= 0 {
		k.bytes = -1
		if ci, ok := s.in(); !ok || !t.exchange[ci] {
			k.dir = int8(pick(t.before(s.comm, s.record.Rank, s.peer) < 0, 1, -1))
		}
	}
	return k
}

// batched reports whether a segment was entered together with the one before it on its rank: one group call.
func (t *timeline) batched(list []int32, p int) bool {
	return p > 0 && t.segs[list[p]].enter-t.segs[list[p-1]].enter < int64(time.Microsecond)
}

// batchesOf gives for each of a rank's segments the place of the first that was entered with it.
func (t *timeline) batchesOf(list []int32) []int {
	begun := make([]int, len(list))
	for p := range list {
		begun[p] = p
		if t.batched(list, p) {
			begun[p] = begun[p-1]
		}
	}
	return begun
}

// frequencies gives how often a rank that has an operation does it, on average: the window's edges, which cut ranks
// differently, must not decide which is the rarest. In one batch it counts once.
func (t *timeline) frequencies() []float64 {
	n := len(t.tokens)
	sum := make([]float64, n)
	ranks := make([]float64, n)
	last, batch := make([]int, n), make([]int, n) // Of each token: the rank that had it last, and in which batch of it.
	for k := range last {
		last[k] = -1
	}
	for node, list := range t.ranks {
		begun := t.batchesOf(list)
		for p, i := range list {
			k := t.tokenAt[i]
			if last[k] == node && batch[k] == begun[p] {
				continue
			}
			sum[k]++
			if last[k] != node {
				ranks[k]++
			}
			last[k], batch[k] = node, begun[p]
		}
	}
	for k := range sum {
		sum[k] /= ranks[k]
	}
	return sum
}

// cutAll numbers iterations: between two occurrences of the rarest operation that recurs; when the stretches between
// them are alike only every few, for most ranks, so many make one iteration.
func (t *timeline) cutAll(often []float64) {
	starts := make([][]int, len(t.ranks))
	recurring := make([][]int32, len(t.ranks))
	for n, list := range t.ranks {
		recurring[n] = t.recurring(list)
	}
	shared := sharedPace(recurring, often)
	votes := map[int]int{}
	for n, list := range t.ranks {
		var shape []uint64
		cutter := firstOf(shared, recurring[n])
		if cutter < 0 {
			cutter = rarestOf(recurring[n], often)
		}
		starts[n], shape = t.stretches(list, cutter)
		if len(shape) >= 2 {
			votes[stretch(shape)]++
		}
	}
	per, _ := mostFrequent(votes, cmp.Compare)
	per = max(1, per)
	for n, list := range t.ranks {
		for _, i := range list {
			t.segs[i].iter = noIteration
		}
		whole := len(starts[n]) - 1 // What follows the last start is seldom whole.
		if whole > 0 && 10*(len(list)-starts[n][whole]) >= 9*(starts[n][whole]-starts[n][whole-1]) {
			whole++
		}
		index, last := t.countStretches(list, starts[n][:max(0, whole)], per)
		for k, p := range starts[n][:max(0, whole)] {
			end := len(list)
			if k+1 < len(starts[n]) {
				end = starts[n][k+1]
			}
			if index[k] < 0 || index[k] >= last-last%per {
				continue
			}
			for _, i := range list[p:end] {
				t.segs[i].iter = int32(index[k] / per)
			}
		}
	}
}

// countStretches numbers the stretches that begin at some places of a rank's work, and says how many there are in all.
// One with a lost record that is as long as several is several, whose beginnings are not known: it has number -1.
func (t *timeline) countStretches(list []int32, starts []int, per int) (index []int, all int) {
	index = make([]int, len(starts))
	size := func(k int) int {
		if k+1 < len(starts) {
			return starts[k+1] - starts[k]
		}
		return 0
	}
	var sizes []int64
	for k := range len(starts) - 1 {
		sizes = append(sizes, int64(size(k)))
	}
	usual := float64(median64(sizes))
	if per > 1 && len(sizes) > 0 {
		usual = float64(slices.Max(sizes)) // Stretches differ.
	}
	for k := range starts {
		index[k] = all
		all++
		if n := float64(size(k)) / usual; n >= severalFrom && slices.ContainsFunc(list[starts[k]:starts[k+1]], func(i int32) bool { return t.segs[i].holed }) {
			index[k] = -1
			all += int(n+0.5) - 1
		}
	}
	return index, all
}

// recurring gives a rank's operations that come at least three times, each once, in ascending order. In one batch they count once.
func (t *timeline) recurring(list []int32) []int32 {
	count, at := map[int32]int{}, map[int32]int{}
	begun := t.batchesOf(list)
	for p, i := range list {
		if b, ok := at[t.tokenAt[i]]; !ok || b != begun[p] {
			at[t.tokenAt[i]] = begun[p]
			count[t.tokenAt[i]]++
		}
	}
	maps.DeleteFunc(count, func(_ int32, c int) bool { return c < 3 })
	return slices.Sorted(maps.Keys(count))
}

// sharedPace gives the operations that cut iterations where the ranks' own rarest do not come equally often: as often as those, the rarest
// first, of which all ranks have some, and before others the one that most ranks have. Iterations are of the whole job: what some ranks are
// seen to do every tenth time cuts none for the others. Empty where each rank's rarest serves, or nothing is shared.
func sharedPace(recurring [][]int32, often []float64) []int32 {
	least, most, all := math.Inf(1), 0.0, 0 // Of the ranks' rarest, and how many ranks there are.
	ranks := map[int32][]int{}              // That have an operation.
	for n, ks := range recurring {
		if len(ks) == 0 {
			continue
		}
		own := often[rarestOf(ks, often)]
		least, most, all = min(least, own), max(most, own), all+1
		for _, k := range ks {
			ranks[k] = append(ranks[k], n)
		}
	}
	if most <= otherPace*least {
		return nil
	}
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1+samePace*max(x, y) } // One more or less is the window's edge.
	byPace := slices.SortedFunc(maps.Keys(ranks), func(a, b int32) int { return cmp.Or(cmp.Compare(often[a], often[b]), cmp.Compare(a, b)) })
	has, having := make([]int, len(recurring)), 0 // How many of the operations from..to each rank has, and how many ranks have any.
	from, to := 0, 0
	for _, k := range byPace {
		pace := often[k]
		for ; to < len(byPace) && (often[byPace[to]] <= pace || near(often[byPace[to]], pace)); to++ {
			for _, n := range ranks[byPace[to]] {
				if has[n]++; has[n] == 1 {
					having++
				}
			}
		}
		for ; !near(often[byPace[from]], pace); from++ {
			for _, n := range ranks[byPace[from]] {
				if has[n]--; has[n] == 0 {
					having--
				}
			}
		}
		if having == all && (pace >= most || near(pace, most)) {
			cutters := slices.Clone(byPace[from:to])
			slices.SortStableFunc(cutters, func(a, b int32) int { return cmp.Compare(len(ranks[b]), len(ranks[a])) })
			return cutters
		}
	}
	return nil
}

// firstOf gives the first of some operations that is among a rank's; -1 none.
func firstOf(wanted, ks []int32) int32 {
	for _, k := range wanted {
		if _, ok := slices.BinarySearch(ks, k); ok {
			return k
		}
	}
	return -1
}

// rarestOf gives the rarest of some operations, the first of those that are as rare, give or take what the window cuts off; -1 of none.
func rarestOf(ks []int32, often []float64) int32 {
	least := math.Inf(1)
	for _, k := range ks {
		least = min(least, often[k])
	}
	for _, k := range ks {
		if often[k] <= least+0.5 {
			return k
		}
	}
	return -1
}

// stretches gives where the batches with a rank's operation that cuts begin, and a fingerprint of what lies between, whatever the order.
func (t *timeline) stretches(list []int32, cutter int32) (starts []int, shape []uint64) {
	if cutter < 0 {
		return nil, nil
	}
	begun := t.batchesOf(list)
	for p, i := range list {
		if t.tokenAt[i] == cutter && (len(starts) == 0 || starts[len(starts)-1] != begun[p]) {
			starts = append(starts, begun[p])
		}
	}
	var set []int32
	var buf []byte
	for k := 1; k < len(starts); k++ {
		set = set[:0]
		for _, i := range list[starts[k-1]:starts[k]] {
			set = append(set, t.tokenAt[i])
		}
		slices.Sort(set)
		buf = buf[:0]
		for _, k := range set {
			buf = append(buf, byte(k), byte(k>>8), byte(k>>16))
		}
		h := fnv.New64a()
		h.Write(buf)
		shape = append(shape, h.Sum64())
	}
	return starts, shape
}

// stretch gives the number of stretches after which their shapes repeat.
func stretch(shape []uint64) int {
	best, alike := 1, -1.0
	for per := 1; per <= 8 && per*2 <= len(shape); per++ {
		same := 0
		for i := per; i < len(shape); i++ {
			if shape[i] == shape[i-per] {
				same++
			}
		}
		if a := float64(same) / float64(len(shape)-per); a > alike+stretchGain {
			best, alike = per, a
		}
	}
	return best
}

// alignIterations gives all ranks the same numbers: ranks that did something together did it in the same iteration.
func (t *timeline) alignIterations() {
	type pair struct{ a, b int32 }
	votes := map[pair]map[int32]int{}
	for j := range t.jobs {
		ps := t.jobs[j].parts
		for k := 1; k < len(ps); k++ {
			a, b := &t.segs[ps[k-1]], &t.segs[ps[k]]
			if a.iter == noIteration || b.iter == noIteration || a.node == b.node {
				continue
			}
			p := pair{a.node, b.node}
			if votes[p] == nil {
				votes[p] = map[int32]int{}
			}
			votes[p][b.iter-a.iter]++
		}
	}
	type shifted struct{ to, delta int32 }
	next := make([][]shifted, len(t.Nodes))
	for p, v := range votes {
		delta, _ := mostFrequent(v, cmp.Compare)
		next[p.a] = append(next[p.a], shifted{p.b, delta})
		next[p.b] = append(next[p.b], shifted{p.a, -delta})
	}
	shift := make([]int32, len(t.Nodes))
	done := make([]bool, len(t.Nodes))
	for root := range next {
		if done[root] || len(t.ranks[root]) == 0 {
			continue
		}
		done[root] = true
		queue := []int32{int32(root)}
		for len(queue) > 0 {
			n := queue[0]
			queue = queue[1:]
			slices.SortFunc(next[n], func(a, b shifted) int {
				return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.delta, b.delta))
			})
			for _, e := range next[n] {
				if !done[e.to] {
					done[e.to] = true
					shift[e.to] = shift[n] + e.delta
					queue = append(queue, e.to)
				}
			}
		}
	}
	for i := range t.segs {
		if s := &t.segs[i]; s.iter != noIteration {
			s.iter -= shift[s.node]
		}
	}
}

// renumber makes iterations count from 0 without holes.
func (t *timeline) renumber() {
	var all []int32
	for i := range t.segs {
		if t.segs[i].iter != noIteration {
			all = append(all, t.segs[i].iter)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := range t.segs {
		if k, ok := slices.BinarySearch(all, t.segs[i].iter); ok {
			t.segs[i].iter = int32(k)
		} else {
			t.segs[i].iter = noIteration
		}
	}
	t.iters = len(all)
}

// iterationLengths gives the length of every iteration but the last on each rank, ns, 0 unknown; nil for ranks without work.
func (t *timeline) iterationLengths() [][]int64 {
	out := make([][]int64, len(t.ranks))
	for n, list := range t.ranks {
		if len(list) == 0 {
			continue
		}
		begun := make([]int64, t.iters+1)
		for _, i := range list {
			if s := &t.segs[i]; s.iter != noIteration && begun[s.iter] == 0 {
				begun[s.iter] = s.enter
			}
		}
		out[n] = make([]int64, t.iters)
		for k := range out[n] {
			if begun[k] != 0 && begun[k+1] > begun[k] {
				out[n][k] = begun[k+1] - begun[k]
			}
		}
	}
	return out
}

// iterationTimes gives the length of every iteration but the last, as the median rank saw it.
func (t *timeline) iterationTimes() []int64 {
	each := t.iterationLengths()
	var out []int64
	for k := range t.iters {
		var lengths []int64
		for _, v := range each {
			if v != nil && v[k] > 0 {
				lengths = append(lengths, v[k])
			}
		}
		if len(lengths) > 0 {
			out = append(out, median64(lengths))
		}
	}
	return out
}
