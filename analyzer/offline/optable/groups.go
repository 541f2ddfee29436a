// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// groups finds out who communicates with whom: from the communicator column, from coordinates for send and receive, and
// for other collectives from the operations themselves, as members of one leave it together.
func (b *job) groups() []string {
	var notes []string
	byOp := map[string][]int{}
	for i := range b.rows {
		r := &b.rows[i]
		switch {
		case b.kind[i] == rca.SegmentCompute:
		case direction(r.Op) != 0:
			b.pair(i)
		case r.Comm != "":
			b.join(i, rca.CommID(r.Comm))
		default:
			byOp[r.Op] = append(byOp[r.Op], i)
		}
	}
	for _, op := range slices.Sorted(maps.Keys(byOp)) {
		if note := b.infer(op, byOp[op]); note != "" {
			notes = append(notes, note)
		}
	}
	for id := range b.members {
		slices.Sort(b.members[id])
	}
	return notes
}

func (b *job) join(i int, id rca.CommID) {
	b.comm[i] = id
	if !slices.Contains(b.members[id], b.rows[i].Rank) {
		b.members[id] = append(b.members[id], b.rows[i].Rank)
	}
}

// direction is +1 for a send, -1 for a receive, 0 for anything else.
func direction(op string) int {
	op = strings.ToLower(op)
	switch {
	case strings.HasSuffix(op, "send"):
		return 1
	case strings.HasSuffix(op, "recv"), strings.HasSuffix(op, "receive"):
		return -1
	}
	return 0
}

// pair finds the other side of a send or receive: activations go to the next stage, gradients to the one before.
func (b *job) pair(i int) {
	r := &b.rows[i]
	if b.peer[i] < 0 && r.Stage >= 0 && b.stages > 1 {
		name := strings.ToLower(r.Op)
		step := direction(r.Op)
		if strings.HasPrefix(name, "b") || strings.Contains(name, "backward") || strings.Contains(name, "grad") {
			step = -step
		}
		to := coordinates{(r.Stage + step + b.stages) % b.stages, r.DP, r.TP}
		if peer, ok := b.at[to]; ok && peer != r.Rank {
			b.peer[i] = peer
		}
	}
	id := rca.CommID(r.Comm)
	if id == "" && r.Stage >= 0 {
		id = rca.CommID("pipeline" + coordinate(" dp", r.DP) + coordinate(" tp", r.TP))
	}
	if id == "" && b.peer[i] >= 0 {
		id = rca.CommID(fmt.Sprintf("pair %d-%d", min(r.Rank, b.peer[i]), max(r.Rank, b.peer[i])))
	}
	if id != "" {
		b.join(i, id)
	}
}

func coordinate(name string, v int) string {
	if v < 0 {
		return ""
	}
	return fmt.Sprintf("%s%d", name, v)
}

// partition is a way to divide ranks into groups by coordinates.
type partition struct {
	name string
	key  func(c coordinates) string
}

var partitions = []partition{
	{"all ranks", func(coordinates) string { return "world" }},
	{"data-parallel rank", func(c coordinates) string { return "model" + coordinate(" dp", c.dp) }},
	{"stage", func(c coordinates) string { return coordinate("stage ", c.stage) }},
	{"data-parallel and tensor-parallel rank", func(c coordinates) string { return "stages" + coordinate(" dp", c.dp) + coordinate(" tp", c.tp) }},
	{replicas, func(c coordinates) string { return "data" + coordinate(" pp", c.stage) + coordinate(" tp", c.tp) }},
	{"stage and data-parallel rank", func(c coordinates) string { return "tensor" + coordinate(" pp", c.stage) + coordinate(" dp", c.dp) }},
}

const (
	instancesNeeded = 4
	// togetherShare and togetherNS: how much leaving may differ from instance to instance, as a share of the operation's
	// time and in any case, where members leave together.
	togetherShare = 0.05
	togetherNS    = 100_000
)

// replicas divides ranks into those that hold the same part of the model.
const replicas = "stage and tensor-parallel rank"

// ofModel says that an operation exchanges gradients or parameters, which replicas of one part of the model do.
func ofModel(op string) bool {
	op = strings.ToLower(op)
	return strings.Contains(op, "grad") || strings.Contains(op, "param") || strings.Contains(op, "weight")
}

