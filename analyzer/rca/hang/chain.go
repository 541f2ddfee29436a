// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"maps"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

const maxChain = 12 // Longer walks repeat themselves.

// chain walks from a rank that suffers to a candidate, the shortest way from as far as is readable. It comes there in the
// operation that the verdict names, where any way does: one story, told once.
func (w *waitFor) chain(r *candidate) []rca.Link {
	links, whole := w.walk(r, w.waysTo(r))
	if !whole {
		links, _ = w.walk(r, w.distances(r.accused()))
	}
	return links
}

// walk follows distances to a candidate. whole: it has come there, or as far as a reader follows.
func (w *waitFor) walk(r *candidate, dist []int32) (links []rca.Link, whole bool) {
	start := int32(-1)
	for _, s := range w.stuck {
		if dist[s] > 0 && dist[s] <= 2*maxChain && !slices.Contains(r.nodes, s) && (start < 0 || dist[s] > dist[start]) {
			start = s
		}
	}
	if start < 0 {
		return nil, true
	}
	at, from := start, start
	for dist[at] > 0 && len(links) < maxChain {
		step := w.step(at, dist, r.inst)
		if step == nil {
			return links, false
		}
		at = step.to
		if int(at) >= len(w.Nodes) {
			continue // The operation itself is not a person to name.
		}
		links = append(links, w.link(from, at, step))
		from = at
	}
	if r.kind == kindFlaw && len(links) > 0 {
		n := w.Nodes[r.nodes[0]].ID
		l := rca.Link{From: n, To: n, Reason: w.flawText(r), Sure: r.strong()}
		if l.Comm, l.Op = w.place(r.inst); r.inst < 0 {
			l.Comm = links[len(links)-1].Comm
		}
		links = append(links, l)
	}
	return links, true
}

// waysTo gives the distance of every vertex to a candidate: over the operation in which it shows if that is a way, else over any.
func (w *waitFor) waysTo(r *candidate) []int32 {
	var last []int32 // From which the next step, in that operation, is the candidate.
	ends := r.accused()
	for _, v := range ends {
		for _, i := range w.into(v) {
			if e := &w.edges[i]; r.inst >= 0 && e.inst == r.inst && !slices.Contains(ends, e.from) {
				last = append(last, e.from)
			}
		}
	}
	if len(last) == 0 {
		return w.distances(ends)
	}
	dist := w.distances(last)
	for v := range dist {
		if dist[v] >= 0 {
			dist[v]++
		}
	}
	for _, v := range ends {
		dist[v] = 0
	}
	return dist
}

// place names an operation and its communicator; both empty where there is none.
func (x *standstill) place(inst int32) (comm, op string) {
	if inst < 0 {
		return "", ""
	}
	in := &x.insts[inst]
	return x.Comms[in.key.comm].Name, job.OpLabel(in.op())
}

func (w *waitFor) link(from, to int32, e *edge) rca.Link {
	l := rca.Link{From: w.Nodes[from].ID, To: w.Nodes[to].ID, Reason: reasons[e.kind], Sure: e.sure}
	if e.channel >= 0 {
		l.Reason += fmt.Sprintf(" (channel %d)", e.channel)
	}
	l.Comm, l.Op = w.place(e.inst)
	return l
}

