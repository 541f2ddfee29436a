// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/exporter/uprobe"
	"github.com/culprit-project/culprit/trace"
)

// job makes ranks that have called so many operations each on one communicator; a negative number: it has none.
func job(called ...int) []uprobe.Rank {
	var out []uprobe.Rank
	for i, n := range called {
		r := uprobe.Rank{PID: 100 + i, Rank: int32(i), State: 'S', Layout: true}
		if n >= 0 {
			r.Comms = []trace.Comm{{ID: 7, NRanks: int32(len(called)), Rank: int32(i), OpsCalled: uint64(n)}}
		}
		out = append(out, r)
	}
	return out
}

// with changes one rank.
func with(ranks []uprobe.Rank, i int, change func(*uprobe.Rank)) []uprobe.Rank {
	change(&ranks[i])
	return ranks
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after []uprobe.Rank
		want          string
	}{
		{"one stays away", job(5, 4, 5, 5), job(5, 4, 5, 5), "Rank 1 (pid 101) holds the job up: it has called 4 operations on the communicator of 4 ranks 7; 3 others have called 5."},
		{"of two", job(5, 4), job(5, 4), "Rank 1 (pid 101) holds the job up: it has called 4 operations on the communicator of 2 ranks 7; 1 other has called 5."},
		{"it moves", job(5, 4, 5, 5), job(6, 5, 6, 6), "The job moves"},
		{"level", job(5, 5, 5, 5), job(5, 5, 5, 5), "All ranks on this node have called the same operations."},
		{"most are behind", job(6, 5, 5, 5), job(6, 5, 5, 5), "All ranks"},
		{"stopped", job(6, 5, 5, 5), with(job(6, 5, 5, 5), 2, func(r *uprobe.Rank) { r.State = 'T' }), "Rank 2 (pid 102) holds the job up: its process is stopped by a signal."},
		{"no communicator", job(0, -1, 0), job(0, -1, 0), "Rank 1 (pid 101) holds the job up: it has made no communicator; 2 others are making one of 3 ranks, 7."},
		{
			"outside the call that makes it", job(-1, -1, -1),
			with(with(job(-1, -1, -1), 0, func(r *uprobe.Rank) { r.Inside = "ncclCommInitRank" }), 1, func(r *uprobe.Rank) { r.Inside = "ncclCommInitRank" }),
			"Rank 2 (pid 102) holds the job up: 2 ranks are inside a call that makes a communicator, and no thread of this one is.",
		},
		{"nothing seen", job(-1, -1), job(-1, -1), "Not enough evidence: no communicator was found"},
		{"no layout", job(5, 5), with(job(5, 5), 0, func(r *uprobe.Rank) { r.Layout = false }), "Not enough evidence: this NCCL library has no debug information"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			judge(tt.before, tt.after).print(&out, time.Second)
			if !strings.HasPrefix(out.String(), tt.want) || strings.Count(out.String(), "holds the job up") > 1 {
				t.Errorf("%s\nwant: %s", out.String(), tt.want)
			}
		})
	}
}

func TestWhoWaitsElsewhere(t *testing.T) {
	ranks := job(5, 4, 5)
	ranks[1].Comms = append(ranks[1].Comms, trace.Comm{ID: 8, NRanks: 2, OpsCalled: 3})
	ranks[2].Comms = []trace.Comm{{ID: 8, NRanks: 2, OpsCalled: 2}}
	v := judge(ranks, ranks)
	if len(v.named) != 1 || v.named[0] != 2 {
		t.Errorf("named %v, want rank 2 alone", v.named)
	}
}
