// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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
	{"stage and tensor-parallel rank", func(c coordinates) string { return "data" + coordinate(" pp", c.stage) + coordinate(" tp", c.tp) }},
	{"stage and data-parallel rank", func(c coordinates) string { return "tensor" + coordinate(" pp", c.stage) + coordinate(" dp", c.dp) }},
}

const (
	instancesNeeded = 4
	// togetherShare and togetherNS: how much leaving may differ from instance to instance, as a share of the operation's
	// time and in any case, where members leave together.
	togetherShare = 0.05
	togetherNS    = 100_000
)

// infer chooses the coarsest division of ranks whose groups always leave the operation together.
func (b *job) infer(op string, rows []int) string {
	ends := map[instance]map[int]int64{}
	var times []int64
	participants := map[int]bool{}
	for _, i := range rows {
		r := &b.rows[i]
		k := instance{r.Step, b.seq[i]}
		if ends[k] == nil {
			ends[k] = map[int]int64{}
		}
		ends[k][r.Rank] = r.End
		times = append(times, r.End-r.Start)
		participants[r.Rank] = true
	}
	slices.Sort(times)
	tolerance := max(togetherNS, int64(togetherShare*float64(times[len(times)/2])))
	apart := make([]int64, len(partitions))
	best := int64(math.MaxInt64)
	for k, p := range partitions {
		apart[k] = b.apart(p, participants, ends)
		if apart[k] >= 0 && apart[k] != ownGroups {
			best = min(best, apart[k])
		}
	}
	chosen, found := partitions[0], false
	for k, p := range partitions {
		if apart[k] >= 0 && apart[k] <= min(tolerance, max(togetherNS, factor(best))) {
			chosen, found = p, true
			break
		}
	}
	if k := slices.Index(apart, ownGroups); !found && k >= 0 {
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
	return fmt.Sprintf("%s: %d groups by %s, inferred from who leaves together", op, len(sizes), chosen.name)
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
func (b *job) apart(p partition, participants map[int]bool, ends map[instance]map[int]int64) int64 {
	groups := map[string][]int{}
	for r := range participants {
		k := p.key(b.place[r])
		groups[k] = append(groups[k], r)
	}
	if len(groups) == len(participants) {
		return ownGroups
	}
	worst := int64(-1)
	for _, members := range groups {
		slices.Sort(members)
		for _, r := range members[1:] {
			var d []int64
			for _, at := range ends {
				a, ok1 := at[members[0]]
				c, ok2 := at[r]
				if ok1 && ok2 {
					d = append(d, c-a)
				}
			}
			if len(d) >= instancesNeeded {
				worst = max(worst, spread(d))
			}
		}
	}
	return worst
}

// spread is the median distance from the median.
func spread(d []int64) int64 {
	slices.Sort(d)
	m := d[len(d)/2]
	for i := range d {
		d[i] = max(d[i]-m, m-d[i])
	}
	slices.SortFunc(d, cmp.Compare[int64])
	return d[len(d)/2]
}
