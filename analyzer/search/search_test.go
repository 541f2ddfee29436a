// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"slices"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

func TestChoose(t *testing.T) {
	many := func(n int, size, heads int, completed int64) []Comm {
		var out []Comm
		for i := range n {
			out = append(out, Comm{ID: rca.CommID(fmt.Sprintf("%d-%d-%d", size, heads, i)), Size: size, Heads: heads, Completed: completed})
		}
		return out
	}
	odd := Comm{ID: "odd", Size: 32, Heads: 32, Completed: 42}
	for _, tc := range []struct {
		name          string
		comms         []Comm
		ends          bool
		into, besides []rca.CommID
	}{
		{"nothing", nil, false, []rca.CommID{}, []rca.CommID{}},
		{"the closed one", []Comm{{ID: "open", Size: 8, Heads: 7}, {ID: "closed", Size: 32, Heads: 32}}, false, []rca.CommID{"closed"}, nil},
		{"closed beside an end", []Comm{{ID: "closed", Size: 8, Heads: 8}}, true, []rca.CommID{"closed"}, nil},
		{"of many closed the one that came least far", append(many(63, 32, 32, 44), odd), false, []rca.CommID{"odd"}, nil},
		{"many closed, none behind the open", append(many(24, 32, 32, 38), many(40, 32, 31, 36)...), true, []rca.CommID{}, nil},
		{"a cycle", []Comm{{ID: "world", Size: 2048, Heads: 2017}, {ID: "ring", Size: 32, Heads: 31}}, false, []rca.CommID{"ring"}, []rca.CommID{"world"}},
		{"none closed beside an end", []Comm{{ID: "ring", Size: 32, Heads: 31}}, true, []rca.CommID{}, nil},
	} {
		into, besides := Choose(tc.comms, tc.ends)
		if !slices.Equal(into, tc.into) || !slices.Equal(besides, tc.besides) {
			t.Errorf("%s: %v and %v, want %v and %v", tc.name, into, besides, tc.into, tc.besides)
		}
	}
	if Crowded(many(4, 8, 8, 1), false) || !Crowded(many(5, 8, 8, 1), false) || !Crowded(many(1, 8, 7, 1), false) || Crowded(many(1, 8, 7, 1), true) {
		t.Error("how far communicators have come is asked where it decides")
	}
}

func ringOf(n int, started func(i int) int64) Ring {
	r := Ring{ID: "r"}
	for i := range n {
		r.Members = append(r.Members, Member{Rank: 10 * i, CommRank: i, Started: started(i), Completed: 5})
	}
	return r
}

