// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Result is what the logs of one job give.
type Result struct {
	Evidence rca.Evidence
	Notes    []string // What was assumed, and what is quoted.
	Findings []told.Finding
	// Processes are those of the job, of ranks that say nothing as well.
	Processes *told.Directory
}

// Evidence turns the logs of one job into what the engine takes. known are the groups that other sources tell of: a log names a
// group without its members. world is how many ranks the job has, where that is known from elsewhere; else 0.
func Evidence(logs []*Log, known []rca.Comm, world int) Result {
	b := builder{
		Job: gather.New(rca.SeesCalls | rca.SeesCompletion), known: known, bus: map[int]string{}, numbers: map[rca.CommID]map[int64]bool{}, stated: world, room: mostMembers,
	}
	b.World = world
	assumed, attempts, repeats, dropped := false, 0, 0, 0
	for _, l := range logs {
		assumed = assumed || l.Assumed
		attempts = max(attempts, l.Attempts)
		b.World, b.stated = max(b.World, l.World), max(b.stated, l.World)
		repeats += l.Repeats
		dropped += l.Dropped
		for r := range l.Ranks {
			b.Rank(r)
		}
	}
	states := merge(logs)
	attribute(states)
	b.survey(states)
	b.joins(logs)
	b.whole()
	for _, place := range slices.SortedFunc(maps.Keys(states), before) {
		b.member(place, states[place])
	}
	b.loosely(logs)
	b.blame(logs, states)
	b.lost(logs)
	b.watched(logs)
	b.elsewhere(logs, states)
	if attempts > 1 {
		b.Note("the job was started %d times: the last is what counts", attempts)
	}
	if repeats > 0 {
		b.Note("the log leaves out %d lines as repeated by other processes: ranks without a line of their own are not silent", repeats)
	}
	if dropped+b.outside > 0 {
		b.Note("more operations and groups time out than in a real job: %d were left out", dropped+b.outside)
	}
	if assumed {
		b.Note("messages do not name global ranks: ranks of groups were taken for them")
	}
	who := b.directory(logs)
	found := b.findings(logs, who)
	b.silences(logs, repeats > 0)
	return Result{b.Evidence(), b.Notes, found, who}
}

// mostMembers bounds how many members all groups together have: what a log says of groups may be made up.
const mostMembers = 1 << 20

func before(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Group, b.Group))
}

// merge joins what several files say of the same place: the newest counters are the largest.
func merge(logs []*Log) map[Place]*State {
	out := map[Place]*State{}
	for _, l := range logs {
		for place, s := range l.States {
			have := out[place]
			if have == nil {
				out[place] = s
				continue
			}
			sum := *have
			sum.Enqueued, sum.Started, sum.Completed = max(have.Enqueued, s.Enqueued), max(have.Started, s.Started), max(have.Completed, s.Completed)
			sum.Desc, sum.GroupRank = cmp.Or(have.Desc, s.Desc), max(have.GroupRank, s.GroupRank)
			sum.Ops = slices.Concat(have.Ops, s.Ops)
			out[place] = &sum
		}
	}
	return out
}

