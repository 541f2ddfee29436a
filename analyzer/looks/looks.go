// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package looks reads what exporters see in close looks at processes (GET /api/v1/look) as evidence: where each rank stands, which file it
// waits for, and whether it has moved between two looks.
package looks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Set is what close looks show, by rank.
type Set map[int]*nodeapi.LookedAt

// Merge adds a second look. What was not looked at again is as it was.
func Merge(first, second Set) (both Set) {
	both = Set{}
	maps.Copy(both, first)
	maps.Copy(both, second)
	return both
}

// Apply adds looks to the evidence: the newest of each rank, and, where there is one, an earlier look at the same process.
func Apply(ev *rca.Evidence, newest, earlier Set) {
	stacks, held := python(newest)
	before, _ := python(earlier)
	serves := map[string]bool{} // Sources of file systems that have moved something between two looks.
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		at := newest[r.ID]
		if at == nil || at.PID != 0 && r.PID != 0 && at.PID != r.PID {
			continue
		}
		main := mainThread(at)
		if s := stacks[r.ID]; len(s) > 0 {
			r.Stack = s
		}
		was := earlier[r.ID]
		if was == at || was != nil && (was.PID != at.PID || was.AtNS >= at.AtNS) {
			was = nil
		}
		if th := waits(at, r.Stack); th != nil {
			r.Storage = &rca.Storage{Call: th.Call, Path: th.File.Path, Mount: th.File.Mount, Type: th.File.Type, Source: th.File.Source}
			r.Still = was != nil && still(thread(was, th), th)
		} else {
			r.Still = was != nil && main != nil && still(thread(was, main), main)
		}
		r.Still = r.Still && slices.Equal(before[r.ID], stacks[r.ID])
		if was != nil && frames.Of(r.Stack).Kind == frames.Saving { // Not all file systems count what is written to them.
			r.WriteBytesPerSec = max(r.WriteBytesPerSec, float64(at.WrittenBytes-min(at.WrittenBytes, was.WrittenBytes))/span(was, at))
		}
		ev.Facts = append(ev.Facts, facts(r, at, was, main, held[r.ID])...)
		if was != nil && r.Storage != nil && !r.Still {
			serves[r.Storage.Source] = true
		}
	}
	for i := range ev.Ranks { // A server that answers somebody is slow, as it is when many ranks save.
		if r := &ev.Ranks[i]; r.Storage != nil && serves[r.Storage.Source] {
			r.Still = false
		}
	}
}

// Undecided reports whether a second look can tell more of a rank: whether it stays where it is, or whether what it saves moves.
func Undecided(r *rca.Rank) bool {
	k := frames.Of(r.Stack).Kind
	return r.Storage != nil || k == frames.Debugger || k == frames.Exiting || k == frames.Saving
}

// python gives the stacks that say what each rank does, innermost frame last, and the threads that hold an interpreter's lock.
func python(set Set) (stacks map[int][]string, held map[int]*stackdump.Thread) {
	stacks, held = map[int][]string{}, map[int]*stackdump.Thread{}
	for rank, at := range set {
		ps, err := stackdump.Parse(at.File, at.Python)
		if err != nil { // Missing says why there is none.
			continue
		}
		for i := range ps {
			p := &ps[i]
			if s := p.Telling(); len(s) > 0 {
				stacks[rank] = s
			}
			if t := slices.IndexFunc(p.Threads, func(t stackdump.Thread) bool { return t.GIL && len(t.Stack) > 0 }); t >= 0 {
				held[rank] = &p.Threads[t]
			}
		}
	}
	return stacks, held
}

func mainThread(at *nodeapi.LookedAt) *nodeapi.LookedThread {
	i := slices.IndexFunc(at.Threads, func(th nodeapi.LookedThread) bool { return th.TID == at.PID })
	if i < 0 {
		return nil
	}
	return &at.Threads[i]
}

// thread finds a thread again.
func thread(at *nodeapi.LookedAt, like *nodeapi.LookedThread) *nodeapi.LookedThread {
	i := slices.IndexFunc(at.Threads, func(th nodeapi.LookedThread) bool { return th.PID == like.PID && th.TID == like.TID })
	if i < 0 {
		return nil
	}
	return &at.Threads[i]
}

// waits gives the thread that waits for a file in storage, and for which the rank waits: its main thread, or, where its stack waits for
// another thread or process, one of those. nil: none.
func waits(at *nodeapi.LookedAt, stack []string) *nodeapi.LookedThread {
	main := mainThread(at)
	if main != nil && inStorage(main) {
		return main
	}
	switch frames.Of(stack).Kind {
	case frames.Saving, frames.Restoring, frames.DataLoad, frames.Child:
	default:
		return nil // What another thread does need not be what the rank waits for.
	}
	if i := slices.IndexFunc(at.Threads, func(th nodeapi.LookedThread) bool { return inStorage(&th) }); i >= 0 {
		return &at.Threads[i]
	}
	return nil
}