func TestFirst(t *testing.T) {
	even := func(int) int64 { return 6 }
	for _, tc := range []struct {
		name string
		o    Overview
		want []int
	}{
		{"idle, and its neighbours", Overview{Idle: []int{0}, Around: []Ring{ringOf(5, even)}}, []int{0, 10, 40}},
		{"silent before idle", Overview{Silent: []int{20}, Idle: []int{0}, Around: []Ring{ringOf(4, even)}}, []int{20, 0, 10, 30}},
		{"a small ring as a whole", Overview{Rings: []Ring{ringOf(3, even)}, Triggered: []int{7}}, []int{0, 10, 20}},
		{"a sample of a large one", Overview{Rings: []Ring{ringOf(40, even)}}, []int{0, 100, 200, 300}},
		{"and who counts otherwise", Overview{Rings: []Ring{ringOf(40, func(i int) int64 { return int64(6 - i/39) })}}, []int{390, 0, 100, 200, 300}},
		{"but not in a pipeline", Overview{Rings: []Ring{ringOf(40, func(i int) int64 { return int64(6 + 6*min(i, 1)) })}}, []int{0, 100, 200, 300}},
		{"no end in sight", Overview{Triggered: []int{3}, Stalled: []int{4, 3}}, []int{3, 4}},
		{"silent alone, and one that waits", Overview{Silent: []int{3}, Stalled: []int{4, 5, 6}}, []int{3, 4, 5}},
	} {
		var p Plan
		if got := p.First(&tc.o); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// inRing is what a waiting rank of a ring shows when the ring is held at one place: each further rank is a step ahead.
func inRing(i, held, n int) rca.Rank {
	return rca.Rank{ID: 10 * i, Memberships: []rca.Membership{{Comm: "r", InFlight: []rca.Op{
		{Number: 5, Peer: -1, Flows: []rca.Flow{{Ready: int64((i + n - held) % n)}, {Send: true, Ready: 99}}},
	}}}}
}

// A search through a ring closes in on the rank that holds it up, wherever that is.
func TestNextClosesIn(t *testing.T) {
	const n = 1000
	for _, held := range []int{0, 1, 77, 500, 998, 999} {
		var p Plan
		asked := map[int]bool{}
		ask := func(ranks []int) {
			for _, r := range ranks {
				asked[r] = true
			}
		}
		ask(p.First(&Overview{Rings: []Ring{ringOf(n, func(int) int64 { return 6 })}}))
		rounds := 1
		for ; !asked[10*held]; rounds++ {
			ev := rca.Evidence{}
			for r := range asked {
				ev.Ranks = append(ev.Ranks, inRing(r/10, held, n))
			}
			next := p.Next(&ev, &rca.Verdict{Class: rca.Unknown, Ask: []int{10}}, func(r int) bool { return asked[r] })
			if len(next) == 0 {
				t.Fatalf("held by %d: the search ends after %v", held, asked)
			}
			ask(next)
		}
		if len(asked) > 40 || rounds > 9 {
			t.Errorf("held by %d: %d ranks asked in %d rounds", held, len(asked), rounds)
		}
	}
}

func TestNext(t *testing.T) {
	nobody := func(int) bool { return false }
	accused := func(rank int, ask ...int) *rca.Verdict {
		return &rca.Verdict{Class: rca.Fault, Page: true, Culprits: []rca.Culprit{{Rank: rank}}, Ask: ask}
	}
	ring := ringOf(12, func(int) int64 { return 6 })
	for _, tc := range []struct {
		name string
		ring bool
		v    *rca.Verdict
		want []int
	}{
		{"what the engine asks for", false, &rca.Verdict{Class: rca.Unknown, Ask: []int{5, 3}}, []int{5, 3}},
		{"nobody once somebody is accused", false, accused(5, 3), nil},
		{"the end comes first", true, &rca.Verdict{Class: rca.Unknown, Ask: []int{5, 20}}, []int{20}},
		{"the end that is not explained", true, accused(5, 20), []int{20}},
		{"not the one that holds the accused", true, accused(10, 20), nil},
		{"where the ends say nothing, who else waits", true, &rca.Verdict{Class: rca.Healthy}, []int{7}},
		{"a doubtful verdict goes on", false, &rca.Verdict{Class: rca.Fault, Culprits: []rca.Culprit{{Rank: 5}}, Ask: []int{3}}, []int{3}},
	} {
		var p Plan
		if tc.ring {
			p.First(&Overview{Rings: []Ring{ring}, Triggered: []int{7}})
		}
		if got := p.Next(&rca.Evidence{}, tc.v, nobody); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	var p Plan
	var all []int
	for i := range 1000 {
		all = append(all, i)
	}
	for round := 1; ; round++ {
		got := p.Next(&rca.Evidence{}, &rca.Verdict{Ask: all}, nobody)
		if want := min(leastPerRound<<min(round-1, 10), mostPerRound); round < MaxRounds && len(got) != want {
			t.Errorf("round %d asks for %d ranks, want %d", round, len(got), want)
		}
		if len(got) == 0 {
			if round != MaxRounds {
				t.Errorf("it ends in round %d", round)
			}
			return
		}
	}
}

func TestAround(t *testing.T) {
	got := Around([]Comm{{ID: "world", Size: 2048}, {ID: "alone", Size: 1}, {ID: "tp", Size: 8}, {ID: "dp", Size: 32}, {ID: "mp", Size: 64}})
	if want := []rca.CommID{"tp", "dp", "mp"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
