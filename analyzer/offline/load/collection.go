// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/flows"
	"github.com/culprit-project/culprit/analyzer/offline/inspector"
	"github.com/culprit-project/culprit/analyzer/offline/joblog"
	"github.com/culprit-project/culprit/analyzer/offline/kineto"
	"github.com/culprit-project/culprit/analyzer/offline/optable"
	"github.com/culprit-project/culprit/analyzer/offline/ras"
	"github.com/culprit-project/culprit/analyzer/offline/recording"
	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Collection is everything read from the given paths.
type Collection struct {
	mu     sync.Mutex
	Files  []File
	dumps  []*flightrecorder.Dump
	shared flightrecorder.Shared
	ras    []*ras.Report
	tables []*optable.Table
	nodes  []*recording.Node
	logs   []*inspector.Log
	traces []*kineto.Trace
	flows  []*flows.Recording
	stacks []stackdump.Process
	jobLog []*joblog.Log
	kept   []*kept.Record
	quiet  []*joblog.Log // Of a job, without a word on communication.
}

// add brings what a worker has read into one of the collection's lists.
func add[T any](c *Collection, list *[]T, items ...T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, items...)
}

// sort makes the result independent of which worker was faster.
func (c *Collection) sort() {
	slices.SortStableFunc(c.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortStableFunc(c.dumps, func(a, b *flightrecorder.Dump) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.tables, func(a, b *optable.Table) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.nodes, func(a, b *recording.Node) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.logs, func(a, b *inspector.Log) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.traces, func(a, b *kineto.Trace) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.stacks, func(a, b stackdump.Process) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.PID, b.PID))
	})
	slices.SortStableFunc(c.jobLog, func(a, b *joblog.Log) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.quiet, func(a, b *joblog.Log) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.flows, func(a, b *flows.Recording) int { return cmp.Compare(a.File, b.File) })
	slices.SortStableFunc(c.ras, func(a, b *ras.Report) int { return cmp.Compare(a.File, b.File) })
}

// Understood is the number of files that a reader could use. Quiet logs say something beside others only.
func (c *Collection) Understood() int {
	n := -len(c.quiet)
	for _, f := range c.Files {
		if f.Kind != "" {
			n++
		}
	}
	return n
}

// Source is one kind of evidence, from all files of that kind.
type Source struct {
	Name     string
	Files    int // How many files it was read from.
	Evidence rca.Evidence
	Notes    []string
	// Findings are what messages say by themselves.
	Findings []told.Finding
	// Processes are those of the job, of ranks that are not seen as well; nil: unknown.
	Processes *told.Directory
	// Frozen: the source does not say for how long operations have been pending; all pending ones count.
	Frozen bool
	// Local: rank numbers are not the job's, so that other sources cannot be joined by rank.
	Local bool
	// Kept is the record that the evidence is from, with which the same verdict comes out again; nil: none.
	Kept *kept.Record
	// Own is the source's verdict where it does not come from the engine, which would take its evidence for more than it is; the evidence
	// is then not joined with that of other sources. Nil: the engine's.
	Own *rca.Verdict
}

// Sources turns the collection into evidence, the richest kind first. worldSize is how many ranks the job has, where that is known
// from elsewhere; else 0.
func (c *Collection) Sources(worldSize int) []Source {
	var out []Source
	if len(c.kept) > 0 {
		out = append(out, c.keptSource())
	}
	if len(c.nodes) > 0 {
		ev, notes, frozen := recording.Evidence(c.nodes)
		out = append(out, Source{Name: "traces", Files: len(c.nodes), Evidence: ev, Notes: notes, Frozen: frozen})
	}
	if len(c.dumps) > 0 {
		out = append(out, c.flightRecorder())
	}
	if len(c.ras) > 0 {
		ev, notes, global := ras.Evidence(c.ras)
		out = append(out, Source{Name: "NCCL RAS", Files: len(c.ras), Evidence: ev, Notes: notes, Frozen: true, Local: !global})
	}
	if len(c.jobLog) > 0 {
		var known []rca.Comm
		for _, s := range out {
			if !s.Local {
				known = append(known, s.Evidence.Comms...)
			}
		}
		logs := slices.Concat(c.jobLog, c.quiet)
		r := joblog.Evidence(logs, known, worldSize)
		out = append(out, Source{Name: "job log", Files: len(logs), Evidence: r.Evidence, Notes: r.Notes, Findings: r.Findings, Processes: r.Processes, Frozen: true})
	}
	if len(c.tables) > 0 {
		ev, notes := optable.Evidence(c.tables)
		out = append(out, Source{Name: "op table", Files: len(c.tables), Evidence: ev, Notes: notes})
	}
	if len(c.traces) > 0 {
		ev, notes := kineto.Evidence(c.traces)
		out = append(out, Source{Name: "Chrome traces", Files: len(c.traces), Evidence: ev, Notes: notes})
	}
	if len(c.logs) > 0 {
		ev, notes, global := inspector.Evidence(c.logs)
		out = append(out, Source{Name: "NCCL Inspector", Files: len(c.logs), Evidence: ev, Notes: notes, Local: !global})
	}
	if len(c.stacks) > 0 {
		out = append(out, c.stackSource(out))
	}
	if len(c.flows) > 0 {
		v, ev, notes := flows.Analyze(c.flows)
		out = append(out, Source{Name: "flows", Files: len(c.flows), Evidence: ev, Notes: notes, Own: &v})
	}
	return out
}

