// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// compose writes the verdict of a job that stands still.
func (w *waitFor) compose(d *decision) rca.Verdict {
	v := job.NewVerdict(w.Index)
	v.Confidence = rca.Round(w.confidence(d))
	v.RanksVisited = w.visited()
	v.Stalled, v.WorldSize = max(len(w.stuck), w.Ev.Standing), w.World
	w.reportMissing(d, &v)
	if len(d.chosen) == 0 {
		v.Summary = fmt.Sprintf(words.Unexplained, words.Opener(words.Plural(len(w.stuck), "rank")))
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		v.Page = w.longest() >= w.Opt.UnexplainedAfter
		v.Standstill = w.still().Seconds()
		return v
	}
	d.chosen = w.joinProcesses(d.chosen)
	first := &d.chosen[0]
	if d.silent {
		w.composeSilent(d, &v)
	} else if !anyHard(d.chosen) && v.Confidence < w.Opt.NameConfidence {
		w.composeSuspects(d, &v)
		if w.Ev.Partial && len(v.Ask) == 0 {
			v.Ask = w.partners(d.chosen)
		}
	} else {
		v.Class, v.Cause = first.leaf.class, first.leaf.cause
		alike, rest := w.alike(d.chosen)
		v.Summary = words.Opener(w.sentence(&alike, d))
		for i := range d.chosen {
			w.addCulprits(&d.chosen[i], &v)
		}
		if n := len(rest); n > 0 {
			v.Summary += fmt.Sprintf(words.AlsoFound, w.others(rest))
		}
	}
	if w.Ev.Partial && w.Ev.Standing > 0 {
		v.Summary += fmt.Sprintf(words.BlastRadius, words.Count(w.Ev.Standing), words.Plural(w.World, "rank"))
	}
	v.Code = v.Class.Code()
	if first.inst >= 0 {
		v.Comm = w.Comms[w.insts[first.inst].key.comm].Name
		v.Op = job.OpLabel(w.insts[first.inst].op())
	}
	v.Action = cmp.Or(first.leaf.action, rca.ActionFor(v.Class, v.Cause))
	if len(v.Culprits) > 0 {
		v.Action = cmp.Or(first.leaf.action, rca.ActionForFacts(v.Cause, &v.Culprits[0], w.Ev.Facts), v.Action)
	}
	v.Waited = rca.Round(w.waited(first).Seconds())
	v.Chain = w.chain(first)
	v.Waits = w.waitGroups(d, v.Culprits)
	for i := range d.chosen {
		v.RestsOn = append(v.RestsOn, w.IDs(d.chosen[i].ends())...)
	}
	w.addEvidence(d, &v)
	w.setAside(d, &v)
	v.Page = w.pages(&v)
	v.MayGetOn = !slices.ContainsFunc(d.chosen, func(r root) bool { return !w.mayGetOn(&r) })
	if v.Class == rca.Unknown {
		v.Standstill = w.still().Seconds()
	}
	return v
}

// mayGetOn says that a root is GPUs that may get on by themselves: they load kernels for one of the job's first operations, or
// compute what comes before one that no GPU is known to be in, or where no kernels are seen; and their nodes show no error of them.
func (w *waitFor) mayGetOn(r *root) bool {
	gpu := r.leaf.cause == rca.CauseGPU || r.leaf.cause == rca.CauseKernelNotRunning
	if !gpu || r.kind != rootFlaw && r.kind != rootGroup || r.inst < 0 {
		return false
	}
	in := &w.insts[r.inst]
	computes := r.leaf.cause == rca.CauseKernelNotRunning && in.begun == 0
	for _, n := range r.nodes {
		if w.Ailing(n, job.GPUAilment) {
			return false
		}
		j := w.part(in, n)
		computes = computes || j == nil || unbegun(w.Nodes[n].Rank, j.op)
	}
	return computes || r.kind == rootFlaw && w.firstStep(r.nodes[0], r.inst)
}

// still is for how long ranks stand still and nobody who was seen has completed anything.
func (w *waitFor) still() time.Duration {
	still := w.longest()
	for i := range w.Ev.Ranks {
		for k := range w.Ev.Ranks[i].Memberships {
			if since := w.Ev.Ranks[i].Memberships[k].SinceCompleted; since > 0 {
				still = min(still, since)
			}
		}
	}
	return still
}

