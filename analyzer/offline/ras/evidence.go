// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Evidence turns reports of one job, in any order, into what the engine takes: the newest report's state, with what
// the older ones say about which counts still move. notes are statements for people that the engine cannot use.
//
// RAS numbers ranks per communicator. They are global ranks in a communicator of the whole job; without one in the
// reports the first communicator's numbers are used and the others' follow them, and global is false.
func Evidence(reports []*Report) (ev rca.Evidence, notes []string, global bool) {
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b *Report) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.File, b.File))
	})
	b := builder{Job: gather.New(0), byPlace: map[Process]int{}}
	latest, history := fold(reports)
	b.number(latest, reports)
	for _, c := range latest {
		b.communicator(c, history[c.Hash])
		b.unsettled(c)
	}
	for _, r := range reports {
		b.join(r)
		b.events(r)
		b.statements(r)
	}
	b.World = b.world
	return b.Evidence(), b.Notes, b.global
}

// seen is a communicator at an earlier moment.
type seen struct {
	at   time.Time
	comm *Comm
}

// fold gives every communicator's newest state, and its older ones, oldest first.
func fold(reports []*Report) (latest []*Comm, history map[string][]seen) {
	history = map[string][]seen{}
	for _, r := range reports {
		for _, c := range r.Comms {
			history[c.Hash] = append(history[c.Hash], seen{r.At, c})
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(history)) {
		h := history[hash]
		latest = append(latest, h[len(h)-1].comm)
	}
	slices.SortStableFunc(latest, func(a, b *Comm) int { return b.Size - a.Size })
	return latest, history
}

type builder struct {
	*gather.Job
	byPlace map[Process]int
	base    map[string]int // First rank number of a communicator whose ranks have no other.
	world   int
	global  bool
}

// number decides which communicator's ranks are the job's.
func (b *builder) number(latest []*Comm, reports []*Report) {
	gpus := 0
	for _, r := range reports {
		gpus = max(gpus, r.JobGPUs, r.JobProcesses)
	}
	places := map[Process]bool{}
	for _, c := range latest {
		for _, r := range c.Ranks {
			if r.Place.PID > 0 {
				places[r.Place] = true
			}
		}
	}
	b.base = map[string]int{}
	next := 0
	for i, c := range latest {
		b.base[c.Hash] = next
		next += c.Size
		if i == 0 {
			b.global = c.Size >= gpus && c.Size >= len(places)
			b.world = c.Size
		}
	}
}

// id gives the number of a communicator's rank: that of its process where that has one already.
func (b *builder) id(c *Comm, r *Rank) int {
	known := r.Place.PID > 0
	if n, ok := b.byPlace[r.Place]; ok && known {
		return n
	}
	n := b.base[c.Hash] + r.Rank
	if known {
		b.byPlace[r.Place] = n
	}
	return n
}

func (b *builder) communicator(c *Comm, history []seen) {
	id := rca.CommID(fmt.Sprintf("%s/%d", c.Hash, c.Size))
	to := b.Comm(id, c.Hash, c.Size)
	to.Members = slices.Repeat([]int{-1}, c.Size)
	for _, n := range slices.Sorted(maps.Keys(c.Ranks)) {
		r := c.Ranks[n]
		global := b.id(c, r)
		if n < c.Size {
			to.Members[n] = global
		}
		rank := b.rank(global, r.Place)
		b.facts(global, c, r)
		if r.Missing {
			b.Silent(global, "%s", missingWhy(c, r))
			if r.Dead {
				rank.State = rca.ProcessGone
			}
			continue
		}
		rank.Caps |= rca.SeesCalls
		rank.Memberships = append(rank.Memberships, membership(id, c, r, history))
	}
}

func missingWhy(c *Comm, r *Rank) string {
	why := "RAS got no data from it"
	switch {
	case r.Dead:
		why = "RAS considers its process dead"
	case r.Unresponsive:
		why = "RAS finds its process unresponsive"
	}
	if r.Place.PID > 0 {
		why += fmt.Sprintf(" (process %d on %s, GPU %s)", r.Place.PID, r.Place.Host, r.Place.GPU)
	}
	return fmt.Sprintf("%s, rank %d of communicator %s", why, r.Rank, c.Hash)
}

// membership gives a rank's launch counts. In a text report only differing functions have counts: their sum still
// orders the ranks.
func membership(id rca.CommID, c *Comm, r *Rank, history []seen) rca.Membership {
	m := gather.Member(id, r.Rank)
	complete := len(r.Launched) > 0
	for _, f := range c.Functions {
		_, ok := r.Launched[f]
		complete = complete && ok
	}
	if !complete {
		return m
	}
	m.Called = sum(r.Launched)
	m.FuncCalled = maps.Clone(r.Launched)
	// Walk back while the count is the same.
	now := history[len(history)-1].at
	for i := len(history) - 2; i >= 0; i-- {
		old := history[i].comm.Ranks[r.Rank]
		if old == nil || len(old.Launched) == 0 {
			break
		}
		if sum(old.Launched) != m.Called {
			m.SinceCalled = max(m.SinceCalled, 0)
			break
		}
		// Reports without a time are some time apart, if an unknown one.
		m.SinceCalled = max(now.Sub(history[i].at), time.Second)
	}
	return m
}

func sum(counts map[string]int64) int64 {
	var n int64
	for _, c := range counts {
		n += c
	}
	return n
}

func (b *builder) rank(id int, p Process) *rca.Rank {
	r := b.Rank(id)
	if p.PID > 0 {
		r.Host, r.PID, r.GPU = p.Host, p.PID, p.GPU
	}
	return r
}

func (b *builder) facts(id int, c *Comm, r *Rank) {
	add := func(kind, text string) {
		b.Process(id, r.Place.Host, kind, "RAS: rank %d of communicator %s %s", r.Rank, c.Hash, text)
	}
	if r.Dead {
		add("ras_dead", "is considered dead")
	} else if r.Unresponsive || r.Missing {
		add("ras_unresponsive", "did not answer")
	}
	if r.InitError != "" {
		add("ras_init_error", "failed to initialise: "+r.InitError)
	}
	if r.AsyncError != "" {
		add("ras_async_error", "has an asynchronous error: "+r.AsyncError)
	}
	if r.Aborted || r.Status == "ABORT" {
		add("ras_abort", "was aborted")
	}
	if r.Finalizing || r.Status == "FINALIZE" {
		add("ras_finalizing", "is being finalised")
	}
	if r.Initializing || r.Status == "INIT" {
		add("ras_initializing", "is still initialising")
	}
}

// join takes the one process that is missing or dead for the one rank that is, where text names both but not as one.
func (b *builder) join(r *Report) {
	lost := map[Process]bool{}
	for _, e := range r.Events {
		if _, known := b.byPlace[e.Process]; !known {
			lost[e.Process] = true
		}
	}
	var unplaced []int
	for _, c := range r.Comms {
		for _, n := range slices.Sorted(maps.Keys(c.Ranks)) {
			if c.Ranks[n].Missing && c.Ranks[n].Place.PID == 0 {
				unplaced = append(unplaced, b.id(c, c.Ranks[n]))
			}
		}
	}
	slices.Sort(unplaced)
	if unplaced = slices.Compact(unplaced); len(lost) == 1 && len(unplaced) == 1 {
		for p := range lost {
			b.byPlace[p] = unplaced[0]
		}
	}
}

// unsettled adds that counts differ where it is not known whose.
func (b *builder) unsettled(c *Comm) {
	for _, f := range c.Unsettled {
		b.Process(-1, "", "ras_unsettled", "RAS: ranks of communicator %s have launched different numbers of %s, and the report does not say which", c.Hash, f)
	}
}

// events adds what was said of processes; the last word about one holds.
func (b *builder) events(r *Report) {
	if r.AllOK {
		b.Process(-1, "", "ras_all_alike", "RAS: all communicators launched alike")
	}
	for _, e := range r.Events {
		id, ok := b.byPlace[e.Process]
		if !ok {
			id = -1
			for p, n := range b.byPlace {
				if p.PID == e.PID && p.Host == e.Host {
					id = n
				}
			}
		}
		kind := map[string]string{
			"dead": "ras_dead", "missing": "ras_unresponsive", "unresponsive": "ras_unresponsive", "recovered": "ras_recovered",
		}[e.Kind]
		b.Process(id, e.Host, kind, "RAS: process %d on %s (GPU %s) %s", e.PID, e.Host, e.GPU, e.Kind)
		if id < 0 {
			b.Lacks("process", fmt.Sprintf("%d on %s, GPU %s", e.PID, e.Host, e.GPU), "RAS: %s", e.Kind)
		} else if e.Kind == "dead" {
			b.rank(id, e.Process).State = rca.ProcessGone
		}
	}
}

// statements says what a report holds beyond counts.
func (b *builder) statements(r *Report) {
	if r.Timeouts > 0 {
		b.Note("%s: %d communication timeouts while collecting: some process answers late or not at all", r.File, r.Timeouts)
	}
	for _, c := range r.Comms {
		ahead := 0
		for _, u := range c.Unlisted {
			if u.Function != "" {
				ahead++
			}
		}
		if ahead > 1 {
			b.Note("%s: communicator %s: the report does not say which ranks have which count", r.File, c.Hash)
		}
	}
	if r.AllOK {
		b.Note("%s: all communicators launched alike; RAS does not see whether launched operations complete", r.File)
	}
}
