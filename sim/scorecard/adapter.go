// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// gathered is evidence with what it cost to fetch.
type gathered struct {
	ev    rca.Evidence
	ranks int
	bytes int64
}

// gather asks all hosts of a recording for their state, converts it as the analyzer does, and counts the bytes that
// would have crossed the network (JSON, before compression).
func gather(rec *cluster.Recording, history time.Duration) (gathered, error) {
	g := gathered{ev: rca.Evidence{JobID: rec.JobID(), WorldSize: rec.World(), Sources: []string{"simulator"}}}
	comms := map[rca.CommID]*rca.Comm{}
	for h := range rec.Hosts() {
		if !rec.Answers(h) {
			g.ev.Missing = append(g.ev.Missing, rca.Missing{What: "exporter", Name: rec.HostName(h), Ranks: rec.RanksOf(h), Why: "no answer"})
			continue
		}
		st, err := rec.State(h)
		if err != nil {
			return g, err
		}
		var n counter
		if err := json.NewEncoder(&n).Encode(st); err != nil {
			return g, err
		}
		g.bytes += int64(n)
		for i := range st.Processes {
			p := &st.Processes[i]
			g.ev.Ranks = append(g.ev.Ranks, evidence.Rank(p, st.NowNS))
			for j := range p.Comms {
				c := &p.Comms[j]
				id := evidence.CommID(c.Key())
				rc := comms[id]
				if rc == nil {
					rc = &rca.Comm{ID: id, Name: c.Name, Size: int(c.NRanks), Members: slices.Repeat([]int{-1}, int(c.NRanks))}
					comms[id] = rc
				}
				rc.Members[c.Rank] = int(p.Rank)
			}
		}
		if history > 0 {
			if err := g.timeline(rec, h, history, comms); err != nil {
				return g, err
			}
		}
		g.ev.Facts = append(g.ev.Facts, evidence.Facts(st.Facts, st.Node)...)
	}
	g.ranks = len(g.ev.Ranks)
	for _, c := range comms {
		g.ev.Comms = append(g.ev.Comms, *c)
	}
	slices.SortFunc(g.ev.Comms, func(a, b rca.Comm) int { return cmp.Compare(a.ID, b.ID) })
	return g, nil
}

// timeline adds a host's finished operations of the last span.
func (g *gathered) timeline(rec *cluster.Recording, h int, span time.Duration, comms map[rca.CommID]*rca.Comm) error {
	ranks := map[string]int{}
	var n counter
	enc := json.NewEncoder(&n)
	err := rec.Trace(h, span, func(line *nodeapi.TraceLine) error {
		switch {
		case line.Process != nil:
			ranks[line.Process.File] = int(line.Process.Rank)
		case line.Completion != nil:
			s, ok := evidence.Segment(ranks[line.Completion.File], &line.Completion.Completion)
			if !ok {
				return nil
			}
			if c := comms[s.Comm]; line.Completion.Flags&trace.OpP2P != 0 && c != nil {
				s.Peer = c.Members[line.Completion.Peer]
			}
			g.ev.Timeline = append(g.ev.Timeline, s)
		}
		return enc.Encode(line)
	})
	g.bytes += int64(n)
	return err
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