// alike joins the first root with those of which the same is to be said.
func (w *waitFor) alike(rs []root) (first root, rest []root) {
	first = rs[0]
	for _, r := range rs[1:] {
		if first.what == flawNotCome && r.what == flawNotCome && slices.Equal(first.nodes, r.nodes) {
			first.vertex = append(slices.Clone(first.vertex), r.vertex...)
			continue
		}
		same := r.kind == first.kind && r.inst == first.inst && r.leaf.class == first.leaf.class && r.leaf.cause == first.leaf.cause
		if !same || r.kind != rootOutside && r.kind != rootDead || r.leaf.note != first.leaf.note {
			rest = append(rest, r)
			continue
		}
		first.nodes = append(slices.Clone(first.nodes), r.nodes...)
		first.vertex = append(slices.Clone(first.vertex), r.vertex...)
	}
	slices.Sort(first.nodes)
	return first, rest
}

// pages says whether somebody is woken: for an accusation that is likely right, or for a hang that lasts whoever did it.
func (w *waitFor) pages(v *rca.Verdict) bool {
	if v.Class == rca.Benign || v.Class == rca.Healthy {
		return false
	}
	if w.longest() >= w.Opt.UnexplainedAfter {
		return true
	}
	return v.Class != rca.Unknown && w.Carries(v.Class, v.Confidence)
}

// waited gives how long others have waited in the operation that a root keeps from going on.
func (w *waitFor) waited(r *root) time.Duration {
	if r.inst < 0 {
		return w.longest()
	}
	return w.insts[r.inst].age
}

func (w *waitFor) longest() time.Duration {
	var longest time.Duration
	for _, n := range w.stuck {
		for i := range w.acts[n] {
			if a := &w.acts[n][i]; a.stuck {
				longest = max(longest, w.insts[a.inst].age)
			}
		}
	}
	return longest
}

func (w *waitFor) visited() int {
	n := 0
	for v, seen := range w.reach(w.stuck) {
		if seen && v < len(w.Nodes) && w.Nodes[v].Rank != nil {
			n++
		}
	}
	return n
}

// waiting counts the ranks that stand still for a root, the root itself not counted.
func (w *waitFor) waiting(r *root) int {
	_, dist := w.cover([]root{*r})
	n := 0
	for _, s := range w.stuck {
		if dist[s] >= 0 && !slices.Contains(r.nodes, s) {
			n++
		}
	}
	return n
}