// keptSource takes the newest record: several are of one job at several times, or of several jobs.
func (c *Collection) keptSource() Source {
	newest := slices.MaxFunc(c.kept, func(a, b *kept.Record) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Incident, b.Incident))
	})
	s := Source{Name: "kept evidence", Files: 1, Evidence: newest.Evidence, Kept: newest}
	s.Notes = append(s.Notes, "of incident "+newest.Incident+", analysed at "+newest.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	if n := len(c.kept) - 1; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d older records were left out", n))
	}
	if newest.Topology {
		s.Notes = append(s.Notes, "the service knew the network: give its files with --topology for the same devices")
	}
	return s
}

// stackSource gives stacks to ranks, with the process numbers that the other sources know.
func (c *Collection) stackSource(others []Source) Source {
	byPID := map[int][]int{}
	world := 0
	for _, s := range others {
		if !s.Local {
			world = max(world, s.Evidence.WorldSize)
		}
		for _, r := range s.Evidence.Ranks {
			if r.PID > 0 && !s.Local && !slices.Contains(byPID[r.PID], r.ID) {
				byPID[r.PID] = append(byPID[r.PID], r.ID)
			}
		}
	}
	named := flightrecorder.RankInName
	if world == 0 && c.stacks[0].File == c.stacks[len(c.stacks)-1].File {
		named = flightrecorder.RankWordInName // Of one file, a bare number may be anything's.
	}
	ev, notes, global := stackdump.Evidence(c.stacks, stackdump.Known{ByPID: byPID, ByName: named, World: world})
	return Source{Name: "stacks", Files: len(c.stacks), Evidence: ev, Notes: notes, Findings: stackdump.Findings(c.stacks), Frozen: true, Local: !global}
}

func (c *Collection) flightRecorder() Source {
	assigned, rest := flightrecorder.Assign(c.dumps)
	s := Source{Name: "Flight Recorder", Files: len(c.dumps), Evidence: flightrecorder.Evidence(assigned), Frozen: true}
	for _, a := range assigned {
		if a.Doubt != "" {
			s.Notes = append(s.Notes, fmt.Sprintf("%s is rank %d's dump: %s", a.File, a.Rank, a.Doubt))
		}
	}
	if slices.ContainsFunc(c.dumps, func(d *flightrecorder.Dump) bool { return d.Unnumbered }) {
		s.Notes = append(s.Notes, "the recorder counts the operations of all communicators in one row and its oldest are gone: operations have no number in their communicator")
	}
	for d, why := range rest {
		s.Evidence.Missing = append(s.Evidence.Missing, rca.Missing{What: "file", Name: d.File, Why: why})
	}
	if !slices.ContainsFunc(s.Evidence.Ranks, func(r rca.Rank) bool {
		return slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool { return len(m.InFlight) > 0 })
	}) {
		s.Notes = append(s.Notes, "no recorded operation is pending; that somebody is slow does not show in dumps")
	}
	slices.Sort(s.Notes)
	slices.SortFunc(s.Evidence.Missing, func(a, b rca.Missing) int {
		return cmp.Or(cmp.Compare(a.What, b.What), slices.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Name, b.Name))
	})
	return s
}
