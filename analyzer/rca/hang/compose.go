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

// answer is what a verdict says of a decision: a row of the table, whose weight is how far all of it is believed, with whom it accuses.
type answer struct {
	row
	culprits []rca.Culprit
	summary  string
	ask      []int // Ranks that would decide, beside those at which the waiting ends.
}

// answer names the chosen where one of them is strong or all that speaks against them leaves enough (Options.NameConfidence); else it
// widens to a group of suspects.
func (w *waitFor) answer(d *decision) answer {
	a := answer{culprits: []rca.Culprit{}}
	confidence := w.confidence(d)
	switch {
	case len(d.chosen) == 0:
		a.row, a.summary = unexplained, fmt.Sprintf(words.Unexplained, words.Opener(words.Plural(len(w.stuck), "rank")))
	case d.unseen:
		return w.ofUnseen(d, confidence)
	case !slices.ContainsFunc(d.chosen, func(c candidate) bool { return c.strong() }) && (d.tied || confidence < w.Opt.NameConfidence):
		first := &d.chosen[0]
		a.row = first.row
		a.class, a.cause = rca.Unknown, rca.CauseUnknown
		a.summary = words.Opener(w.sentence(first)) + words.TooWeak
		if w.Ev.Partial {
			a.ask = w.partners(d.chosen)
		}
		if first.kind != kindMoving {
			a.culprits = append(a.culprits, rca.Culprit{Rank: -1, Channel: -1, Group: "suspects: " + w.listed(d.chosen, w.suspect), Why: words.WeakEvidence})
		}
	default:
		a.row = d.chosen[0].row
		first, rest := alike(d.chosen)
		a.summary = words.Opener(w.sentence(&first))
		for i := range d.chosen {
			a.accuse(w, &d.chosen[i])
		}
		if len(rest) > 0 {
			a.summary += fmt.Sprintf(words.AlsoFound, w.listed(rest, w.alsoFound))
		}
	}
	a.weight = confidence
	return a
}

// compose writes the verdict of a job that stands still.
func (w *waitFor) compose(d *decision) rca.Verdict {
	d.chosen = w.joinProcesses(d.chosen)
	a := w.answer(d)
	v := job.NewVerdict(w.Index)
	v.Class, v.Cause, v.Code, v.Confidence = a.class, a.cause, a.class.Code(), rca.Round(a.weight)
	v.Row, v.Culprits, v.Summary = a.name, a.culprits, a.summary
	v.RanksVisited = w.visited()
	v.Stalled, v.WorldSize = max(len(w.stuck), w.Ev.Standing), w.World
	w.reportMissing(d, &v)
	if len(v.Ask) == 0 {
		v.Ask = a.ask
	}
	if !w.Over {
		v.Stuck = w.longest()
	}
	if v.Class == rca.Unknown {
		v.Standstill = w.still().Seconds()
	}
	if len(d.chosen) == 0 {
		v.Action = rca.ActionFor(rca.Unknown, rca.CauseUnknown)
		return v
	}
	first := &d.chosen[0]
	if w.Ev.Partial && w.Ev.Standing > 0 {
		v.Summary += fmt.Sprintf(words.BlastRadius, words.Count(w.Ev.Standing), words.Plural(w.World, "rank"))
	}
	v.Comm, v.Op = w.place(first.inst)
	v.Action = cmp.Or(first.action, rca.ActionFor(v.Class, v.Cause))
	if len(v.Culprits) > 0 {
		v.Action = cmp.Or(first.action, rca.ActionForFacts(v.Cause, &v.Culprits[0], w.Apart), v.Action)
	}
	v.Waited = rca.Round(w.waited(first).Seconds())
	v.Chain = w.chain(first)
	v.Waits = w.waitGroups(d, v.Culprits)
	for i := range d.chosen {
		v.RestsOn = append(v.RestsOn, w.IDs(d.chosen[i].ends())...)
	}
	w.addEvidence(d, &v)
	w.weigh(d, &a, &v)
	v.Unheard = a.is(&hostHangs)
	v.MayGetOn = v.Unheard || !slices.ContainsFunc(d.chosen, func(c candidate) bool { return !w.mayGetOn(&c) })
	return v
}