// sentence says what happened, for a tired person.
func (w *waitFor) sentence(r *root, d *decision) string {
	age, n := "", w.waiting(r)
	// Younger ones are lower bounds, of sources that do not tell when they were asked and to which anything pending is stuck.
	if r.inst >= 0 && w.insts[r.inst].age >= max(w.Opt.HangAfter, time.Second) {
		age = " for " + words.Span(w.insts[r.inst].age)
	}
	wait := pick(w.Ev.Partial, "at least ", "") + words.Plural(n, "rank") + pick(n == 1, " waits", " wait") + " for it" // Of those asked.
	note := r.leaf.note
	if len(r.nodes) > 1 {
		wait, note = strings.TrimSuffix(wait, "it")+"them", words.OfSeveral(note)
	}
	switch r.kind {
	case rootOutside:
		if d.benign {
			return fmt.Sprintf(words.NotCalledYet, w.RankList(r.nodes), pick(len(r.nodes) == 1, "has", "have"), w.opName(r.inst), age, wait, note)
		}
		if len(r.nodes) > 1 {
			return fmt.Sprintf(words.NotCalledBySeveral, w.RankList(r.nodes), w.missedName(r.inst), age,
				strings.TrimSuffix(wait, " for them"), note)
		}
		return fmt.Sprintf(words.NotCalled, w.RankName(r.nodes[0]), w.missedName(r.inst), age, wait, r.leaf.note)
	case rootAhead:
		return fmt.Sprintf(words.AloneAhead,
			w.RankList(r.nodes), pick(len(r.nodes) == 1, "is", "are"), w.opName(r.inst), age, words.Opener(words.RankNumbers(w.IDs(r.others))), pick(len(r.others) == 1, "has", "have"))
	case rootDead:
		who, note := w.endsOf(r)
		if r.inst < 0 {
			return fmt.Sprintf(words.Died, who, note)
		}
		return fmt.Sprintf(words.DiedInside, who, note, wait, w.opName(r.inst), age)
	case rootFlaw:
		if r.leaf.class == rca.Benign {
			return fmt.Sprintf(words.FlawedYet, w.RankName(r.nodes[0]), w.flawText(r), wait, age, note)
		}
		return fmt.Sprintf(words.Flawed, w.RankName(r.nodes[0]), w.flawText(r), wait, age)
	case rootLink:
		return fmt.Sprintf(words.LinkStalled,
			w.RankName(r.nodes[0]), w.RankName(r.peer), words.Plural(n, "rank")+pick(n == 1, " waits", " wait"), age)
	case rootOdd:
		return w.oddSentence(r)
	case rootDeadlock:
		return w.deadlockSentence(r)
	case rootMoving:
		return fmt.Sprintf(words.StillMoves, w.RankName(r.nodes[0]))
	case rootGroup:
		if r.what == flawNotCome {
			return fmt.Sprintf(words.GPUsSilent,
				words.RankNumbers(w.IDs(r.nodes)), w.opName(r.inst), age)
		}
		if r.leaf.class == rca.Fault && len(r.nodes) > 1 {
			return fmt.Sprintf(words.HostStalled,
				w.RankList(r.nodes), w.Host(r.nodes[0]), w.opName(r.inst), age)
		}
		fallthrough
	default:
		if len(r.nodes) == 1 {
			return fmt.Sprintf(words.SeenAlone, words.Opener(w.RankList(r.nodes)), w.opName(r.inst), age)
		}
		return fmt.Sprintf(words.AllAlike,
			words.Plural(len(r.nodes), "member"), w.opName(r.inst), age)
	}
}

func (w *waitFor) oddSentence(r *root) string {
	in := &w.insts[r.inst]
	od := in.odd
	if od.tie {
		var s strings.Builder
		s.WriteString(fmt.Sprintf(words.Disagreement, od.field, in.key.place, w.Comms[in.key.comm].Name))
		for i, o := range od.odd {
			if i == 8 {
				s.WriteString(" …")
				break
			}
			s.WriteString(pick(i > 0, ", ", "") + w.RankName(o.node) + " called " + o.value)
		}
		return s.String() + words.EvenSplit
	}
	if od.field == "order" {
		return fmt.Sprintf(words.OtherOrder,
			w.RankList(r.nodes), od.odd[0].value, w.Comms[in.key.comm].Name, od.common)
	}
	return fmt.Sprintf(words.OtherCall,
		w.RankList(r.nodes), od.odd[0].value, in.key.place, w.Comms[in.key.comm].Name, od.common, od.field)
}

func (w *waitFor) deadlockSentence(r *root) string {
	var s strings.Builder
	s.WriteString(words.Deadlock)
	for i, o := range r.order {
		if i == 4 {
			s.WriteString(" …")
			break
		}
		s.WriteString(pick(i > 0, ", ", "") + w.RankList(o.ranks) + " entered " + w.opName(o.inst) + " first")
	}
	return s.String() + words.EachWaits
}

// addCulprits adds the root's culprits to the verdict; those of another class or cause than the verdict's say so.
func (w *waitFor) addCulprits(r *root, v *rca.Verdict) {
	for _, c := range w.culpritsOf(r) {
		if len(v.Culprits) >= rca.MaxCulprits {
			return
		}
		if slices.ContainsFunc(v.Culprits, func(o rca.Culprit) bool { return o.Rank == c.Rank && (c.Rank >= 0 || o.Group == c.Group) }) {
			continue
		}
		if r.leaf.class != v.Class || r.leaf.cause != v.Cause {
			c.Class, c.Cause, c.Action = r.leaf.class, r.leaf.cause, cmp.Or(r.leaf.action, rca.ActionFor(r.leaf.class, r.leaf.cause))
		}
		c.Waited = w.waited(r).Seconds()
		v.Culprits = append(v.Culprits, c)
	}
}

