// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"encoding/json"
	"errors"
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
	states      int64
	bytesOf     map[string]int64
	bytesOfRank map[int]int64       // The part of it that is one rank's.
	pasts       map[int][]fetchedOp // What hosts have told of finished operations.
	// spoil does harm to what a look back has added to evidence, from an index on, mask to a finished operation before it is
	// fetched; nil: none.
	spoil func(ev *rca.Evidence, from int)
	mask  func(c *trace.Completion)
}

// fetchedOp is an operation that a host has told of.
type fetchedOp struct {
	segment rca.Segment
	left    uint64 // When it ended, by the host's clock.
	bytes   int64  // Of its line and those like it; 0: counted with another one.
	told    bool   // The segment says something.
}

// gather asks all hosts of a recording for their state, converts it as the analyzer does, and counts the bytes that
// would have crossed the network (JSON, before compression).
func gather(rec *cluster.Recording) (*gathered, error) {
	g := &gathered{comms: map[rca.CommID]*rca.Comm{}, bytesOf: map[string]int64{}, bytesOfRank: map[int]int64{}, ev: rca.Evidence{JobID: rec.JobID(), WorldSize: rec.World(), Sources: []string{"simulator"}}}
	for h := range rec.Hosts() {
		g.names = append(g.names, rec.HostName(h))
		if !rec.Answers(h) {
			g.ev.Missing = append(g.ev.Missing, rca.Missing{What: "exporter", Name: rec.HostName(h), Ranks: rec.RanksOf(h), Why: "no answer", Heard: rec.Heard(h, usual.scrape)})
			continue
		}
		st, err := rec.State(h)
		if err != nil {
			return g, err
		}
		if err := g.measure(rec.HostName(h), st); err != nil {
			return g, err
		}
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

// measure counts the bytes of a host's state and of each rank in it.
func (g *gathered) measure(host string, st *nodeapi.State) error {
	node := *st
	node.Processes = nil
	var n counter
	enc := json.NewEncoder(&n)
	if err := enc.Encode(&node); err != nil {
		return err
	}
	for i := range st.Processes {
		before := n
		if err := enc.Encode(&st.Processes[i]); err != nil {
			return err
		}
		g.bytesOfRank[int(st.Processes[i].Rank)] = int64(n - before)
	}
	g.bytes += int64(n)
	g.bytesOf[host] = int64(n)
	return nil
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
	from := len(ev.Timeline)
	ev.PastAsked = true
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
	if g.spoil != nil {
		g.spoil(ev, from)
	}
	return nil
}

// sizedEvery is how often a line's size is measured: the sum needs no more.
const sizedEvery = 16

// timeline adds the newest finished operations of a host, at most so many. Of a host that is asked again, the number must not
// be larger than before.
func (g *gathered) timeline(rec *cluster.Recording, ev *rca.Evidence, h, most int) error {
	list, known := g.pasts[h]
	if !known {
		var err error
		if list, err = g.past(rec, h); err != nil {
			return err
		}
	}
	if len(list) > most {
		stamps := make([]uint64, len(list))
		for i := range list {
			stamps[i] = list[i].left
		}
		slices.Sort(stamps)
		from := stamps[len(stamps)-most]
		list = slices.DeleteFunc(list, func(f fetchedOp) bool { return f.left < from })
	}
	if g.pasts == nil {
		g.pasts = map[int][]fetchedOp{}
	}
	g.pasts[h] = list
	ev.Timeline = slices.Grow(ev.Timeline, len(list))
	for i := range list {
		if list[i].told {
			ev.Timeline = append(ev.Timeline, list[i].segment)
			g.bytes += list[i].bytes
		}
	}
	return nil
}

// past asks a host for its finished operations.
func (g *gathered) past(rec *cluster.Recording, h int) ([]fetchedOp, error) {
	n := 0
	for _, r := range rec.RanksOf(h) {
		n += rec.Remembered(r)
	}
	out := make([]fetchedOp, 0, n)
	var failed error
	for _, r := range rec.RanksOf(h) {
		rec.Finished(r, cluster.At(rec.Now()-historySpan), func(c *trace.Completion) {
			if g.mask != nil {
				masked := *c
				g.mask(&masked)
				c = &masked
			}
			f := fetchedOp{left: c.LeftNS}
			if f.segment, f.told = evidence.Segment(r, c); f.told {
				if comm := g.comms[f.segment.Comm]; c.Flags&trace.OpP2P != 0 && comm != nil {
					f.segment.Peer = comm.Members[c.Peer]
				}
			}
			if len(out)%sizedEvery == 0 {
				var n counter
				failed = errors.Join(failed, json.NewEncoder(&n).Encode(nodeapi.TraceLine{Completion: &nodeapi.ProcessCompletion{File: rec.File(r), Completion: *c}}))
				f.bytes = sizedEvery * int64(n)
			}
			out = append(out, f)
		})
	}
	return out, failed
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