// addEvidence lists what the verdict rests on and what speaks against it.
func (w *waitFor) addEvidence(d *decision, v *rca.Verdict) {
	if n := len(w.stuck); n > 0 {
		explained := fmt.Sprintf(words.ExplainsSome, words.Count(int(d.covered*float64(n)+0.5)), words.Count(n))
		switch {
		case n == 1:
			explained = pick(d.covered >= 1, words.ExplainsIt, words.ExplainsNothing)
		case d.covered >= 1:
			explained = fmt.Sprintf(words.ExplainsAll, words.Count(n))
		}
		v.Evidence = append(v.Evidence, explained)
	}
	if len(d.chosen) > 0 {
		if site := w.callSite(&d.chosen[0]); site != "" {
			v.Evidence = append(v.Evidence, fmt.Sprintf(words.CalledAt, job.OpLabel(w.insts[d.chosen[0].inst].op()), site))
		}
	}
	for i := range d.chosen {
		r := &d.chosen[i]
		if i == 8 {
			break
		}
		for k, n := range r.nodes {
			if k == 4 || r.kind == kindGroup {
				break
			}
			w.rankEvidence(n, r, v)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(w.lies)) {
		v.Contradictions = append(v.Contradictions, fmt.Sprintf(words.DeniedByReceiver,
			w.Nodes[n].ID, w.Nodes[w.lies[n]].ID))
	}
	for i := range w.owns {
		o := &w.owns[i]
		if o.is(&lostOnWire) && o.peer >= 0 && len(v.Contradictions) < 8 {
			v.Contradictions = append(v.Contradictions, fmt.Sprintf(words.MoreSentThanReceived,
				w.Nodes[o.node].ID, w.Nodes[o.peer].ID))
		}
	}
}

// callSite is the line of the user's program at which those called an operation that wait in it; empty unknown, or several.
func (w *waitFor) callSite(r *candidate) string {
	if r.inst < 0 {
		return ""
	}
	site := ""
	for _, j := range w.insts[r.inst].joins {
		if at := frames.Site(j.op.Stack); at != "" && site != "" && at != site {
			return ""
		} else if at != "" {
			site = at
		}
	}
	return site
}

// rankEvidence says what is known of one accused rank.
func (w *waitFor) rankEvidence(n int32, r *candidate, v *rca.Verdict) {
	rk := w.Nodes[n].Rank
	if rk == nil {
		return
	}
	name := words.Opener(w.RankName(n))
	if r.inst >= 0 {
		if mem := w.Comms[w.insts[r.inst].key.comm].Find(n); mem != nil && mem.Membership != nil && mem.Membership.Called >= 0 {
			most := int64(0)
			for _, o := range w.Comms[w.insts[r.inst].key.comm].Members {
				if o.Membership != nil {
					most = max(most, o.Membership.Called)
				}
			}
			v.Evidence = append(v.Evidence, fmt.Sprintf(words.CalledSoMany,
				name, mem.Membership.Called, w.Comms[w.insts[r.inst].key.comm].Name, most))
		}
	}
	if rk.State != rca.ProcessUnknown {
		by := ""
		if rk.Caps&rca.SeesProcess != 0 {
			by = "the kernel says "
		}
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.ProcessState, name, by, rk.State))
	}
	if rk.WriteBytesPerSec >= w.Opt.StorageBytesPerSec {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.WritesStorage, name, rk.WriteBytesPerSec/1e6))
	}
	if rk.Storage != nil {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.WaitsForFile, name, fileName(rk.Storage)))
		if all := w.sameMount(rk.Storage); len(all) > 1 {
			v.Evidence = append(v.Evidence, fmt.Sprintf(words.SameMount, words.Plural(len(all), "rank")+" wait", rk.Storage.Mount, words.RankNumbers(all)))
		}
	}
	if rk.Still {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.HasNotRun, name))
	}
	if len(rk.Stack) > 0 && !job.Dead(rk) {
		v.Evidence = append(v.Evidence, fmt.Sprintf(words.Stands, name, frames.Of(rk.Stack)))
	}
	v.Evidence = append(v.Evidence, w.FactsOf(n)...)
}

// sameMount gives the ranks that were seen to wait for files of one file system: its source tells it on all hosts.
func (w *waitFor) sameMount(s *rca.Storage) []int {
	var out []int
	for i := range w.Ev.Ranks {
		if r := &w.Ev.Ranks[i]; r.Storage != nil && r.Storage.Mount == s.Mount && r.Storage.Source == s.Source {
			out = append(out, r.ID)
		}
	}
	return out
}
