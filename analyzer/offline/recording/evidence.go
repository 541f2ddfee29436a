// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Evidence puts recordings of one job together. frozen: ages are lower bounds, as nobody knows when the recording was
// made.
func Evidence(nodes []*Node) (ev rca.Evidence, notes []string, frozen bool) {
	job, others := mainJob(nodes)
	a := assembly{Job: gather.New(0), ranks: map[int]chosen{}}
	a.Count(others, "processes of other jobs than %s were left out", job)
	for _, n := range nodes {
		frozen = frozen || n.Frozen
		a.node(n, job)
		if n.Lost > 0 {
			a.Note("%s: %d records were overwritten before they were recorded", n.File, n.Lost)
		}
		if n.CutOff {
			a.Note("%s: the recording is cut off", n.File)
		}
	}
	frozen = a.alignClocks() || frozen
	if a.afterTheEnd() {
		a.Note("most processes are gone: that they ended is taken as the job's end, not as the cause")
		frozen = true
	}
	a.finish(nodes)
	ev = a.Evidence()
	ev.JobID = job
	if overAndDone(&ev) {
		a.Note("the job had ended in an orderly way when this was recorded: what it did before is judged")
	}
	return ev, a.Notes, frozen
}

// mainJob is the job of most processes.
func mainJob(nodes []*Node) (job string, others int) {
	count := map[string]int{}
	total := 0
	for _, n := range nodes {
		for i := range n.Processes {
			count[n.Processes[i].JobID]++
			total++
		}
	}
	for _, j := range slices.Sorted(maps.Keys(count)) {
		if count[j] > count[job] {
			job = j
		}
	}
	return job, total - count[job]
}

type assembly struct {
	*gather.Job
	ranks map[int]chosen
}

// chosen is the process that stands for a rank: the latest, where there are files of several.
type chosen struct {
	process *nodeapi.Process
	node    *Node
	nowNS   uint64
}

func (a *assembly) node(n *Node, job string) {
	for i := range n.Processes {
		p := &n.Processes[i]
		if p.JobID != job {
			continue
		}
		if p.Rank < 0 {
			a.Lacks("rank", p.File, "its trace file does not tell its rank")
			continue
		}
		if evidence.Untold(p) {
			a.Lacks("rank", strconv.Itoa(int(p.Rank)), evidence.WhyUntold)
			continue
		}
		a.World = max(a.World, int(p.Rank)+1, min(int(p.Identity.WorldSize), 1<<20))
		if old, ok := a.ranks[int(p.Rank)]; !ok || old.process.Identity.CreatedRealNS < p.Identity.CreatedRealNS ||
			(old.process.File == p.File && old.nowNS < n.NowNS) {
			a.ranks[int(p.Rank)] = chosen{p, n, n.NowNS}
		}
	}
	a.Facts = append(a.Facts, evidence.Facts(n.Facts, n.Host)...)
	for _, u := range n.Unread {
		a.Lacks("file", u.File, "%s", u.Error)
	}
}

// alignClocks gives trace files of one boot one now, and, through the offset to real time that each carries, all files
// the newest moment that any of them shows. It says whether it had to.
func (a *assembly) alignClocks() bool {
	real := func(c *chosen) uint64 { return c.nowNS + c.process.Status.RealMinusMonoNS }
	var newest uint64
	frozen := false
	for _, r := range slices.Sorted(maps.Keys(a.ranks)) {
		c := a.ranks[r]
		frozen = frozen || c.node.Frozen
		newest = max(newest, real(&c))
	}
	if !frozen {
		return false
	}
	for r, c := range a.ranks {
		// A writer whose clock is off by more than a day is not believed.
		const day = 24 * 3600 * 1e9
		if d := newest - real(&c); c.node.Frozen && d < day {
			c.nowNS += d
			a.ranks[r] = c
		}
	}
	return true
}

// afterTheEnd forgets that processes are gone where most are: the job was killed, or has ended, before somebody looked.
func (a *assembly) afterTheEnd() bool {
	gone := 0
	for _, c := range a.ranks {
		if c.process.Kernel != nil && c.process.Kernel.State == nodeapi.ProcessGone {
			gone++
		}
	}
	if 2*gone <= len(a.ranks) {
		return false
	}
	for _, c := range a.ranks {
		if c.process.Kernel != nil {
			c.process.Kernel.State = nodeapi.ProcessUnknown
		}
	}
	return true
}

// overAndDone forgets that processes exited in an orderly way where all did and nothing was under way: the recording is
// then of the job's work, and its end is no finding.
func overAndDone(ev *rca.Evidence) bool {
	if len(ev.Timeline) == 0 {
		return false
	}
	exited := false
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		exited = exited || r.State == rca.ProcessExited
		if r.State != rca.ProcessExited && r.State != rca.ProcessUnknown ||
			slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool { return len(m.InFlight) > 0 }) {
			return false
		}
	}
	for i := range ev.Ranks {
		ev.Ranks[i].State = rca.ProcessUnknown
	}
	return exited
}

func (a *assembly) finish(nodes []*Node) {
	fileRank := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(a.ranks)) {
		c := a.ranks[id]
		*a.Rank(id) = evidence.Rank(c.process, c.nowNS)
		fileRank[c.node.Host+"/"+c.process.File] = id
		for i := range c.process.Comms {
			a.comm(&c.process.Comms[i], id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.ranks)) {
		c := a.ranks[id]
		a.Facts = append(a.Facts, evidence.Lagging(c.process, c.process.Host, c.node.Facts, a.member)...)
	}
	a.Rest("no recording")
	a.timeline(nodes, fileRank)
}

// member gives the global rank of a communicator's member; -1 unknown.
func (a *assembly) member(id rca.CommID, commRank int) int {
	if comm := a.Knows(id); comm != nil && commRank >= 0 && commRank < len(comm.Members) {
		return comm.Members[commRank]
	}
	return -1
}

func (a *assembly) comm(c *trace.Comm, rank int) {
	const largest = 1 << 20
	if c.NRanks <= 0 || c.NRanks > largest || c.Rank < 0 || c.Rank >= c.NRanks {
		return
	}
	gather.Place(a.Comm(evidence.CommID(c.Key()), cmp.Or(c.Name, c.ID.String()), int(c.NRanks)), int(c.Rank), rank)
}

func (a *assembly) timeline(nodes []*Node, fileRank map[string]int) {
	type record struct {
		file   string
		ticket uint64
	}
	seen := map[record]bool{} // Several recordings of one node overlap.
	done := map[string]*evidence.Finished{}
	for _, n := range nodes {
		of := done[n.Host]
		if of == nil {
			of = &evidence.Finished{}
			done[n.Host] = of
		}
		for i := range n.Completions {
			c := &n.Completions[i]
			if key := (record{n.Host + "/" + c.File, c.Ticket}); !seen[key] {
				seen[key] = true
				of.Add(key.file, &c.Completion)
			}
		}
	}
	at := evidence.Place{
		Rank:   func(file string) (int, bool) { rank, ok := fileRank[file]; return rank, ok },
		Member: a.member,
	}
	for _, host := range slices.Sorted(maps.Keys(done)) {
		a.Timeline = done[host].Append(a.Timeline, at)
	}
}
