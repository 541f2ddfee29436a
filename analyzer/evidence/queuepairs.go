// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// QueuePairs gives the queue pairs that a rank has to a peer (a rank in the communicator), as its exporter showed them. Without
// the verbs interposer there are none.
func (s *Session) QueuePairs(rank int, comm rca.CommID, peer int) []trace.QP {
	n := s.byRank[rank]
	if n == nil || n.state == nil {
		return nil
	}
	var out []trace.QP
	for i := range n.state.Processes {
		p := &n.state.Processes[i]
		if int(p.Rank) != rank || p.JobID != s.job.ID || !s.believes(p) {
			continue
		}
		for k := range p.QPs {
			q := &p.QPs[k]
			if int(q.Peer) == peer && commOf(p, q) == comm {
				out = append(out, *q)
			}
		}
	}
	return out
}

func commOf(p *nodeapi.Process, q *trace.QP) rca.CommID {
	i := slices.IndexFunc(p.Comms, func(c trace.Comm) bool { return int64(c.Index) == q.CommIndex && c.Generation == q.CommGeneration })
	if i < 0 {
		return ""
	}
	return CommID(trace.CommKey{ID: p.Comms[i].ID, NRanks: p.Comms[i].NRanks})
}
