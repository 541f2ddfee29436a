// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// The graph counts every waiting rank once, groups ranks that wait alike, and its arrows lead to the culprit.
func TestWaitGroups(t *testing.T) {
	j := newHungJob(8).comm("dp0", 0, 1, 2, 3).comm("dp1", 4, 5, 6, 7).comm("pp", 3, 7)
	j.in("dp0", "AllReduce", []int{1, 2, 3}, flows(map[int][]rca.Flow{}))
	j.in("pp", "AllGather", []int{7}, flows(map[int][]rca.Flow{}))
	j.in("dp1", "AllReduce", []int{4, 5, 6}, flows(map[int][]rca.Flow{}))
	v := j.verdict()
	want{class: rca.NotEntered, cause: rca.CauseNotCalled, ranks: []int{0}, page: true}.check(t, v)
	total := 0
	for i, g := range v.Waits {
		total += g.Count
		if g.Root != (i == 0) || g.On >= i {
			t.Errorf("group %d: %+v", i, g)
		}
	}
	if total != 8 || len(v.Waits) != 4 || !slices.Equal(v.Waits[0].Ranks, []int{0}) || !slices.Equal(v.Waits[1].Ranks, []int{1, 2, 3}) {
		t.Errorf("%d ranks in %+v", total, v.Waits)
	}
	if last := v.Waits[3]; last.On != 2 || !slices.Equal(last.Ranks, []int{4, 5, 6}) || last.Comm != "dp1" {
		t.Errorf("the last group is %+v", last)
	}
}

// However many kinds of waiting there are, the graph can be drawn, and no rank is left out.
func TestWaitGroupsAreFew(t *testing.T) {
	const world = 200
	all := make([]int, world)
	for i := range all {
		all[i] = i
	}
	j := newHungJob(world).comm("world", all...)
	j.in("world", "AllReduce", []int{1}, flows(map[int][]rca.Flow{}))
	for r := 2; r < world; r++ {
		name := fmt.Sprintf("c%d", r)
		j.comm(name, 1, r).in(name, fmt.Sprintf("Kind%d", r), []int{r}, flows(map[int][]rca.Flow{}))
	}
	v := j.verdict()
	total := 0
	for _, g := range v.Waits {
		total += g.Count
	}
	if len(v.Waits) == 0 || len(v.Waits) > 24 || total < world-1 {
		t.Errorf("%d ranks in %d groups", total, len(v.Waits))
	}
}

// Headline, chain and graph speak of the same operation.
func TestChainEndsInTheNamedOperation(t *testing.T) {
	j := newHungJob(6).comm("tp", 0, 1).comm("dp", 0, 2, 3).comm("pp", 1, 4, 5)
	j.in("tp", "AllReduce", []int{1}, flows(map[int][]rca.Flow{}))
	j.in("dp", "ReduceScatter", []int{2, 3}, flows(map[int][]rca.Flow{}))
	j.in("pp", "AllGather", []int{4, 5}, flows(map[int][]rca.Flow{}))
	v := j.verdict()
	if len(v.Chain) == 0 {
		t.Fatal("no chain")
	}
	if last := v.Chain[len(v.Chain)-1]; last.Op != v.Op || last.Comm != v.Comm || last.To != v.Culprits[0].Rank {
		t.Errorf("the verdict is about %s of %s, the chain ends in %+v", v.Op, v.Comm, last)
	}
}

// A search asks few of many ranks. How far the trouble reaches comes from the source that knows all of them.
func TestHeadlineCountsAllRanks(t *testing.T) {
	j := newHungJob(4).comm("dp", 0, 1, 2, 3)
	j.in("dp", "AllReduce", []int{1, 2, 3}, flows(map[int][]rca.Flow{}))
	j.ev.Partial, j.ev.Standing, j.ev.WorldSize = true, 10239, 10240
	v := j.verdict()
	if !strings.Contains(v.Summary, "At least 3 ranks have been waiting for it for 6 s.") || !strings.HasSuffix(v.Summary, " 10,239 of 10,240 ranks stand still.") ||
		v.Stalled != 10239 || v.WorldSize != 10240 {
		t.Errorf("%d of %d: %s", v.Stalled, v.WorldSize, v.Summary)
	}
}
