// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// loosely takes operations that timed out of which messages have no number. Different ones show that ranks disagree, and nothing
// tells which is ahead; the same one is a wait for whoever is not in it.
func (b *builder) loosely(logs []*Log) {
	b.loose = map[int]string{}
	by := map[string][]int{}
	for _, l := range logs {
		for _, r := range slices.Sorted(maps.Keys(l.Loose)) {
			if _, ok := b.loose[r]; !ok {
				b.loose[r] = l.Loose[r]
				op := flightrecorder.Canonical(l.Loose[r])
				by[op] = append(by[op], r)
			}
		}
	}
	if len(by) < 2 {
		return
	}
	b.loose = nil
	var parts []string
	for _, op := range slices.SortedFunc(maps.Keys(by), func(x, y string) int { return slices.Min(by[x]) - slices.Min(by[y]) }) {
		parts = append(parts, told.Ranks(by[op])+" in "+op)
	}
	f := told.New(grammar.Disagree, "Ranks disagree: "+strings.Join(parts, ", ")+". The messages have no numbers, so they do not show which rank is ahead")
	f.Whole = true
	b.found = append(b.found, f)
}

// elsewhere notes that a watchdog had a timeout while nothing is pending in the groups that the log shows.
func (b *builder) elsewhere(logs []*Log, states map[Place]*State) {
	timedOut := map[int]bool{}
	for _, l := range logs {
		maps.Copy(timedOut, l.TimedOut)
	}
	for _, s := range states {
		if len(s.Ops) > 0 || s.Enqueued > s.Completed {
			return
		}
	}
	if len(timedOut) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(timedOut))
	f := told.New(grammar.Elsewhere, fmt.Sprintf("The watchdog of %s had a timeout, but nothing is pending in the groups that the log shows: the operation belongs to another group", told.Ranks(ids)))
	f.Whole = true
	b.found = append(b.found, f)
}

// findings gives all that messages tell by themselves, of ranks where their processes are known.
func (b *builder) findings(logs []*Log, who *told.Directory) []told.Finding {
	ending := map[int]bool{}
	for _, l := range logs {
		for _, f := range l.Findings {
			b.found = append(b.found, b.tasks(f)...)
		}
		maps.Copy(ending, l.Ending)
	}
	b.awaited(logs)
	b.behind(logs)
	b.weakly(logs)
	var out []told.Finding
	lost := map[string]int{} // When a process lost the network first, by process.
	for _, f := range b.found {
		if key := fmt.Sprint(f.Host, f.PID); f.PID > 0 && (f.Kind == grammar.NetworkError || f.Kind == grammar.RemoteError) && lost[key] == 0 {
			lost[key] = f.Order + 1
		}
	}
	for _, f := range b.found {
		if at := lost[fmt.Sprint(f.Host, f.PID)]; at > 0 && f.Order >= at && (f.Kind == grammar.GPUProgram || f.Kind == grammar.GPUUnknown) {
			f.Kind = grammar.Warning // NCCL ends its kernels then.
		}
		if f.Kind == grammar.Terminated && ending[f.PID] {
			continue // The launcher did it.
		}
		who.Resolve(&f)
		if f.Kind == grammar.OneOfHost {
			if pids := slices.Sorted(maps.Keys(ending)); len(pids) > 1 {
				f.Says = fmt.Sprintf("One of %d processes of a host (%s) %s; the launcher prints the command of the process that it started last, so its --local_rank says nothing", len(pids), told.Spans(pids), f.Says)
			} else {
				f.Says = fmt.Sprintf("A process of a host %s; the launcher prints the command of the process that it started last, so its --local_rank says nothing", f.Says)
			}
			f.Whole = true
		}
		out = append(out, f)
	}
	return told.Join(out)
}

// awaited tells for whom ranks say that they waited.
func (b *builder) awaited(logs []*Log) {
	inside := map[string]map[int]bool{}
	for _, l := range logs {
		for _, c := range l.Claims {
			if inside[c.What] == nil {
				inside[c.What] = map[int]bool{}
			}
			inside[c.What][c.By] = true
		}
	}
	for _, l := range logs {
		for _, c := range l.Claims {
			for _, r := range c.Absent {
				if inside[c.What][r] {
					continue
				}
				f := told.New(grammar.Awaited, "did not come to "+c.What+", say those that waited there")
				f.Rank, f.By = r, c.By
				b.found = append(b.found, f)
			}
		}
	}
}

// weakly tells of what follows from others' doing, as a rule: where nothing else was seen, it is the best there is.
func (b *builder) weakly(logs []*Log) {
	for _, l := range logs {
		for _, e := range l.Ends {
			kind, says := told.EndOf(e.Why)
			if e.Task && b.World > e.Rank+1 || kind != grammar.Aborted && kind != grammar.Terminated && kind != grammar.Exited {
				continue
			}
			f := told.New(kind, says)
			f.Rank, f.Host, f.PID = e.Rank, e.Host, e.PID
			b.found = append(b.found, f)
		}
		for i := range l.Exceptions {
			e := &l.Exceptions[i]
			if !e.Victim() || containsAny(e.Class, []string{"ChildFailedError", "SignalException", "KeyboardInterrupt", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError"}) {
				continue
			}
			f := e.finding()
			f.Kind, f.Rank = grammar.BrokenOff, e.Rank
			switch {
			case ncclRefused.MatchString(e.Message):
				f.Kind = grammar.NCCLUsage
			case containsAny(e.Message, []string{"internal error - please report", "unhandled cuda error", "unhandled system error"}):
				f.Kind = grammar.NCCLError
			}
			b.found = append(b.found, f)
		}
	}
}

// ncclRefused is what PyTorch says where NCCL returns that a call is wrong.
var ncclRefused = regexp.MustCompile(`NCCL error[^\n]*?, invalid (?:usage|argument)|NCCL error: invalid (?:usage|argument)`)

// tasks makes one finding a rank of what is told of several.
func (b *builder) tasks(f told.Finding) []told.Finding {
	if len(f.Tasks) == 0 {
		return []told.Finding{f}
	}
	if f.Kind == grammar.HostMemory && b.World > slices.Max(f.Tasks)+1 {
		f.Tasks = nil // Fewer tasks than ranks: one starts several. Only the host is known.
		return []told.Finding{f}
	}
	var out []told.Finding
	for _, r := range f.Tasks {
		one := f
		one.Rank, one.Tasks = r, nil
		out = append(out, one)
	}
	return out
}

// directory is what the logs tell of processes.
func (b *builder) directory(logs []*Log) *told.Directory {
	d := told.NewDirectory()
	for _, id := range b.Shown() {
		r := b.Rank(id)
		d.Add(told.Process{Rank: id, PID: r.PID, Host: r.Host, GPU: r.GPU, Bus: b.bus[id]})
	}
	for _, l := range logs {
		if l.Repeats == 0 { // Else it is chance who is shown.
			for _, p := range l.Placed {
				d.Add(p)
			}
		}
		for _, e := range l.Ends {
			if !e.Task {
				d.Add(told.Process{Rank: e.Rank, PID: e.PID, Host: e.Host})
			}
		}
	}
	return d
}