// attribute gives operations of which the message names no group to the one group of their rank in which their number is pending, else
// to the one in which it is on other ranks.
func attribute(states map[Place]*State) {
	const mostNumbered = 256 // With more groups a number is pending in several.
	type span struct{ completed, enqueued int64 }
	own := map[int]map[string]span{} // By rank.
	all := map[string]span{}         // The lowest completed and the highest enqueued of each group.
	for place, s := range states {
		if place.Group == "" || s.Enqueued <= s.Completed {
			continue
		}
		if own[place.Rank] == nil {
			own[place.Rank] = map[string]span{}
		}
		mine := span{s.Completed, s.Enqueued}
		own[place.Rank][place.Group] = mine
		if have, ok := all[place.Group]; ok {
			mine = span{min(have.completed, mine.completed), max(have.enqueued, mine.enqueued)}
		}
		all[place.Group] = mine
	}
	pending := func(groups map[string]span, seq int64) (group string, n int) {
		for name, g := range groups {
			if seq > g.completed && seq <= g.enqueued {
				group = name
				n++
			}
		}
		return group, n
	}
	for _, place := range slices.SortedFunc(maps.Keys(states), before) {
		if place.Group != "" {
			continue
		}
		s := states[place]
		s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool {
			group, n := pending(own[place.Rank], op.Seq)
			if n == 0 && s.Enqueued < 0 && len(all) <= mostNumbered {
				group, n = pending(all, op.Seq)
			}
			if n != 1 {
				return false
			}
			to := states[Place{place.Rank, group}]
			if to == nil {
				to = &State{GroupRank: s.GroupRank, Enqueued: -1, Started: -1, Completed: -1}
				states[Place{place.Rank, group}] = to
			}
			to.Ops = append(to.Ops, op)
			return true
		})
		if len(s.Ops) == 0 && s.Enqueued < 0 {
			delete(states, place)
		}
	}
	for _, s := range states {
		slices.SortStableFunc(s.Ops, func(x, y Op) int { return cmp.Compare(x.Seq, y.Seq) })
		s.Ops = slices.CompactFunc(s.Ops, func(x, y Op) bool { return x.Seq == y.Seq && x.Type == y.Type })
	}
}

type builder struct {
	*gather.Job
	known []rca.Comm
	// waiting are the ranks whose communication broke off, with how; over: all ended together, and nobody waited.
	waiting map[int]*Exception
	over    bool
	// interrupted is the one rank that was.
	interrupted int
	// bus are the PCI addresses of ranks' GPUs. stated is how many ranks the job has, where something says so.
	bus     map[int]string
	stated  int
	numbers map[rca.CommID]map[int64]bool // Of operations that are pending in each group.
	room    int                           // For members of groups; outside counts what found none.
	outside int
	found   []told.Finding
	loose   map[int]string
	// own are groups whose name stands for several, as different ranks have the same place in it.
	own map[string]bool
}

// survey finds the groups and who is where in them.
func (b *builder) survey(states map[Place]*State) {
	at := map[string]map[int]int{}
	b.own = map[string]bool{}
	for _, place := range slices.SortedFunc(maps.Keys(states), before) {
		s := states[place]
		b.Rank(place.Rank)
		if at[place.Group] == nil {
			at[place.Group] = map[int]int{}
		}
		if other, taken := at[place.Group][s.GroupRank]; taken && other != place.Rank && s.GroupRank >= 0 {
			b.own[place.Group] = true
		}
		at[place.Group][s.GroupRank] = place.Rank
	}
	b.unnamed(states)
	for place, s := range states {
		c := b.comm(place, s)
		if s.GroupRank < 0 || s.GroupRank >= maxRank || b.isKnown(c) {
			continue
		}
		if more := s.GroupRank + 1 - len(c.Members); more > 0 && !b.fits(more) {
			continue
		}
		gather.Place(c, s.GroupRank, place.Rank)
	}
	for _, name := range slices.Sorted(maps.Keys(b.own)) {
		if name == "" {
			b.Note("messages do not name the group and tell of different operations: ranks are not compared")
			continue
		}
		b.Note("several groups are called %s: the log does not say who is in which, so they are not compared", orUnnamed(name))
	}
}

// unnamed: messages of old versions name no group. Ranks that time out at one number are taken to be in one; different
// numbers may be different groups.
func (b *builder) unnamed(states map[Place]*State) {
	at := map[int64][]int{}
	what := map[int64]string{}
	for _, place := range slices.SortedFunc(maps.Keys(states), before) {
		if s := states[place]; place.Group == "" && len(s.Ops) > 0 {
			at[s.Ops[0].Seq] = append(at[s.Ops[0].Seq], place.Rank)
			what[s.Ops[0].Seq] = flightrecorder.Canonical(s.Ops[0].Type)
		}
	}
	const few = 4 // More places are several groups' for sure.
	if len(at) < 2 {
		return
	}
	if b.own[""] = true; len(at) > few {
		return
	}
	var parts []string
	for _, seq := range slices.Sorted(maps.Keys(at)) {
		parts = append(parts, fmt.Sprintf("%s at %s #%d", told.Ranks(at[seq]), what[seq], seq))
	}
	f := told.New(grammar.Apart, "Ranks time out at different numbers: "+strings.Join(parts, ", "))
	f.Whole = true
	b.found = append(b.found, f)
}

