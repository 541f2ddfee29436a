// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// history is the finished work that one exporter gave.
type history struct {
	node  *Node
	host  string
	done  Finished
	ranks map[string]int // By file.
	short bool           // Only the few completions of the state.
}

// AskHistory asks exporters for finished work. For an exporter without the trace API, or one that fails, the completions in its
// state stand in, unless other exporters gave a full history: a few operations of some ranks beside thousands of others would
// look like work that was not done.
func (s *Session) AskHistory(ctx context.Context, nodes []*Node, span time.Duration) {
	var mu sync.Mutex
	each(nodes, s.g.Exporters.Concurrency, func(n *Node) int64 {
		n.told = true
		h, told := history{node: n, host: n.Base, ranks: map[string]int{}}, map[string]int{}
		theirs := s.strangers(n)
		bytes, err := s.g.Nodes.Trace(ctx, n.Base, s.job.ID, span, func(line *nodeapi.TraceLine) {
			switch {
			case line.Header != nil:
				h.done, told = Finished{}, map[string]int{}
			case line.Process != nil && line.Process.JobID == s.job.ID:
				h.ranks[line.Process.File] = int(line.Process.Rank)
			case line.Completion != nil && !theirs[line.Completion.File]:
				// A rank with more than its share must leave room for the others.
				if told[line.Completion.File]++; told[line.Completion.File] <= mostRankOps && h.done.len() < mostOps {
					h.done.Add(line.Completion.File, &line.Completion.Completion)
				}
			}
		})
		if err != nil || h.done.len() == 0 {
			h = s.historyOfState(n)
			h.short = true
		}
		mu.Lock()
		if err != nil && !lacksAPI(err) {
			s.untold = append(s.untold, rca.Missing{What: "history", Name: s.nodeName(n), Why: reason(err)})
		}
		s.histories = append(s.histories, h)
		mu.Unlock()
		return bytes
	}, &s.bytes)
	slices.SortFunc(s.histories, func(a, b history) int { return cmp.Compare(a.host, b.host) })
	slices.SortFunc(s.untold, func(a, b rca.Missing) int { return cmp.Compare(a.Name, b.Name) })
}

// strangers gives the files of processes that are not believed, such as those of another user's job of the same name: their work leaves
// no room for that of the job.
func (s *Session) strangers(n *Node) map[string]bool {
	out := map[string]bool{}
	if n.state == nil {
		return out
	}
	for i := range n.state.Processes {
		if p := &n.state.Processes[i]; p.JobID == s.job.ID && !s.believes(p) {
			out[p.File] = true
		}
	}
	return out
}

// told gives the histories that can be compared with each other.
func (s *Session) told() []history {
	whole := slices.DeleteFunc(slices.Clone(s.histories), func(h history) bool { return h.short })
	if len(whole) == 0 {
		return s.histories
	}
	return whole
}

// WithoutHistory gives those exporters that have not been asked for finished work.
func (s *Session) WithoutHistory(nodes []*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if !n.told {
			out = append(out, n)
		}
	}
	return out
}

// Bounds of a history: operations per rank, operations in total, and how short it may become to stay within them.
const (
	historyRankOps = 5_000
	historyOps     = 400_000
	shortHistory   = 10 * time.Second
	// Bursts may exceed the request: at most this many are read per rank, and per exporter.
	mostRankOps = 4 * historyRankOps
	mostOps     = historyOps
)

// Span gives how much of the longest span to fetch from some exporters to get about the intended number of operations: jobs
// differ a thousandfold in operations per second. Prometheus knows the rate. Without it, the rate is estimated from the newest
// few operations of each communicator. These come in bursts, so the estimate is high and less is fetched.
func (s *Session) Span(ctx context.Context, nodes []*Node, longest time.Duration) time.Duration {
	pace, err := s.g.Directory.Pace(ctx, s.job)
	s.note(err)
	perSecond, ranks := 0.0, 0
	for _, n := range nodes {
		if n.state == nil {
			continue
		}
		for i := range n.state.Processes {
			if p := &n.state.Processes[i]; p.JobID == s.job.ID && s.believes(p) {
				ranks++
				perSecond += rate(p.Completions, n.state.NowNS)
			}
		}
	}
	if pace > 0 {
		perSecond = pace * float64(ranks)
	}
	budget := min(float64(ranks)*historyRankOps, historyOps)
	if perSecond*longest.Seconds() <= budget {
		return longest
	}
	return max(min(shortHistory, longest), seconds(budget/perSecond))
}

// rate estimates operations per second from the newest few operations of each communicator.
func rate(done []trace.Completion, nowNS uint64) float64 {
	type recent struct {
		ops    int
		oldest uint64
	}
	byComm := map[uint32]recent{}
	for i := range done {
		r := byComm[done[i].CommIndex]
		if r.ops++; r.oldest == 0 || done[i].LeftNS < r.oldest {
			r.oldest = done[i].LeftNS
		}
		byComm[done[i].CommIndex] = r
	}
	out := 0.0
	for _, r := range byComm {
		if span := trace.Since(nowNS, r.oldest); span > 0 {
			out += float64(r.ops) / span.Seconds()
		}
	}
	return out
}

// historyOfState makes a history of the few completions that an exporter's state contains.
func (s *Session) historyOfState(n *Node) history {
	h, state := history{node: n, ranks: map[string]int{}}, n.state
	if state == nil {
		return h
	}
	h.host = state.Node
	for i := range state.Processes {
		p := &state.Processes[i]
		if p.JobID != s.job.ID || p.Rank < 0 || !s.believes(p) {
			continue
		}
		h.ranks[p.File] = int(p.Rank)
		for j := range p.Completions {
			h.done.Add(p.File, &p.Completions[j])
		}
	}
	return h
}

// appendSegments appends finished work to a timeline. It leaves out work of another exporter's rank, and of an older process of a rank: its
// clock may belong to another boot.
func (h *history) appendSegments(timeline []rca.Segment, a *assembly) []rca.Segment {
	return h.done.Append(timeline, Place{Sizes: a.sizes(), Member: a.global, Rank: func(file string) (int, bool) {
		rank, known := h.ranks[file]
		of := a.seen[rank]
		return rank, known && rank >= 0 && of.node == h.node && of.process.File == file
	}})
}

// sizes gives how many members communicators have whose sources do not say so, such as NCCL 2.24; nothing where not all ranks were seen.
func (a *assembly) sizes() map[rca.CommID]int {
	if a.ev.WorldSize <= 0 || len(a.seen) < a.ev.WorldSize {
		return nil
	}
	out := map[rca.CommID]int{}
	for _, of := range a.seen {
		for i := range of.rank.Memberships {
			out[of.rank.Memberships[i].Comm]++
		}
	}
	return out
}

// global gives the global rank for a rank in a communicator, -1 unknown.
func (a *assembly) global(id rca.CommID, commRank int) int {
	if c := a.comms[id]; c != nil && commRank >= 0 && commRank < len(c.Members) {
		return c.Members[commRank]
	}
	return -1
}