// infer chooses a division of ranks whose groups always leave the operation together, after their last member has entered.
// Where the times allow several, gradients and parameters are exchanged by replicas; else the coarsest division is taken.
func (b *job) infer(op string, rows []int) string {
	o := b.occurrences(rows)
	fits := make([]fit, len(partitions))
	best := int64(math.MaxInt64)
	for k, p := range partitions {
		fits[k] = b.fit(p, o)
	}
	for k := range fits {
		if fits[k].judged() && !o.tooFine(fits[k], fits) {
			best = min(best, fits[k].apart)
		}
	}
	limit := min(o.tolerance, max(togetherNS, factor(best)))
	chosen, found := partitions[0], false
	for k, p := range partitions {
		if !fits[k].judged() || o.tooFine(fits[k], fits) || fits[k].apart > limit {
			continue
		}
		if !found || ofModel(op) && p.name == replicas {
			chosen, found = p, true
		}
	}
	if k := slices.IndexFunc(fits, func(f fit) bool { return f.apart == ownGroups }); !found && k >= 0 {
		chosen, found = partitions[k], true
	}
	if !found {
		for _, i := range rows {
			b.join(i, rca.CommID(fmt.Sprintf("%s rank %d", op, b.rows[i].Rank)))
		}
		return fmt.Sprintf("%s: its ranks do not leave together in any grouping, so it is taken as each rank's own", op)
	}
	sizes := map[rca.CommID]map[int]bool{}
	for _, i := range rows {
		id := rca.CommID(chosen.key(b.place[b.rows[i].Rank]) + " " + op)
		b.join(i, id)
		if sizes[id] == nil {
			sizes[id] = map[int]bool{}
		}
		sizes[id][b.rows[i].Rank] = true
	}
	name := chosen.name
	if name == replicas && !b.tensor() {
		name = "stage"
	}
	return fmt.Sprintf("%s: %d groups by %s, inferred from who leaves together", op, len(sizes), name)
}

// tensor says that the table has tensor-parallel ranks.
func (b *job) tensor() bool {
	for c := range b.at {
		if c.tp >= 0 {
			return true
		}
	}
	return false
}

// occurrences are when each rank was in each occurrence of one operation.
type occurrences struct {
	at           map[instance]map[int]stay
	participants map[int]bool
	tolerance    int64 // By how much leaving may vary.
}

type stay struct{ start, end int64 }

func (b *job) occurrences(rows []int) *occurrences {
	o := &occurrences{at: map[instance]map[int]stay{}, participants: map[int]bool{}}
	times := make([]int64, 0, len(rows))
	for _, i := range rows {
		r := &b.rows[i]
		k := instance{r.Step, b.seq[i]}
		if o.at[k] == nil {
			o.at[k] = map[int]stay{}
		}
		o.at[k][r.Rank] = stay{r.Start, r.End}
		times = append(times, r.End-r.Start)
		o.participants[r.Rank] = true
	}
	o.tolerance = max(togetherNS, int64(togetherShare*float64(gather.Median(times))))
	return o
}

// fit is how well a division suits the times.
type fit struct {
	apart int64 // As the method of that name gives it.
	// left is for how long members typically stay after the last of them has entered, wide how far apart they leave.
	left, wide int64
}

func (f fit) judged() bool { return f.apart >= 0 && f.apart != ownGroups }

func (b *job) fit(p partition, o *occurrences) fit {
	f := fit{apart: b.apart(p, o)}
	if !f.judged() {
		return f
	}
	type span struct{ entered, first, last int64 }
	var left, wide []int64
	for _, at := range o.at {
		groups := map[string]span{}
		for r, s := range at {
			k := p.key(b.place[r])
			g, ok := groups[k]
			if !ok {
				g = span{s.start, s.end, s.end}
			}
			groups[k] = span{max(g.entered, s.start), min(g.first, s.end), max(g.last, s.end)}
		}
		for _, g := range groups {
			left, wide = append(left, g.first-g.entered), append(wide, g.last-g.first)
		}
	}
	f.left, f.wide = gather.Median(left), gather.Median(wide)
	return f
}

// tooFine says that members of a division stay on after all of them have entered, while another division has the member
// that they waited for: nobody leaves a collective before the last has entered, and all leave soon after.
func (o *occurrences) tooFine(f fit, others []fit) bool {
	const share, doubt = 2, 2
	return slices.ContainsFunc(others, func(q fit) bool {
		return q.judged() && q.apart <= o.tolerance && q.left >= 0 && f.left > share*q.left && f.left-q.left > doubt*q.wide+togetherNS
	})
}

// instance is one occurrence of an operation.
type instance struct {
	step int
	seq  int64
}

// ownGroups is apart's answer for groups of one, which always agree and say nothing.
const ownGroups = math.MaxInt64

// factor: a coarser division is taken when it is hardly worse than the best.
func factor(best int64) int64 {
	if best > math.MaxInt64/4 {
		return best
	}
	return 2 * best
}

// apart is by how much the order in which members leave varies, in the worst group: constant differences are clocks.
// -1: the division cannot be judged.
func (b *job) apart(p partition, o *occurrences) int64 {
	groups := map[string][]int{}
	for r := range o.participants {
		k := p.key(b.place[r])
		groups[k] = append(groups[k], r)
	}
	if len(groups) == len(o.participants) {
		return ownGroups
	}
	worst := int64(-1)
	for _, members := range groups {
		slices.Sort(members)
		for _, r := range members[1:] {
			var d []int64
			for _, at := range o.at {
				a, ok1 := at[members[0]]
				c, ok2 := at[r]
				if ok1 && ok2 {
					d = append(d, c.end-a.end)
				}
			}
			if len(d) >= instancesNeeded {
				worst = max(worst, gather.Spread(d))
			}
		}
	}
	return worst
}