func orUnnamed(s string) string {
	if s == "" {
		return "nothing"
	}
	return `"` + s + `"`
}

// knownComm finds the group in what other sources tell.
func (b *builder) knownComm(place Place, s *State) *rca.Comm {
	var found *rca.Comm
	for i := range b.known {
		c := &b.known[i]
		if (c.Name == name(place, s) || c.Name == place.Group || strings.HasSuffix(c.Name, fmt.Sprintf(" %q", place.Group))) && slices.Contains(c.Members, place.Rank) {
			if found != nil {
				return nil
			}
			found = c
		}
	}
	return found
}

func name(place Place, s *State) string {
	if s.Desc == "" || s.Desc == place.Group {
		return place.Group
	}
	return fmt.Sprintf("%s %q", s.Desc, place.Group)
}

// comm gives the group, as other sources know it or as the log names it.
func (b *builder) comm(place Place, s *State) *rca.Comm {
	if known := b.knownComm(place, s); known != nil {
		return b.Adopt(*known)
	}
	id := rca.CommID("watchdog " + place.Group)
	if b.own[place.Group] {
		id = rca.CommID(fmt.Sprintf("watchdog %s of rank %d", place.Group, place.Rank))
	}
	return b.Comm(id, cmp.Or(name(place, s), "NCCL group"), 0)
}

// whole gives the group of all ranks its members: whoever says nothing is in it too. Where messages name no group, and the job's
// size is known, ranks that wait at one number and have their own rank as their place are in that group.
func (b *builder) whole() {
	for _, c := range b.Comms() {
		named := c.ID == "watchdog 0" || strings.HasPrefix(c.Name, defaultGroup)
		if c.ID == "watchdog " {
			named = b.stated > 0 && b.stated >= b.World && !b.own[""] && inPlace(c.Members)
		}
		if !named || b.own["0"] || len(c.Members) > b.World || b.isKnown(c) {
			continue
		}
		if b.sparse() {
			c.Size = b.World
			continue
		}
		if !b.fits(b.World) {
			continue
		}
		c.Members, c.Size = gather.All(b.World), b.World
		if b.stated < b.World && b.Seen() < b.World {
			c.Size = b.World + 1 // Part of a log says nothing of how many there are.
		}
	}
}

// fits reports whether there is room for more members of groups.
func (b *builder) fits(n int) bool {
	if b.room -= n; b.room < 0 {
		b.outside++
	}
	return b.room >= 0
}

// sparse reports whether nearly all ranks of a large job say nothing: to hold each of them against the few that do tells nothing.
func (b *builder) sparse() bool {
	const many, share = 1 << 12, 16
	return b.World > many && share*b.Seen() < b.World
}

// inPlace reports whether each member known has its own number as its place.
func inPlace(members []int) bool {
	for i, r := range members {
		if r >= 0 && r != i {
			return false
		}
	}
	return true
}

func (b *builder) isKnown(c *rca.Comm) bool {
	return slices.ContainsFunc(b.known, func(k rca.Comm) bool { return k.ID == c.ID })
}

// pairwise are operations of which not all members of the group are part.
var pairwise = map[string]bool{"SEND": true, "RECV": true, "COALESCED": true, "RECVANYSOURCE": true, "UNKNOWN": true}