func (w *waitFor) culpritsOf(r *root) []rca.Culprit {
	switch r.kind {
	case rootLink:
		a, b := w.Nodes[r.nodes[0]].ID, w.Nodes[r.peer].ID
		return []rca.Culprit{{
			Rank: -1, Host: pick(w.Host(r.nodes[0]) == w.Host(r.peer), w.Host(r.peer), ""),
			Channel: int(r.channel), Group: fmt.Sprintf("link %d->%d", a, b), Why: fmt.Sprintf("rank %d %s", a, w.flawText(r)),
		}}
	case rootGroup:
		if r.leaf.class != rca.Fault {
			return nil
		}
		if r.what == flawNotCome {
			return []rca.Culprit{{
				Rank: -1, Channel: -1, Host: w.Host(r.nodes[0]), Group: words.RankNumbers(w.IDs(r.nodes)),
				Why: words.OneOfGPUs,
			}}
		}
		return []rca.Culprit{{
			Rank: -1, Channel: -1, Host: w.Host(r.nodes[0]),
			Group: fmt.Sprintf(words.OneHostGroup, words.RankNumbers(w.IDs(r.nodes)), w.opGroup(r)), Why: words.OneOnHost,
		}}
	case rootMoving:
		return nil
	}
	var out []rca.Culprit
	for i, n := range r.nodes {
		c := w.Culprit(n)
		if c.NIC == "" && r.leaf.cause == rca.CauseNetworkSend {
			c.NIC = w.AilingNIC(n)
		}
		c.Channel = int(r.channel)
		c.Why = w.why(r, i)
		out = append(out, c)
	}
	return out
}

func (w *waitFor) opGroup(r *root) string {
	if r.inst < 0 {
		return "the group"
	}
	return w.Comms[w.insts[r.inst].key.comm].Name
}

func (w *waitFor) why(r *root, i int) string {
	switch r.kind {
	case rootFlaw:
		return w.flawText(r)
	case rootOdd:
		return "called " + w.insts[r.inst].odd.odd[i].value
	case rootDeadlock:
		for _, o := range r.order {
			if slices.Contains(o.ranks, r.nodes[i]) {
				return "entered " + w.opName(o.inst) + " first"
			}
		}
	}
	return r.leaf.note
}

func (w *waitFor) others(rs []root) string {
	s := ""
	for i := range rs {
		if i == 4 {
			return s + ", …"
		}
		s += pick(i > 0, ", ", "")
		switch {
		case rs[i].kind == rootLink:
			s += fmt.Sprintf("link %d->%d", w.Nodes[rs[i].nodes[0]].ID, w.Nodes[rs[i].peer].ID)
		case len(rs[i].nodes) > 0:
			s += w.RankList(rs[i].nodes) + " (" + string(rs[i].leaf.cause) + ")"
		default:
			s += w.opGroup(&rs[i])
		}
	}
	return s
}

func (w *waitFor) reportMissing(d *decision, v *rca.Verdict) {
	for i := range w.Ev.Missing {
		m := &w.Ev.Missing[i]
		v.Missing = append(v.Missing, fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why))
	}
	slices.Sort(v.Missing)
	if n := w.World - w.Seen; n > 0 {
		v.Missing = append(v.Missing, fmt.Sprintf(words.RanksUnseen, words.Plural(n, "rank"), words.Count(w.World)))
	}
	v.Ask = w.ask(d)
}

// ask lists the ranks whose evidence could change the answer: those at which the waiting ends unseen, first where the
// answer itself rests on them. What explains all that wait for a reason that nobody else's waiting can explain needs no
// more.
func (w *waitFor) ask(d *decision) []int {
	var out []int
	known := map[int32]bool{}
	add := func(rs []root) {
		from := len(out)
		for i := range rs {
			for _, n := range rs[i].ends() {
				nd := &w.Nodes[n]
				if nd.ID >= 0 && !known[n] && w.Unseen(n) {
					known[n] = true
					out = append(out, nd.ID)
				}
			}
		}
		slices.Sort(out[from:])
	}
	add(d.chosen)
	if d.covered < 1 || !slices.ContainsFunc(d.chosen, func(r root) bool { return r.leaf.hard }) {
		add(d.aside)
	}
	return out
}

