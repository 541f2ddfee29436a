// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Prometheus has each rank from one exporter. That one alone speaks for the rank: what another tells of it, in an answer or in series,
// counts for nothing.

// speaks reports whether an exporter may tell of a rank: Prometheus has the rank from this one, or from none.
func (s *Session) speaks(n *Node, rank int) bool {
	at := s.byRank[rank]
	return at == nil || at == n
}

// scrapedFrom reports whether a series with a rank may come from this instance. One without an instance is a rule's.
func (s *Session) scrapedFrom(rank int, instance string) bool {
	p, known := s.processes[rank]
	return !known || instance == "" || p.Instance == instance
}

// living reports whether an exporter's answer has a process of a rank that runs.
func (s *Session) living(n *Node, rank int) bool {
	for i := range n.state.Processes {
		if p := &n.state.Processes[i]; p.JobID == s.job.ID && int(p.Rank) == rank && s.believes(p) && lives(p) {
			return true
		}
	}
	return false
}

func lives(p *nodeapi.Process) bool { return p.Kernel == nil || alive(p.Kernel.State) }

// move looks for ranks that no longer run where Prometheus has them from, and run elsewhere. While Prometheus does not answer, the job may
// have been started again. Else one of the two exporters is wrong, and nobody knows which.
func (s *Session) move() {
	for _, n := range s.nodes {
		if n.state == nil {
			continue
		}
		for i := range n.state.Processes {
			p := &n.state.Processes[i]
			rank := int(p.Rank)
			if p.JobID != s.job.ID || s.speaks(n, rank) || !lives(p) || !s.believes(p) {
				continue
			}
			switch at := s.byRank[rank]; {
			case at.state == nil || !at.has(rank) || s.living(at, rank):
			case s.prom != nil:
				s.byRank[rank] = n
			default:
				s.tenancy.dispute(rank, fmt.Sprintf("Prometheus has it from %s, which shows no living process; %s shows one", at.Base, n.Base))
			}
		}
	}
}

// ownFacts leaves out what an exporter tells of ranks for which another one speaks.
func (s *Session) ownFacts(n *Node, host string) []rca.Fact {
	var out []rca.Fact
	for _, f := range Facts(n.state.Facts, host) {
		if f.Rank < 0 || s.speaks(n, f.Rank) {
			out = append(out, f)
		}
	}
	return out
}
