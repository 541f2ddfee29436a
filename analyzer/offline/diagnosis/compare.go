// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/gather"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Difference is something that takes longer than in the healthy recording.
type Difference struct {
	Kind           string        `json:"kind"` // step, work, transfer or wait.
	Rank           int           `json:"rank"` // -1 where all ranks share it.
	Operation      string        `json:"operation,omitempty"`
	HealthySeconds float64       `json:"healthy_seconds"`
	Seconds        float64       `json:"seconds"`
	Ratio          float64       `json:"ratio"`
	extra          time.Duration // In the whole recording.
}

// noticeable is the ratio from which a difference is told.
const noticeable = 1.1

// comparedShown is how many differences of a kind are told.
const comparedShown = 4

// negligible is the share of the recording below which nothing is told.
const negligible = 0.005

func (d *Difference) text() string {
	times := fmt.Sprintf("%s, %.2fx of the healthy %s", Seconds(d.Seconds), d.Ratio, Seconds(d.HealthySeconds))
	switch d.Kind {
	case KindStep:
		return d.Operation + " takes " + times
	case KindWork:
		return fmt.Sprintf("rank %d: its own work, %s, takes %s", d.Rank, d.Operation, times)
	case KindTransfer:
		return fmt.Sprintf("%s: moving the data takes %s", d.Operation, times)
	}
	return fmt.Sprintf("rank %d waits for others in %s for %s", d.Rank, d.Operation, times)
}

// Kinds of differences, in the order in which they are told.
const (
	KindStep     = "step"
	KindWork     = "work"
	KindTransfer = "transfer"
	KindWait     = "wait"
)

// CompareWith holds a diagnosis against a healthy recording's.
func (r *Result) CompareWith(healthy *Result) {
	add := func(format string, args ...any) { r.Comparison = append(r.Comparison, fmt.Sprintf(format, args...)) }
	if c := healthy.Verdict.Class; c != rca.Healthy && c != rca.Unknown && c != rca.Benign {
		add("the recording given as healthy shows something too: %s", healthy.Verdict.Summary)
	}
	a, b := healthy.Evidence, r.Evidence
	if a.WorldSize > 0 && b.WorldSize > 0 && a.WorldSize != b.WorldSize {
		add("the healthy job has %d ranks, this one %d: times per rank are not compared", a.WorldSize, b.WorldSize)
		return
	}
	before, after := profile(&a), profile(&b)
	r.Differences = differences(before, after, length(&b))
	shown := map[string]int{}
	for i := range r.Differences {
		d := &r.Differences[i]
		if shown[d.Kind]++; shown[d.Kind] <= comparedShown {
			add("%s", d.text())
		}
	}
	for _, kind := range []string{KindWork, KindTransfer, KindWait} {
		if n := shown[kind] - comparedShown; n > 0 {
			add("… and %d more of the kind %q take longer (--json has all)", n, kind)
		}
	}
	if n := common(before, after, KindTransfer); n > 0 && shown[KindTransfer] == 0 {
		add("the network is innocent: none of %s of data movement takes noticeably longer", counted(n, "kind"))
	}
	if n := common(before, after, KindWork); n > 0 && shown[KindWork] == 0 {
		add("no rank's own work takes noticeably longer (%s compared)", counted(n, "kind"))
	}
	r.Comparison = append(r.Comparison, compareOps(a, b)...)
	if len(r.Comparison) == 0 {
		add("nothing in them can be compared: neither has finished operations of the same kind with times")
	}
}

// measure is a kind of time of a rank, or of all.
type measure struct {
	kind      string
	rank      int
	operation string
}

// times are the lengths of one measure.
type times []int64

// profile takes a recording apart into what depends on one rank alone, what on the network, and waiting. The member that
// comes last to an operation waits for nobody: its time is the data's, whatever the clocks say.
func profile(ev *rca.Evidence) map[measure]times {
	out := map[measure]times{}
	size := map[rca.CommID]int{}
	for _, c := range ev.Comms {
		size[c.ID] = c.Size
	}
	least := shortest(ev.Timeline)
	computes := map[int]bool{}
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		computes[s.Rank] = computes[s.Rank] || s.Kind == rca.SegmentCompute
	}
	steps(ev, out)
	busy := map[int]int64{}
	for i := range ev.Timeline { // In order of the ranks and of time.
		s := &ev.Timeline[i]
		took := s.End - entered(s)
		add := func(kind string, rank int, operation string, v int64) {
			k := measure{kind, rank, operation}
			out[k] = append(out[k], v)
		}
		if s.Kind == rca.SegmentCompute {
			add(KindWork, s.Rank, s.Func, took)
			continue
		}
		name := s.Func
		if n := size[s.Comm]; n > 1 && s.Peer < 0 {
			name = fmt.Sprintf("%s of %d ranks", s.Func, n)
		}
		if end, ok := busy[s.Rank]; ok && !computes[s.Rank] && entered(s) > end {
			add(KindWork, s.Rank, "before "+name, entered(s)-end)
		}
		busy[s.Rank] = max(busy[s.Rank], s.End)
		if l, ok := least[instanceOf(s)]; ok && l.n > 1 {
			if l.rank == s.Rank {
				add(KindTransfer, -1, name, took)
			}
			add(KindWait, s.Rank, name, took-l.took)
		}
	}
	return out
}

