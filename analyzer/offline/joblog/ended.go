// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
)

// death is how a rank's process ended by itself.
type death struct {
	End
	exception *Exception // nil: it raised none.
}

// own says what the process died of, for people.
func (d *death) own() string {
	if d.exception == nil {
		return d.Why
	}
	s := "it raised " + d.exception.String()
	if site := frames.Site(d.exception.Stack); site != "" {
		s += " at " + site
	}
	return s
}

// bare is an end of which nothing but an exit code is known.
func (d *death) bare() bool { return d.exception == nil && strings.HasPrefix(d.Why, exited) }

// ended marks the ranks whose processes ended by themselves as gone. When one ends, the launcher and the watchdogs end
// the others: neither who waited until then nor who was ended counts.
func (b *builder) ended(logs []*Log, waited map[int]bool) {
	deaths := map[int]*death{}
	for _, e := range b.candidates(logs) {
		if !waited[e.Rank] && (!isVictim(e.Why) || e.Rank == b.interrupted) && deaths[e.Rank] == nil {
			deaths[e.Rank] = &death{End: e}
		}
	}
	b.raised(logs, waited, deaths)
	earliest(deaths)
	if len(deaths) > 1 { // A launcher on each node tells of the one it saw first, and exit codes follow from others' ends.
		maps.DeleteFunc(deaths, func(_ int, d *death) bool { return d.bare() })
	}
	b.aborted(logs, waited, deaths)
	if b.together(deaths) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(deaths)) {
		d := deaths[id]
		b.World = max(b.World, id+1)
		r := b.Rank(id)
		r.State = rca.ProcessGone
		r.Host, r.PID = cmp.Or(r.Host, d.Host), cmp.Or(r.PID, d.PID)
		kind := "ended"
		if d.exception != nil {
			kind, r.Stack = "raised", d.exception.Stack
		}
		b.Facts = append(b.Facts, rca.Fact{Host: r.Host, Rank: id, Component: "process", Kind: kind, Text: d.own()})
	}
}

// interrupted gives the rank that SIGINT alone reached, as its launcher saw; -1: none, or several. From a terminal it reaches all.
func interrupted(logs []*Log) int {
	alone := map[int]bool{}
	ended := -1
	for _, l := range logs {
		for _, e := range l.Ends {
			if strings.Contains(e.Why, "SIGINT") && !e.Task {
				ended, alone[e.Rank] = e.Rank, true
			}
		}
		for i := range l.Exceptions {
			if e := &l.Exceptions[i]; e.Class == "KeyboardInterrupt" {
				alone[e.Rank] = true
			}
		}
	}
	if delete(alone, -1); len(alone) == 1 { // The launcher's own has no rank.
		return ended
	}
	return -1
}

// earliest leaves the rank that ended first, where all ended on one host with a plain exit code and their launchers say when: the
// others' ends follow from it. Clocks of different hosts are not compared.
func earliest(deaths map[int]*death) {
	var first *death
	alone := false
	for _, id := range slices.Sorted(maps.Keys(deaths)) {
		d := deaths[id]
		switch {
		case !d.bare() || d.At == "" || d.Host == "" || first != nil && d.Host != first.Host:
			return
		case first == nil || d.At < first.At: // As torchrun writes times, letters are in their order.
			first, alone = d, true
		case d.At == first.At:
			alone = false
		}
	}
	if alone {
		maps.DeleteFunc(deaths, func(_ int, d *death) bool { return d != first })
	}
}

// raised adds the exceptions that are no victims'. One of which the log does not say whose it is belongs to the only rank
// that the launcher saw fail with a plain exit code.
func (b *builder) raised(logs []*Log, waited map[int]bool, deaths map[int]*death) {
	var bare []int
	for _, l := range logs {
		bare = append(bare, bareExits(l)...)
	}
	bare = told.Set(bare)
	var nameless []*Exception
	broken := false // An exception of nobody knows whom follows from others' doing.
	for _, l := range logs {
		for i := range l.Exceptions {
			e := &l.Exceptions[i]
			broken = broken || e.Rank < 0 && e.Victim() && e.communicates()
			switch {
			case e.Rank < 0 && !e.Victim() && !slices.ContainsFunc(nameless, func(o *Exception) bool { return o.String() == e.String() && o.Worker == e.Worker && o.Local == e.Local }):
				nameless = append(nameless, e)
			case e.Rank < 0 || e.Victim() || waited[e.Rank]:
			case deaths[e.Rank] == nil:
				deaths[e.Rank] = &death{End: End{Rank: e.Rank}, exception: e}
			case deaths[e.Rank].exception == nil:
				deaths[e.Rank].exception = e
			}
		}
	}
	if len(nameless) == 1 && len(bare) == 1 && deaths[bare[0]] != nil && deaths[bare[0]].exception == nil {
		deaths[bare[0]].exception = nameless[0]
		return
	}
	if broken { // It may be what a plain exit code stands for.
		maps.DeleteFunc(deaths, func(_ int, d *death) bool { return d.bare() })
	}
	for _, e := range nameless {
		if e.Worker == "" && e.Local < 0 {
			b.Note("an exception, the log does not say of which rank: %s", e.String())
		}
		b.found = append(b.found, e.finding())
	}
}

