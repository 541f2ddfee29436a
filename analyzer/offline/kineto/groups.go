// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

const (
	// togetherNS and togetherShare: by how much the order in which members leave an operation may vary, in any case and as
	// a share of the operation's time, where they leave together.
	togetherNS    = 100_000
	togetherShare = 0.05
	// instancesNeeded is how many operations two ranks must share before they can be told to leave together.
	instancesNeeded = 3
)

// infer finds the groups of operations that do not name theirs (profilers before PyTorch 2.2): ranks that show the same
// operations on a stream and always leave them together are one group. Constant differences are clocks.
// unseen ranks may be members too.
func (b *builder) infer(unseen int) {
	left, groups := 0, 0
	for _, stream := range slices.Sorted(maps.Keys(b.streams)) {
		byRank := b.streams[stream]
		var clusters [][]int
		for _, r := range slices.Sorted(maps.Keys(byRank)) {
			i := slices.IndexFunc(clusters, func(c []int) bool { return together(byRank[c[0]], byRank[r]) })
			if i < 0 {
				clusters = append(clusters, []int{r})
				continue
			}
			clusters[i] = append(clusters[i], r)
		}
		for _, members := range clusters {
			if len(members) < 2 {
				left += len(byRank[members[0]])
				continue
			}
			groups++
			id := rca.CommID(fmt.Sprintf("stream %d of %s", stream, shortList(members)))
			b.Comm(id, string(id), len(members)+unseen).Members = members
			b.ops[id] = map[int][]numbered{}
			for _, r := range members {
				b.ops[id][r] = byRank[r]
			}
		}
	}
	if groups > 0 {
		b.Note("operations do not say which group they are of (older profilers): %s inferred from who leaves together", count(groups, "group"))
	}
	if left > 0 {
		b.Note("%s no group (older profilers), and no other rank's leave together with them: left out", verb(left, "operation names", "operations name"))
	}
}

// together says whether two ranks show the same operations and leave them in an order that hardly varies.
func together(a, c []numbered) bool {
	a, c = common(a, c)
	if len(a) < instancesNeeded {
		return false
	}
	apart := make([]int64, len(a))
	times := make([]int64, len(a))
	for i := range a {
		if a[i].op.Func != c[i].op.Func {
			return false
		}
		apart[i] = c[i].op.End - a[i].op.End
		times[i] = a[i].op.End - a[i].op.Start
	}
	limit := max(togetherNS, int64(togetherShare*float64(gather.Median(times))))
	return gather.Spread(apart) <= limit
}

// common gives the operations of the steps that both show, or all where there are no steps and the counts agree.
func common(a, c []numbered) (x, y []numbered) {
	both := func(n numbered, other []numbered) bool {
		return n.step < 0 || slices.ContainsFunc(other, func(o numbered) bool { return o.step == n.step })
	}
	if len(a) != len(c) {
		a = slices.DeleteFunc(slices.Clone(a), func(n numbered) bool { return !both(n, c) })
		c = slices.DeleteFunc(slices.Clone(c), func(n numbered) bool { return !both(n, a) })
	}
	if len(a) != len(c) {
		return nil, nil
	}
	return a, c
}

// shortList names ranks briefly.
func shortList(ranks []int) string {
	const shown = 8
	if len(ranks) > shown {
		return fmt.Sprintf("%d ranks from %d to %d", len(ranks), ranks[0], ranks[len(ranks)-1])
	}
	return fmt.Sprintf("ranks %v", ranks)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func verb(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
