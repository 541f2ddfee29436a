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
	comms map[rca.CommID]*rca.Comm
	names []string // Of all hosts.
	ranks int
	bytes int64 // Of states, and of what was looked back at.
	// states is the part of bytes that states took, bytesOf what each host's did.
	states  int64
	bytesOf map[string]int64
	lines   []nodeapi.ProcessCompletion // Of one host, used again.
}

// gather asks all hosts of a recording for their state, converts it as the analyzer does, and counts the bytes that
// would have crossed the network (JSON, before compression).
func gather(rec *cluster.Recording) (*gathered, error) {
	g := &gathered{comms: map[rca.CommID]*rca.Comm{}, bytesOf: map[string]int64{}, ev: rca.Evidence{JobID: rec.JobID(), WorldSize: rec.World(), Sources: []string{"simulator"}}}
	for h := range rec.Hosts() {
		g.names = append(g.names, rec.HostName(h))
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
		g.bytesOf[rec.HostName(h)] = int64(n)
		for i := range st.Processes {
			g.ev.Ranks = append(g.ev.Ranks, evidence.Rank(&st.Processes[i], st.NowNS))
			g.join(&st.Processes[i])
		}
		g.ev.Facts = append(g.ev.Facts, evidence.Facts(st.Facts, st.Node)...)
	}
	g.ranks, g.states = len(g.ev.Ranks), g.bytes
	g.list()
	return g, nil
}

// join notes of which communicators a process is a member.
func (g *gathered) join(p *nodeapi.Process) {
	for j := range p.Comms {
		c := &p.Comms[j]
		id := evidence.CommID(c.Key())
		rc := g.comms[id]
		if rc == nil {
			rc = &rca.Comm{ID: id, Name: c.Name, Size: int(c.NRanks), Members: slices.Repeat([]int{-1}, int(c.NRanks))}
			g.comms[id] = rc
		}
		rc.Members[c.Rank] = int(p.Rank)
	}
}

// list brings the communicators into the evidence.
func (g *gathered) list() {
	g.ev.Comms = g.ev.Comms[:0]
	for _, c := range g.comms {
		g.ev.Comms = append(g.ev.Comms, *c)
	}
	slices.SortFunc(g.ev.Comms, func(a, b rca.Comm) int { return cmp.Compare(a.ID, b.ID) })
}

// remember adds the members of communicators that are on hosts which do not answer now, from a recording of a time when
// they did: Prometheus has them in nccl_comm_info.
func (g *gathered) remember(before *cluster.Recording) error {
	for h := range before.Hosts() {
		if !slices.ContainsFunc(g.ev.Missing, func(m rca.Missing) bool { return m.Name == before.HostName(h) }) || !before.Answers(h) {
			continue
		}
		st, err := before.State(h)
		if err != nil {
			return err
		}
		for i := range st.Processes {
			g.join(&st.Processes[i])
		}
	}
	g.list()
	return nil
}

// Bounds of a look back, as the service has them: operations in all, and the span.
const (
	historyOps  = 400_000
	historySpan = 5 * time.Minute
)

// lookBack adds finished operations to evidence: of all hosts of a small job, of those asked in a large one.
func (g *gathered) lookBack(rec *cluster.Recording, ev *rca.Evidence, asked map[string]bool) error {
	n := rec.Hosts()
	if asked != nil {
		n = backHosts
	}
	for h := range rec.Hosts() {
		if !rec.Answers(h) || (asked != nil && !asked[g.names[h]]) {
			continue
		}
		if err := g.timeline(rec, ev, h, historyOps/n); err != nil {
			return err
		}
	}
	return nil
}

// sizedEvery is how often a line's size is measured: the sum needs no more.
const sizedEvery = 16

// timeline adds the newest finished operations of a host, at most so many.
func (g *gathered) timeline(rec *cluster.Recording, ev *rca.Evidence, h, most int) error {
	ranks := map[string]int{}
	lines := g.lines[:0]
	err := rec.Trace(h, historySpan, func(line *nodeapi.TraceLine) error {
		switch {
		case line.Process != nil:
			ranks[line.Process.File] = int(line.Process.Rank)
		case line.Completion != nil:
			lines = append(lines, *line.Completion)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.lines = lines
	from := uint64(0)
	if len(lines) > most {
		stamps := make([]uint64, len(lines))
		for i := range lines {
			stamps[i] = lines[i].LeftNS
		}
		slices.Sort(stamps)
		from = stamps[len(stamps)-most]
	}
	for i := range lines {
		c := &lines[i].Completion
		if c.LeftNS < from {
			continue
		}
		s, ok := evidence.Segment(ranks[lines[i].File], c)
		if !ok {
			continue
		}
		if comm := g.comms[s.Comm]; c.Flags&trace.OpP2P != 0 && comm != nil {
			s.Peer = comm.Members[c.Peer]
		}
		ev.Timeline = append(ev.Timeline, s)
		if i%sizedEvery == 0 {
			var n counter
			if err := json.NewEncoder(&n).Encode(nodeapi.TraceLine{Completion: &lines[i]}); err != nil {
				return err
			}
			g.bytes += sizedEvery * int64(n)
		}
	}
	return nil
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