// aborted: of ranks that aborted, those whose communication broke off are victims. One that no such message explains, while
// all others have one, aborted by itself.
func (b *builder) aborted(logs []*Log, waited map[int]bool, deaths map[int]*death) {
	const abort = "SIGABRT"
	foreign := false // Something else than the rank's own code may have aborted it.
	for _, l := range logs {
		for _, s := range l.Aborts {
			foreign = foreign || containsAny(s, broken) || containsAny(s, victims)
		}
	}
	aborts := 0
	for _, d := range deaths {
		if strings.Contains(d.Why, abort) && d.exception == nil {
			aborts++
		}
	}
	if aborts == 1 && len(waited) > 0 && !foreign {
		return
	}
	maps.DeleteFunc(deaths, func(_ int, d *death) bool { return strings.Contains(d.Why, abort) && d.exception == nil })
}

// together: ranks that end for one reason at one time accuse none of them: whoever ended them, or the program that all run.
func (b *builder) together(deaths map[int]*death) bool {
	const few = 2
	if len(deaths) < few {
		return false
	}
	reason, when := "", ""
	for _, id := range slices.Sorted(maps.Keys(deaths)) {
		d := deaths[id]
		own, at := d.Why, d.At
		if d.exception != nil {
			own, at = "raised "+d.exception.String(), ""
		}
		if reason == "" {
			reason, when = own, at
		}
		if reason != own || when != at || own == outOfMemory {
			return false
		}
	}
	if n := len(b.waiting); n >= len(deaths) {
		return false // More wait for these than there are of them.
	}
	ids := slices.Sorted(maps.Keys(deaths))
	text := fmt.Sprintf("%d ranks (%s) %s: the program or its configuration, no single rank", len(ids), told.Spans(ids), reason)
	if deaths[ids[0]].exception == nil {
		whoever := "whoever ended them (scheduler, memory limit, operator)"
		switch kind, _ := told.End(grammar.ProcessEnd, signalOf(reason)); {
		case strings.Contains(reason, "SIGBUS"):
			whoever = "what they share (/dev/shm that is full, a file that was cut)"
		case kind == grammar.Crashed:
			whoever = "the program or a library that all of them use"
		}
		text = fmt.Sprintf("%d ranks (%s) ended in the same second with %s: %s, no single rank", len(ids), told.Spans(ids), reason, whoever)
	}
	b.Facts = append(b.Facts, rca.Fact{Rank: -1, Component: "process", Kind: "ended_together", Text: text})
	b.over = true
	return true
}

// signalOf gives the code of an end in words, "signal 11 (SIGSEGV)"; empty for no signal.
func signalOf(why string) string {
	if _, name, ok := strings.Cut(why, "("); ok {
		return told.SignalCode(strings.TrimSuffix(name, ")"))
	}
	return ""
}

// candidates gives the endings that may be a process's own.
func (b *builder) candidates(logs []*Log) []End {
	var out []End
	highest, specific := -1, false
	for _, l := range logs {
		for _, e := range l.Ends {
			if e.Task {
				highest = max(highest, e.Rank)
				specific = specific || !isVictim(e.Why) && !strings.Contains(e.Why, "SIGKILL")
			}
		}
	}
	for _, l := range logs {
		for _, e := range l.Ends {
			switch {
			case !e.Task:
			case b.World > highest+1:
				continue // Fewer tasks than ranks: one starts several.
			case specific && strings.Contains(e.Why, "SIGKILL"):
				continue // srun ended it.
			}
			out = append(out, e)
		}
	}
	return out
}

// outOfMemory is how a task ends that Slurm killed for the memory it used: that is a cause, however many ended so.
const outOfMemory = "out of memory"

// finding tells of an exception of which the log has no rank.
func (e *Exception) finding() told.Finding {
	says := "raised " + e.String()
	if site := frames.Site(e.Stack); site != "" {
		says += " at " + site
	}
	f := told.New(grammar.Raised, says)
	f.Local, f.PID, f.Worker, f.Order, f.Stack = e.Local, e.PID, e.Worker, e.Order, e.Stack
	return f
}
