// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/frames"
)

// Known is what other sources tell of the processes that stacks may be of.
type Known struct {
	ByPID  map[int][]int         // Ranks by process number.
	ByName func(file string) int // The rank that a file's name gives; -1 none.
	World  int                   // Ranks of the job; 0 unknown.
}

// Evidence gives each process's stack to its rank. global is false where nothing tells any rank: the processes are then
// numbered, and known by their process numbers.
func Evidence(processes []Process, known Known) (ev rca.Evidence, notes []string, global bool) {
	b := builder{Job: gather.New(0), known: known, ranks: map[int]*Process{}}
	own := b.families(processes)
	b.locals(own)
	b.titles(own)
	b.inFile = map[string]int{}
	for _, p := range own {
		b.inFile[p.File]++
	}
	for _, p := range own {
		rank := b.rankOf(p)
		switch {
		case rank < 0:
			b.nameless = append(b.nameless, p)
		case b.ranks[rank] != nil:
			b.Note("%s: another stack of rank %d, left out", p.File, rank)
		default:
			b.ranks[rank] = p
		}
	}
	global = len(b.ranks) > 0 || len(b.nameless) == 0
	if b.inOrder() {
		global = true
	}
	for i, p := range b.nameless {
		if global {
			b.Lacks("file", p.File, "nothing says whose stack %s is", name(p))
			continue
		}
		b.ranks[i] = p
	}
	for _, id := range slices.Sorted(maps.Keys(b.ranks)) {
		r := b.rank(id, b.ranks[id])
		if !global {
			r.Name = name(b.ranks[id])
		}
		b.World = max(b.World, b.ranks[id].World)
	}
	if global && starts(own) {
		b.Rest("no stack of it was given")
	}
	return b.Evidence(), b.Notes, global
}

func name(p *Process) string {
	if p.PID == 0 {
		return "the process of " + path.Base(p.File)
	}
	return fmt.Sprintf("process %d", p.PID)
}

type builder struct {
	*gather.Job
	known    Known
	ranks    map[int]*Process
	nameless []*Process
	workers  map[*Process][]*Process
	local    map[*Process]int // Ranks on their host, where no two are alike.
	inFile   map[string]int   // Processes in each file.
}

// families tells the job's ranks from the processes that they started: what those do, their ranks wait for.
func (b *builder) families(all []Process) []*Process {
	b.workers = map[*Process][]*Process{}
	var own []*Process
	for i := range all {
		p := &all[i]
		if len(p.Main()) == 0 {
			continue
		}
		if !p.helper() {
			own = append(own, p)
			continue
		}
		// The tool prints a process before its children.
		for k := i - 1; k >= 0 && all[k].File == p.File; k-- {
			if !all[k].helper() {
				b.workers[&all[k]] = append(b.workers[&all[k]], p)
				break
			}
		}
	}
	return own
}

// locals takes the ranks on their host that command lines name for the job's, unless two processes have the same.
func (b *builder) locals(own []*Process) {
	seen := map[int]bool{}
	b.local = map[*Process]int{}
	for _, p := range own {
		m := localFlag.FindStringSubmatch(p.Command)
		if m == nil {
			continue
		}
		n := atoi(m[1])
		if seen[n] {
			b.local = nil
			return
		}
		seen[n] = true
		b.local[p] = n
	}
}

// title is what servers call their processes: their place in each kind of parallelism.
var title = regexp.MustCompile(`\b(?:sglang::scheduler|VLLM::Worker|VllmWorker|scheduler|Worker)_?((?:_?(?:DP|PP|TP|EP|CP)\d+)+)\b`)

// titles takes the place that processes have in their names for the rank, where it is one number and no two have the same.
func (b *builder) titles(own []*Process) {
	if len(b.local) > 0 {
		return
	}
	at := map[int]*Process{}
	for _, p := range own {
		m := title.FindStringSubmatch(p.Command)
		if m == nil {
			continue
		}
		parts := strings.FieldsFunc(m[1], func(r rune) bool { return r == '_' })
		n := atoi(strings.TrimLeft(parts[0], "DPTEC"))
		if len(parts) != 1 || strings.HasPrefix(parts[0], "DP") || n < 0 || at[n] != nil {
			return
		}
		at[n] = p
	}
	for n, p := range at {
		b.local[p] = n
	}
}

// starts reports whether a stack is inside a communicator's start, which needs all of its ranks.
func starts(own []*Process) bool {
	return slices.ContainsFunc(own, func(p *Process) bool { return p.Starts != "" })
}

// Findings says which ranks are in a communicator's start, as their arguments there tell.
func Findings(processes []Process) []told.Finding {
	have := map[int]bool{}
	size := 0
	var out []told.Finding
	for i := range processes {
		if p := &processes[i]; p.Starts != "" {
			have[p.Rank] = true
			size = max(size, p.World)
		}
	}
	if !slices.ContainsFunc(processes, func(p Process) bool { return !p.cut() }) {
		f := told.New(grammar.SideThreads, "the stacks are those of side threads; the main thread's is not there")
		f.Whole = true
		out = append(out, f)
	}
	var absent []int
	for r := range min(size, mostMerged) {
		if !have[r] {
			absent = append(absent, r)
		}
	}
	for i := range processes {
		p := &processes[i]
		if p.Starts == "" || len(absent) == 0 {
			continue
		}
		f := told.New(grammar.Starting, fmt.Sprintf("is in NCCL's start of a communicator of %d ranks (%s), and waits for %s to connect", p.World, p.Starts, told.Ranks(absent)))
		f.Rank, f.PID = p.Rank, p.PID
		out = append(out, f)
	}
	return out
}

