// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// fromReference converts a time on the reference's clock back.
func (l *line) fromReference(ref int64) int64 {
	own := ref - int64(l.offset)
	return ref - int64(l.offset+l.slope*float64(own-l.at))
}

// mend adds the lost records of last arrivers: when all that were seen in an operation waited long beyond what it takes,
// the one member whose record is lost came last, and when it came is known. Without it the others' waiting would look
// like work that nothing can shorten. The timeline itself when nothing is lost.
func (t *timeline) mend() *timeline {
	usual := t.usualTransfers()
	first, last := make([]int64, len(t.Nodes)), make([]int64, len(t.Nodes))
	for n, list := range t.ranks {
		for k, i := range list {
			if e := t.segs[i].End; k == 0 {
				first[n], last[n] = e, e
			} else {
				first[n], last[n] = min(first[n], e), max(last[n], e)
			}
		}
	}
	var found []rca.Segment
	for j := range t.jobs {
		jo := &t.jobs[j]
		if jo.compute || t.complete(jo) {
			continue
		}
		u, ok := usual[t.classOf(jo)]
		if !ok || jo.transfer < 2*u+rounding {
			continue
		}
		n := t.absent(jo)
		s := &t.segs[jo.parts[0]]
		if n < 0 || len(t.ranks[n]) == 0 || !t.clock[n].known || !t.clock[s.node].known {
			continue
		}
		end := t.clock[n].fromReference(t.clock[s.node].toReference(s.End))
		if end <= first[n]+u || end >= last[n] {
			continue // Outside of what was seen of the rank.
		}
		c := *s.Segment
		c.Rank, c.Start, c.Entered, c.End = t.Nodes[n].ID, end-u, end-u, end
		c.Active, c.SendWait, c.RecvWait, c.Steps = 0, [3]time.Duration{}, [3]time.Duration{}, 0
		if jo.p2p {
			c.Peer, c.Func = s.Rank, opposite(s.Func)
		}
		c.Stage, c.DataRank = t.segs[t.ranks[n][0]].Stage, t.segs[t.ranks[n][0]].DataRank
		found = append(found, c)
	}
	if len(found) == 0 {
		return t
	}
	tl := make([]rca.Segment, 0, len(t.segs)+len(found))
	for i := range t.segs {
		tl = append(tl, *t.segs[i].Segment)
	}
	return newTimeline(t.Index, append(tl, found...))
}

// usualTransfers gives how long each class of transfer takes where it was seen whole.
func (t *timeline) usualTransfers() map[transferClass]int64 {
	by := map[transferClass][]int64{}
	for j := range t.jobs {
		if jo := &t.jobs[j]; t.complete(jo) {
			c := t.classOf(jo)
			by[c] = append(by[c], jo.transfer)
		}
	}
	out := make(map[transferClass]int64, len(by))
	for c, v := range by {
		out[c] = median64(v)
	}
	return out
}

// absent gives the one member of an operation that was not seen in it, -1 none or several.
func (t *timeline) absent(j *joint) int32 {
	s := &t.segs[j.parts[0]]
	if j.p2p {
		return t.NodeOf(s.Peer)
	}
	ci, ok := t.CommOf[s.Comm]
	if !ok || t.Comms[ci].Size != len(j.parts)+1 {
		return -1
	}
	in := make(map[int32]bool, len(j.parts))
	for _, p := range j.parts {
		in[t.segs[p].node] = true
	}
	for _, n := range t.Comms[ci].At {
		if n >= 0 && !in[n] {
			return n
		}
	}
	return -1
}

// opposite turns a send into the receive that matches it, and back.
func opposite(fn string) string {
	for _, p := range [][2]string{{"Send", "Recv"}, {"send", "recv"}} {
		switch {
		case strings.HasSuffix(fn, p[0]):
			return strings.TrimSuffix(fn, p[0]) + p[1]
		case strings.HasSuffix(fn, p[1]):
			return strings.TrimSuffix(fn, p[1]) + p[0]
		}
	}
	return fn
}