// member says what the watchdog says of a rank in a group.
func (b *builder) member(place Place, s *State) {
	c := b.comm(place, s)
	m := gather.Member(c.ID, s.GroupRank)
	m.Called, m.Started, m.Completed = s.Enqueued, s.Started, s.Completed
	if m.CommRank < 0 {
		m.CommRank = slices.Index(c.Members, place.Rank)
	}
	first := int64(-1)
	for i := range s.Ops {
		op := &s.Ops[i]
		if pairwise[op.Type] {
			// Sends and receives count for themselves, and do not say with whom.
			m.Called, m.Completed = -1, -1
			b.Note("rank %d waits in %s %d of group %s; the log does not say with whom", place.Rank, op.Type, op.Seq, orUnnamed(place.Group))
			continue
		}
		if m.Called >= 0 {
			m.Called = max(m.Called, op.Seq)
		}
		if m.Completed < 0 && first < 0 {
			m.Completed = op.Seq - 1
		}
		if first < 0 || op.Seq < first {
			first = op.Seq
		}
		m.InFlight = append(m.InFlight, operation(op))
	}
	if s.Enqueued < 0 && len(m.InFlight) > 0 {
		m.Called = m.InFlight[len(m.InFlight)-1].Seq
	}
	if next := s.Completed + 1; s.Completed >= 0 && m.Called >= next && first != next && b.numbered(c.ID, next) {
		m.InFlight = append([]rca.Op{operation(&Op{Seq: next, In: -1, Out: -1, Ran: -1})}, m.InFlight...)
	}
	r := b.Rank(place.Rank)
	if s.Started >= 0 {
		r.Caps |= rca.SeesKernels
		for i := range m.InFlight {
			o := &m.InFlight[i]
			o.Channels, o.KernelStarted, o.KernelStopped = 1, 0, 0
			if o.Seq <= s.Started {
				o.KernelStarted, o.State = 1, rca.OpEntered
			}
		}
	}
	if m.Called >= 0 || len(m.InFlight) > 0 {
		r.Memberships = append(r.Memberships, m)
	}
}

// numbered reports whether an operation's number may be told of in a group: of few numbers only, as in any job that is real.
func (b *builder) numbered(id rca.CommID, seq int64) bool {
	if b.numbers[id] == nil {
		b.numbers[id] = map[int64]bool{}
	}
	if !b.numbers[id][seq] && len(b.numbers[id]) == mostNumbers {
		b.outside++
		return false
	}
	b.numbers[id][seq] = true
	return true
}

func operation(o *Op) rca.Op {
	op := gather.Op(flightrecorder.Canonical(o.Type))
	op.Number, op.Seq, op.Age, op.Stack = o.Seq-1, o.Seq, o.Ran, o.Stack
	switch op.Func {
	case "all_reduce", "broadcast", "reduce":
		op.Count = o.In
	case "barrier":
		op.Barrier = true
	}
	return op
}

// NoLine is why a rank is missing that a log does not show at all.
const NoLine = "the log has no line of it"

// silences says of which ranks the log shows nothing that can be compared, and settles how large groups are.
func (b *builder) silences(logs []*Log, partly bool) {
	for _, c := range b.Comms() {
		if c.Size = max(c.Size, len(c.Members)); !b.isKnown(c) && slices.Contains(c.Members, -1) {
			c.Size++
		}
	}
	if b.sparse() {
		b.Lacks("ranks", fmt.Sprintf("%d of %d", b.World-b.Seen(), b.World), "the log has no line of them")
		return
	}
	waiting := slices.ContainsFunc(b.Shown(), func(id int) bool { return len(b.Rank(id).Memberships) > 0 })
	for id := range b.World {
		quiet := b.Shows(id) && len(b.Rank(id).Memberships) == 0 && waiting && b.Rank(id).State == rca.ProcessUnknown
		switch known := b.Shows(id); {
		case known && !quiet:
		case partly, slices.ContainsFunc(logs, func(l *Log) bool { return l.CutOff == id }): // That its lines are not there is no silence.
			b.Hide(id)
		case !known:
			b.Silent(id, NoLine)
		default:
			b.Hide(id)
			b.Silent(id, "the log does not say what it did: no message of its watchdog, and no exception of its own")
		}
	}
}