// helper says that a process is no rank but was started by one: a data loader's worker, or what multiprocessing needs.
func (p *Process) helper() bool {
	if strings.Contains(p.Command, "multiprocessing.") || strings.Contains(p.Command, "multiprocessing/") {
		return true
	}
	return slices.ContainsFunc(p.Main(), func(f string) bool {
		at := frames.Parse(f)
		return at.Func == "_worker_loop" && strings.HasSuffix(at.File, "_utils/worker.py")
	})
}

// rankOf gives the rank whose process it is, -1 unknown: what the process itself says goes before its number, and that before
// the file's name. A number in the name that is the process's own, or larger than the job, is no rank.
func (b *builder) rankOf(p *Process) int {
	if p.Rank >= 0 && (b.known.World == 0 || p.Rank < b.known.World) {
		return p.Rank
	}
	named := b.known.ByName(p.File)
	if b.inFile[p.File] > 1 {
		named = -1 // A number in the name of a file with several processes is none of theirs.
	}
	if p.PID > 0 && named == p.PID || b.known.World > 0 && named >= b.known.World {
		named = -1
	}
	switch owners := b.known.ByPID[p.PID]; {
	case p.PID > 0 && len(owners) == 1:
		return owners[0]
	case b.has(p):
		return b.local[p]
	case named >= 0 && (len(owners) == 0 || slices.Contains(owners, named)):
		return named
	}
	return -1
}

func (b *builder) has(p *Process) bool {
	_, ok := b.local[p]
	return ok
}

// inOrder numbers the processes where nothing tells their ranks but they are all of the job: launchers start ranks in order.
func (b *builder) inOrder() bool {
	if b.known.World == 0 || len(b.nameless) == 0 || len(b.ranks)+len(b.nameless) != b.known.World {
		return false
	}
	all := slices.Clone(b.nameless)
	for _, p := range b.ranks {
		all = append(all, p)
	}
	if slices.ContainsFunc(all, func(p *Process) bool { return p.PID == 0 }) {
		return false
	}
	slices.SortFunc(all, func(x, y *Process) int { return cmp.Compare(x.PID, y.PID) })
	for id, p := range b.ranks {
		if all[id] != p {
			return false
		}
	}
	b.ranks, b.nameless = map[int]*Process{}, nil
	for i, p := range all {
		b.ranks[i] = p
	}
	b.Note("ranks were given to processes in the order of their numbers, as launchers start them")
	return true
}

func (b *builder) rank(id int, p *Process) *rca.Rank {
	stack := b.telling(p)
	r := b.Rank(id)
	r.PID, r.Stack = p.PID, stack
	for i := range p.Threads {
		if t := &p.Threads[i]; t.GIL && len(t.Stack) > 0 && !slices.Equal(t.Stack, stack) {
			b.Process(id, "", "gil_held", "rank %d: thread %s holds the interpreter lock in %s", id, cmp.Or(t.Name, t.ID), t.Stack[len(t.Stack)-1])
		}
	}
	return r
}

// Telling gives the stack that says what a process does, as far as it shows that itself.
func (p *Process) Telling() []string { return (&builder{}).telling(p) }

// telling is the stack that says what a rank does: the main thread's, unless that waits for a worker or for autograd and the
// one that it waits for has a stack of its own.
func (b *builder) telling(p *Process) []string {
	main := p.Main()
	if p.Starts != "" && !slices.ContainsFunc(main, func(f string) bool { return strings.HasPrefix(f, p.Starts) }) {
		for i := range p.Threads {
			if t := &p.Threads[i]; slices.ContainsFunc(t.Stack, func(f string) bool { return strings.HasPrefix(f, p.Starts) }) {
				return slices.Concat(main, t.Stack)
			}
		}
	}
	switch frames.Of(main).Kind {
	case frames.DataLoad:
		for _, w := range b.workers[p] {
			if inner := frames.Of(w.Main()); inner.Site != "" && inner.Kind > frames.Device {
				return slices.Concat(main, w.Main())
			}
		}
	case frames.Backward:
		for i := range p.Threads {
			t := &p.Threads[i]
			if len(t.Stack) > 0 && (strings.HasPrefix(t.Name, "pt_autograd") || !slices.Equal(t.Stack, main) && t.Name == "" && frames.Of(t.Stack).Kind == frames.Communicate) {
				return slices.Concat(main, t.Stack)
			}
		}
	}
	return main
}

// Cluster is a set of ranks with one stack (M11).
type Cluster struct {
	Ranks []int
	Names []string // Of those that have one instead of a number.
	Stack []string // Innermost last.
}

// Clusters groups ranks by identical stacks, the largest group first.
func Clusters(ranks []rca.Rank) []Cluster {
	by := map[string]*Cluster{}
	for i := range ranks {
		r := &ranks[i]
		if len(r.Stack) == 0 {
			continue
		}
		key := strings.Join(r.Stack, "\n")
		if by[key] == nil {
			by[key] = &Cluster{Stack: r.Stack}
		}
		by[key].Ranks = append(by[key].Ranks, r.ID)
		if r.Name != "" {
			by[key].Names = append(by[key].Names, r.Name)
		}
	}
	out := make([]Cluster, 0, len(by))
	for _, key := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[key].Ranks)
		out = append(out, *by[key])
	}
	slices.SortStableFunc(out, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(len(b.Ranks), len(a.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	return out
}