// entered is when the operation itself began: programs call ahead, and its kernel waits for the work before it.
func entered(s *rca.Segment) int64 {
	if s.Kind == rca.SegmentOp && s.Entered > s.Start && s.Entered <= s.End {
		return s.Entered
	}
	return s.Start
}

// steps adds how long a step takes, from the end of one to the end of the next, or, where steps are not known, an
// operation with all that goes before it.
func steps(ev *rca.Evidence, out map[measure]times) {
	type part struct{ rank, iteration int }
	ends := map[part]int64{}
	last := map[int]int64{}
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		if s.Iteration >= 0 {
			k := part{s.Rank, s.Iteration}
			ends[k] = max(ends[k], s.End)
			continue
		}
		if end, ok := last[s.Rank]; ok && s.Kind == rca.SegmentOp && s.Peer < 0 && s.End > end {
			k := measure{KindStep, -1, "an operation with the work before it"}
			out[k] = append(out[k], s.End-end)
		}
		last[s.Rank] = max(last[s.Rank], s.End)
	}
	for k, end := range ends {
		if before, ok := ends[part{k.rank, k.iteration - 1}]; ok && end > before {
			step := measure{KindStep, -1, "a step"}
			out[step] = append(out[step], end-before)
		}
	}
}

// length is the time that the longest rank's recording covers.
func length(ev *rca.Evidence) int64 {
	first, last := map[int]int64{}, map[int]int64{}
	longest := int64(0)
	for i := range ev.Timeline {
		s := &ev.Timeline[i]
		if at, ok := first[s.Rank]; !ok || s.Start < at {
			first[s.Rank] = s.Start
		}
		last[s.Rank] = max(last[s.Rank], s.End)
	}
	for r, end := range last {
		longest = max(longest, end-first[r])
	}
	return longest
}

type occurrence struct {
	comm      rca.CommID
	iteration int
	seq       int64
	fn        string
}

func instanceOf(s *rca.Segment) occurrence {
	return occurrence{s.Comm, s.Iteration, max(s.Seq, s.Number), s.Func}
}

type fastest struct {
	took int64
	rank int
	n    int
}

// shortest gives for each collective the member that was in it for the shortest time.
func shortest(timeline []rca.Segment) map[occurrence]fastest {
	out := map[occurrence]fastest{}
	for i := range timeline {
		s := &timeline[i]
		if s.Kind != rca.SegmentOp || s.Peer >= 0 || max(s.Seq, s.Number) < 0 {
			continue
		}
		k := instanceOf(s)
		f, ok := out[k]
		if took := s.End - entered(s); !ok || took < f.took {
			f.took, f.rank = took, s.Rank
		}
		f.n++
		out[k] = f
	}
	return out
}

// differences lists what takes noticeably longer: first what ranks do, then what the network does, then the waiting that
// follows from them; within a kind what costs most comes first.
func differences(before, after map[measure]times, span int64) []Difference {
	var out []Difference
	for k, now := range after {
		was, ok := before[k]
		if !ok {
			continue
		}
		a, b := gather.Median(was), gather.Median(now)
		extra := float64(b-a) * float64(len(now))
		if a <= 0 || float64(b) < noticeable*float64(a) || k.kind != KindStep && extra < negligible*float64(span) {
			continue
		}
		out = append(out, Difference{
			Kind: k.kind, Rank: k.rank, Operation: k.operation, HealthySeconds: float64(a) / 1e9, Seconds: float64(b) / 1e9,
			Ratio: float64(b) / float64(a), extra: time.Duration(extra),
		})
	}
	order := map[string]int{KindStep: 0, KindWork: 1, KindTransfer: 2, KindWait: 3}
	slices.SortFunc(out, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(order[x.Kind], order[y.Kind]), cmp.Compare(y.extra, x.extra), cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Operation, y.Operation))
	})
	return out
}

// common counts the measures of a kind that both recordings have.
func common(before, after map[measure]times, kind string) int {
	n := 0
	for k := range after {
		if _, ok := before[k]; ok && k.kind == kind {
			n++
		}
	}
	return n
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// compareOps names operations in flight that the healthy recording never showed on that communicator.
func compareOps(healthy, sick rca.Evidence) []string {
	known := map[string]map[string]bool{}
	each := func(ev rca.Evidence, f func(comm, op string)) {
		names := map[rca.CommID]string{}
		for _, c := range ev.Comms {
			names[c.ID] = c.Name
		}
		for _, r := range ev.Ranks {
			for _, m := range r.Memberships {
				for _, op := range slices.Concat(m.Recent, m.InFlight) {
					f(names[m.Comm], op.Func)
				}
			}
		}
	}
	each(healthy, func(comm, op string) {
		if known[comm] == nil {
			known[comm] = map[string]bool{}
		}
		known[comm][op] = true
	})
	strange := map[string]bool{}
	each(sick, func(comm, op string) {
		if known[comm] != nil && !known[comm][op] {
			strange[fmt.Sprintf("%s in %s does not occur in the healthy recording", op, comm)] = true
		}
	})
	return slices.Sorted(maps.Keys(strange))
}

// Seconds says a length of time of any size with four digits.
func Seconds(s float64) string {
	switch {
	case s >= 10:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.01:
		return fmt.Sprintf("%.0f ms", 1e3*s)
	default:
		return fmt.Sprintf("%.0f us", 1e6*s)
	}
}