// remote are file systems whose server may leave a reader asleep that can be killed; threads that wait for a local disk cannot.
var remote = []string{"fuse", "nfs", "9p", "virtiofs", "lustre", "ceph", "cifs", "smb3", "beegfs", "gpfs", "wekafs", "afs"}

// inStorage reports whether a thread waits for a file of a file system, and not for a pipe, a socket or a device.
func inStorage(th *nodeapi.LookedThread) bool {
	f := th.File
	if f == nil || f.Mount == "" || th.Call == "ioctl" || strings.HasPrefix(f.Type, "dev") {
		return false
	}
	if th.State == "D" {
		return true
	}
	return th.State == "S" && !strings.Contains(th.Wchan, "pipe") && isRemote(f)
}

func isRemote(f *nodeapi.LookedFile) bool {
	return slices.ContainsFunc(remote, func(t string) bool { return strings.HasPrefix(f.Type, t) })
}

// flushes are calls that wait for all that was written before to reach a server or disk: one of them may take minutes and be well.
var flushes = []string{"fsync", "fdatasync", "syncfs", "close", "msync", "munmap", "ftruncate", "truncate", "fallocate", "flock", "fcntl", "copy_file_range", "sendfile"}

// still reports whether a thread has slept on between two looks, in one call about one file. A local disk may keep a thread for as long while
// its journal is written.
func still(was, is *nodeapi.LookedThread) bool {
	if was == nil || is.Call == "" || slices.Contains(flushes, is.Call) || is.State == "R" || inStorage(is) && !isRemote(is.File) {
		return false
	}
	same := was.Call == is.Call && was.Switches == is.Switches && was.CPUSeconds == is.CPUSeconds && is.Switches > 0
	if is.File != nil {
		same = same && was.File != nil && *was.File == *is.File
	}
	return same
}

// span is the time between two looks in seconds.
func span(was, is *nodeapi.LookedAt) float64 { return float64(is.AtNS-was.AtNS) / 1e9 }

// What a fact must reach to be told: shares of the time, and bytes.
const (
	throttledShare = 0.2
	stalledShare   = 0.1
	swapped        = 1 << 30
)

// facts tells of a process what the kernel keeps from it, and what could not be seen.
func facts(r *rca.Rank, at, was *nodeapi.LookedAt, main *nodeapi.LookedThread, gil *stackdump.Thread) []rca.Fact {
	var out []rca.Fact
	add := func(kind, format string, args ...any) {
		out = append(out, rca.Fact{Host: r.Host, Rank: r.ID, Component: "process", Kind: kind, Text: fmt.Sprintf("rank %d: ", r.ID) + fmt.Sprintf(format, args...)})
	}
	if main != nil && main.Call != "" {
		file := ""
		if main.File != nil {
			file = " of " + main.File.Path
		}
		add("waits_in", "its main thread sleeps in %s%s (kernel: %s)", main.Call, file, cmp.Or(main.Wchan, "not shown"))
	}
	if at.TracerPID != 0 {
		add("traced", "%s (process %d) traces it", cmp.Or(at.Tracer, "another program"), at.TracerPID)
	}
	if gil != nil && gil.OS == at.PID && main != nil && main.State != "R" {
		add("gil_held", "its main thread holds the interpreter lock while it sleeps, in %s: no other thread of it can run Python", gil.Stack[len(gil.Stack)-1])
	}
	if at.SwappedBytes >= swapped {
		add("swapped", "%.1f GB of it are swapped out", float64(at.SwappedBytes)/1e9)
	}
	if c := at.Cgroup; c != nil {
		if was != nil && was.Cgroup != nil {
			if share := (c.ThrottledSeconds - was.Cgroup.ThrottledSeconds) / span(was, at); share >= throttledShare {
				add("cgroup_throttled", "its cgroup's CPU limit held threads back for %.1f s in each second", share)
			}
		}
		if c.MemoryStalled >= stalledShare {
			add("memory_stalled", "all of its cgroup waited for memory for %.0f%% of the last 10 s", 100*c.MemoryStalled)
		}
		if c.OOMKills > 0 {
			add("oom_kill", "the kernel has killed %d processes of its cgroup for lack of memory", c.OOMKills)
		}
	}
	if len(r.Stack) > 0 && main != nil && (main.Call != "" || main.State == "R") {
		return out // What is missing decides nothing.
	}
	for _, m := range at.Missing {
		add("look_missing", "%s", strings.TrimSuffix(m, "."))
	}
	return out
}