// mayGetOn reports whether a candidate is GPUs that may get on by themselves: they load kernels for one of the job's first operations, or
// compute what comes before one that no GPU is known to be in, or where no kernels are seen; and their nodes show no error of them.
func (w *waitFor) mayGetOn(r *candidate) bool {
	gpu := r.cause == rca.CauseGPU || r.cause == rca.CauseKernelNotRunning
	if !gpu || r.kind != kindFlaw && r.kind != kindGroup || r.inst < 0 {
		return false
	}
	in := &w.insts[r.inst]
	computes := r.cause == rca.CauseKernelNotRunning && in.begun == 0
	for _, n := range r.nodes {
		if w.Ailing(n, job.GPUAilment) {
			return false
		}
		j := w.part(in, n)
		computes = computes || j == nil || unbegun(w.Nodes[n].Rank, j.op)
	}
	return computes || r.kind == kindFlaw && w.firstStep(r.nodes[0], r.inst)
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

// waited gives how long others have waited in the operation that a candidate keeps from going on.
func (w *waitFor) waited(r *candidate) time.Duration {
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

// waiting counts the ranks that stand still for a candidate, itself not counted.
func (w *waitFor) waiting(r *candidate) int {
	_, dist := w.cover([]candidate{*r})
	n := 0
	for _, s := range w.stuck {
		if dist[s] >= 0 && !slices.Contains(r.nodes, s) {
			n++
		}
	}
	return n
}

// sentence says what happened, for a tired person.
func (w *waitFor) sentence(c *candidate) string {
	age, n, op := "", w.waiting(c), w.opName(c.inst)
	// Younger ones are lower bounds, of sources that do not tell when they were asked and to which anything pending is stuck.
	if c.inst >= 0 && w.insts[c.inst].age >= max(w.Opt.HangAfter, time.Second) {
		age = " for " + words.Span(w.insts[c.inst].age)
	}
	one := len(c.nodes) == 1
	waiters := words.Plural(n, "rank") + pick(n == 1, " has", " have") + " been waiting"
	wait := pick(w.Ev.Partial, "At least ", "") + waiters + pick(len(c.nodes) > 1, " for them", " for it") // Of those asked.
	note := pick(len(c.nodes) > 1, words.OfSeveral(c.note), c.note)
	who := ""
	if len(c.nodes) > 0 {
		who = w.RankList(c.nodes)
	}
	switch c.kind {
	case kindOutside:
		return fmt.Sprintf(words.NotCalled, who, pick(one, "has", "have"), w.missedName(c.inst), age, wait, note)
	case kindAhead:
		return fmt.Sprintf(words.AloneAhead,
			who, pick(one, "is", "are"), op, age, words.Opener(words.RankNumbers(w.IDs(c.others))), pick(len(c.others) == 1, "has", "have"))
	case kindDead:
		who, note := w.endsOf(c)
		if c.inst < 0 {
			return fmt.Sprintf(words.Died, who, note)
		}
		return fmt.Sprintf(words.DiedInside, who, note, wait, op, age)
	case kindFlaw:
		if c.class == rca.Benign {
			return fmt.Sprintf(words.FlawedYet, who, w.flawText(c), wait, age, note)
		}
		return fmt.Sprintf(words.Flawed, who, w.flawText(c), wait, age)
	case kindLink:
		return fmt.Sprintf(words.LinkStalled, who, w.RankName(c.peer), waiters, age)
	case kindOdd:
		return w.oddSentence(c)
	case kindDeadlock:
		return w.deadlockSentence(c)
	case kindMoving:
		return fmt.Sprintf(words.StillMoves, who)
	}
	switch {
	case c.kind == kindGroup && c.is(&gpuNotCome):
		return fmt.Sprintf(words.GPUsSilent, words.RankNumbers(w.IDs(c.nodes)), op, age)
	case c.kind == kindGroup && c.class == rca.Fault && !one && !w.allOf(c):
		return fmt.Sprintf(words.HostStands, w.Host(c.nodes[0]), op, age, words.RankNumbers(w.IDs(c.nodes)))
	case c.kind == kindGroup && c.class == rca.Fault && !one:
		return fmt.Sprintf(words.HostStalled, who, w.Host(c.nodes[0]), op, age)
	case one:
		return fmt.Sprintf(words.SeenAlone, words.Opener(who), op, age)
	}
	return fmt.Sprintf(words.AllAlike, words.Plural(len(c.nodes), "member"), op, age)
}

// listed joins what is to be said of some candidates, the first few of them.
func (w *waitFor) listed(cs []candidate, say func(*candidate) string) string {
	const few = 4
	var parts []string
	for i := range cs[:min(few, len(cs))] {
		parts = append(parts, say(&cs[i]))
	}
	if len(cs) > few {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}

// suspect names a candidate that is too weak to accuse.
func (w *waitFor) suspect(c *candidate) string {
	switch {
	case c.kind == kindLink:
		return w.linkName(c)
	case c.kind == kindAhead:
		return words.RankNumbers(w.IDs(c.nodes)) + fmt.Sprintf(words.OrHolder, words.RankNumbers(w.IDs(c.others)))
	case c.kind == kindGroup || len(c.nodes) == 0:
		return "members of " + w.opGroup(c)
	}
	return words.RankNumbers(w.IDs(c.nodes))
}

// alsoFound names a candidate beside the first.
func (w *waitFor) alsoFound(c *candidate) string {
	switch {
	case c.kind == kindLink:
		return w.linkName(c)
	case len(c.nodes) > 0:
		return w.RankList(c.nodes) + " (" + string(c.cause) + ")"
	}
	return w.opGroup(c)
}

func (w *waitFor) linkName(c *candidate) string {
	return fmt.Sprintf("link %d->%d", w.Nodes[c.nodes[0]].ID, w.Nodes[c.peer].ID)
}

func (w *waitFor) oddSentence(r *candidate) string {
	in := &w.insts[r.inst]
	od := in.odd
	if od.tie {
		var s strings.Builder
		s.WriteString(fmt.Sprintf(words.Disagreement, od.field, in.shownPlace(), w.Comms[in.key.comm].Name))
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
		w.RankList(r.nodes), od.odd[0].value, in.shownPlace(), w.Comms[in.key.comm].Name, od.common, od.field)
}

func (w *waitFor) deadlockSentence(r *candidate) string {
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

// accuse adds a candidate's culprits to an answer; those of another class or cause than the answer's say so.
func (a *answer) accuse(w *waitFor, c *candidate) {
	for _, k := range w.culpritsOf(c) {
		if len(a.culprits) >= rca.MaxCulprits {
			return
		}
		if slices.ContainsFunc(a.culprits, func(o rca.Culprit) bool { return o.Rank == k.Rank && (k.Rank >= 0 || o.Group == k.Group) }) {
			continue
		}
		if c.class != a.class || c.cause != a.cause {
			k.Class, k.Cause, k.Action = c.class, c.cause, cmp.Or(c.action, rca.ActionFor(c.class, c.cause))
		}
		k.Waited = w.waited(c).Seconds()
		a.culprits = append(a.culprits, k)
	}
}

func (w *waitFor) culpritsOf(c *candidate) []rca.Culprit {
	if c.kind == kindMoving || c.kind == kindGroup && c.class != rca.Fault {
		return nil
	}
	if c.kind == kindLink || c.kind == kindGroup {
		k := rca.Culprit{Rank: -1, Channel: -1, Host: w.Host(c.nodes[0]), Group: words.RankNumbers(w.IDs(c.nodes)), Why: words.OneOfGPUs}
		switch {
		case c.kind == kindLink:
			k.Channel, k.Group = int(c.channel), w.linkName(c)
			k.Why = fmt.Sprintf("rank %d %s", w.Nodes[c.nodes[0]].ID, w.flawText(c))
			if w.Host(c.peer) != k.Host {
				k.Host = ""
			}
		case !c.is(&gpuNotCome) && w.allOf(c):
			k.Group, k.Why = fmt.Sprintf(words.OneHostGroup, k.Group, w.opGroup(c)), words.OneOnHost
		}
		return []rca.Culprit{k}
	}
	var out []rca.Culprit
	for _, n := range c.nodes {
		k := w.Culprit(n)
		if k.NIC == "" && c.cause == rca.CauseNetworkSend {
			k.NIC = w.AilingNIC(n)
		}
		k.Channel = int(c.channel)
		k.Why = w.why(c, n)
		k.Stays = c.kind == kindOutside && stays(w.Nodes[n].Rank)
		out = append(out, k)
	}
	return out
}

// allOf reports whether the ranks of a group all belong to its operation. Others may hold it up in one before it.
func (w *waitFor) allOf(c *candidate) bool {
	return c.inst < 0 || !slices.ContainsFunc(c.nodes, func(n int32) bool { return w.Comms[w.insts[c.inst].key.comm].Find(n) == nil })
}

func (w *waitFor) opGroup(c *candidate) string {
	if c.inst < 0 {
		return "the group"
	}
	return w.Comms[w.insts[c.inst].key.comm].Name
}

// why says what a candidate shows of one of its ranks.
func (w *waitFor) why(c *candidate, n int32) string {
	switch c.kind {
	case kindFlaw:
		return w.flawText(c)
	case kindOdd:
		for _, o := range w.insts[c.inst].odd.odd {
			if o.node == n {
				return "called " + o.value
			}
		}
	case kindDeadlock:
		for _, o := range c.order {
			if slices.Contains(o.ranks, n) {
				return "entered " + w.opName(o.inst) + " first"
			}
		}
	}
	return c.note
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
	add := func(rs []candidate) {
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
	if d.covered < 1 || !slices.ContainsFunc(d.chosen, func(r candidate) bool { return r.strong() }) {
		add(d.aside)
	}
	return out
}

// ends gives the nodes that a candidate is about: the culprits, and the other end of a link.
func (r *candidate) ends() []int32 {
	if r.peer < 0 {
		return r.nodes
	}
	return append(slices.Clone(r.nodes), r.peer)
}

// partners gives the ranks, of those not seen, that the suspects exchange data with: where no end is in sight the search goes
// on along the rings.
func (w *waitFor) partners(rs []candidate) []int {
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

// weigh lists who was considered and is not accused, and all explanations that were weighed, each with its row of the table.
func (w *waitFor) weigh(d *decision, a *answer, v *rca.Verdict) {
	chosen := !d.unseen || a.class == rca.Unknown
	if !chosen { // It names more than one of the candidates, or another one in their place.
		h := rca.Hypothesis{Row: a.name, Class: a.class, Cause: a.cause, Weight: v.Confidence, Explains: len(w.stuck), Chosen: true, Reason: words.Opener(v.Culprits[0].Why)}
		for i := range v.Culprits {
			h.Ranks = append(h.Ranks, v.Culprits[i].Rank)
		}
		v.Hypotheses = append(v.Hypotheses, h)
	}
	for i := range d.chosen {
		c := &d.chosen[i]
		reason := ""
		switch {
		case c.kind == kindUnseen:
			reason = words.NotSeen
		case len(c.nodes) > 0 && (c.kind == kindFlaw || c.kind == kindOutside || c.kind == kindDead):
			reason = w.why(c, c.nodes[0])
		default:
			reason = w.sentence(c)
		}
		w.weighed(c, pick(d.unseen && chosen, a.name, c.name), words.Opener(reason), chosen, v)
	}
	for i := range d.aside {
		c := &d.aside[i]
		if len(v.RuledOut) == 16 {
			break
		}
		k := rca.Candidate{Rank: -1, Group: w.opGroup(c), Reason: words.ExplainsNobodyElse}
		if len(c.nodes) > 0 && c.kind != kindGroup {
			k.Rank, k.Group = w.Nodes[c.nodes[0]].ID, ""
		}
		switch {
		case c.kind == kindUnseen && k.Rank >= 0:
			k.Reason = words.UnseenButExplained
		case c.kind == kindUnseen:
			k.Group, k.Reason = w.unseenMembers(c), words.NobodySeen
		case c.class == rca.Benign:
			k.Reason = c.note
		}
		v.RuledOut = append(v.RuledOut, k)
		w.weighed(c, c.name, words.Opener(k.Reason), false, v)
	}
	slices.SortStableFunc(v.RuledOut, func(a, b rca.Candidate) int { return cmp.Compare(a.Rank, b.Rank) })
}

func (w *waitFor) unseenMembers(c *candidate) string {
	return fmt.Sprintf(words.UnseenMembers, w.Comms[w.Nodes[c.nodes[0]].Comm].Name)
}

// weighed adds a candidate to the explanations that were weighed.
func (w *waitFor) weighed(c *candidate, name, reason string, chosen bool, v *rca.Verdict) {
	if len(v.Hypotheses) >= rca.MaxHypotheses {
		return
	}
	h := rca.Hypothesis{
		Row: name, Class: c.class, Cause: c.cause, Weight: rca.Round(c.weight), Explains: w.waiting(c), Chosen: chosen, Reason: reason,
	}
	h.Ranks = w.IDs(pick(c.kind == kindLink, c.ends(), c.nodes))
	if len(h.Ranks) == 0 {
		h.Ranks, h.Group = nil, w.opGroup(c)
		if c.kind == kindUnseen {
			h.Group = w.unseenMembers(c)
		}
	}
	v.Hypotheses = append(v.Hypotheses, h)
}