// ends gives the nodes that a root is about: the culprits, and the other end of a link.
func (r *root) ends() []int32 {
	if r.peer < 0 {
		return r.nodes
	}
	return append(slices.Clone(r.nodes), r.peer)
}

// partners gives the ranks, of those not seen, that the suspects exchange data with: where no end is in sight the search goes
// on along the rings.
func (w *waitFor) partners(rs []root) []int {
	var out []int
	for _, r := range rs {
		for _, n := range r.ends() {
			for k := range w.acts[n] {
				a := &w.acts[n][k]
				for _, p := range w.PeersOn(a.comm, a.op) {
					if o := &w.Nodes[p]; o.ID >= 0 && w.Unseen(p) {
						out = append(out, o.ID)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// setAside lists who was considered and is not accused, and all explanations that were weighed.
func (w *waitFor) setAside(d *decision, v *rca.Verdict) {
	chosen := len(v.Hypotheses) == 0 // Else another has been accused in their place.
	for i := range d.chosen {
		w.weighed(&d.chosen[i], words.Opener(w.chosenFor(&d.chosen[i], d)), chosen, v)
	}
	for i := range d.aside {
		r := &d.aside[i]
		if len(v.RuledOut) == 16 {
			break
		}
		c := rca.Candidate{Rank: -1, Reason: words.ExplainsNobodyElse}
		switch {
		case r.kind == rootUnseen && w.Nodes[r.nodes[0]].ID >= 0:
			c.Rank, c.Reason = w.Nodes[r.nodes[0]].ID, words.SilentButExplained
		case r.kind == rootUnseen:
			c.Group, c.Reason = fmt.Sprintf(words.UnseenMembers, w.Comms[w.Nodes[r.nodes[0]].Comm].Name), words.NobodySeen
		case r.leaf.class == rca.Benign:
			c.Rank, c.Reason = w.Nodes[r.nodes[0]].ID, r.leaf.note
		case len(r.nodes) > 0 && r.kind != rootGroup:
			c.Rank = w.Nodes[r.nodes[0]].ID
		default:
			c.Group = w.opGroup(r)
		}
		v.RuledOut = append(v.RuledOut, c)
		w.weighed(r, words.Opener(c.Reason), false, v)
	}
	slices.SortStableFunc(v.RuledOut, func(a, b rca.Candidate) int { return cmp.Compare(a.Rank, b.Rank) })
}

// chosenFor says what a root that was chosen shows.
func (w *waitFor) chosenFor(r *root, d *decision) string {
	if r.kind == rootUnseen {
		return words.NotSeen
	}
	if len(r.nodes) > 0 && (r.kind == rootFlaw || r.kind == rootOutside || r.kind == rootDead) {
		return w.why(r, 0)
	}
	return w.sentence(r, d)
}

// weighed adds a root to the explanations that were weighed.
func (w *waitFor) weighed(r *root, reason string, chosen bool, v *rca.Verdict) {
	if len(v.Hypotheses) >= rca.MaxHypotheses {
		return
	}
	h := rca.Hypothesis{
		Class: r.leaf.class, Cause: r.leaf.cause, Weight: rca.Round(r.leaf.weight), Explains: w.waiting(r), Chosen: chosen, Reason: reason,
	}
	who := r.nodes
	if r.kind == rootLink {
		who = r.ends()
	}
	for _, n := range who {
		if id := w.Nodes[n].ID; id >= 0 && len(h.Ranks) < rca.MaxCulprits {
			h.Ranks = append(h.Ranks, id)
		}
	}
	slices.Sort(h.Ranks)
	if len(h.Ranks) == 0 {
		h.Group = w.opGroup(r)
		if r.kind == rootUnseen {
			h.Group = fmt.Sprintf(words.UnseenMembers, w.Comms[w.Nodes[r.nodes[0]].Comm].Name)
		}
	}
	v.Hypotheses = append(v.Hypotheses, h)
}
