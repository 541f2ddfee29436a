// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/lab/nccl"
)

// Bounds of what is drawn: seconds of a step, about; a slow job's are shorter, since it trains for many before and after its fault.
const (
	longestStep     = 1.5
	longestSlowStep = 0.5
	leastBytes      = 8
	mostBytes       = 64 << 20
	// A slow link delays what is large: below, it has no effect.
	leastSlowBytes = 64 << 10
)

// firstToShrink is the first release with ncclCommShrink.
const firstToShrink = "2.27.3"

// tries is how often a shape is drawn anew that does not fit.
const tries = 1000

// Jobs draws so many jobs of a seed, each on one of the releases.
func Jobs(seed uint64, count int, releases []string) []Job {
	out := make([]Job, count)
	for i := range out {
		out[i] = One(seed, i, releases)
	}
	return out
}

// One draws a job of a seed. Each has dice of its own, so that a job can be drawn again by itself.
func One(seed uint64, number int, releases []string) Job {
	d := &dice{rand.New(rand.NewPCG(seed, uint64(number)))}
	release := releases[d.IntN(len(releases))]
	for range tries {
		j := Job{Seed: seed, Number: number, Release: release}
		d.group(&j)
		d.shape(&j)
		d.training(&j)
		d.communication(&j)
		if d.fault(&j) {
			return j
		}
	}
	panic(fmt.Sprintf("no job can be drawn of seed %d, number %d", seed, number)) // The test draws thousands.
}

type dice struct{ *rand.Rand }

// chance is true so often.
func (d *dice) chance(share float64) bool { return d.Float64() < share }

func (d *dice) between(low, high float64) float64 { return low + (high-low)*d.Float64() }

// log draws evenly by the order of magnitude, to three digits.
func (d *dice) log(low, high float64) float64 {
	x := math.Exp(d.between(math.Log(low), math.Log(high)))
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return math.Min(high, math.Max(low, math.Round(x/unit)*unit))
}

func (d *dice) bytes(low, high float64) uint64 { return uint64(d.log(low, high)) &^ 3 }

// weighted is a thing and how often it is drawn beside others.
type weighted[T any] struct {
	thing  T
	weight float64
}

func pick[T any](d *dice, list []weighted[T]) T {
	total := 0.0
	for _, w := range list {
		total += w.weight
	}
	at := d.Float64() * total
	for _, w := range list {
		if at -= w.weight; at < 0 {
			return w.thing
		}
	}
	return list[len(list)-1].thing
}

func (d *dice) group(j *Job) {
	j.Group = pick(d, []weighted[Group]{{Hang, 55}, {Slow, 20}, {Benign, 12}, {Healthy, 13}})
}

// shape draws ranks, hosts, processes and parallelism.
func (d *dice) shape(j *Job) {
	j.Ranks = pick(d, []weighted[int]{{4, 2}, {6, 1}, {8, 6}, {12, 1}, {16, 1}})
	divisors := func(n, most int) (out []int) {
		for i := 1; i <= min(n, most); i++ {
			if n%i == 0 {
				out = append(out, i)
			}
		}
		return out
	}
	hosts := divisors(j.Ranks, 8)
	j.Hosts = hosts[d.IntN(len(hosts))]
	if j.Hosts == 1 && d.chance(0.5) {
		j.Hosts = hosts[1]
	}
	j.PerProcess = 1
	if perHost := j.Ranks / j.Hosts; perHost > 1 && d.chance(0.3) {
		several := divisors(perHost, perHost)[1:]
		j.PerProcess = several[d.IntN(len(several))]
	}
	tp := divisors(j.Ranks, 8)
	j.TP = tp[d.IntN(len(tp))]
	if d.chance(0.4) {
		j.TP = 1
	}
	pp := divisors(j.Ranks/j.TP, 4)
	j.PP = pp[d.IntN(len(pp))]
	if d.chance(0.4) {
		j.PP = 1
	}
	j.DP = j.Ranks / j.TP / j.PP
	j.EP = 1
	if experts := divisors(j.DP, 8)[1:]; len(experts) > 0 && d.chance(0.4) {
		j.EP = experts[d.IntN(len(experts))]
	}
	j.CP = 1
	if rings := divisors(j.DP, 8)[1:]; len(rings) > 0 && d.chance(0.2) {
		j.CP = rings[d.IntN(len(rings))]
	}
	if d.chance(0.2) {
		j.Cliques = d.cliques(j)
	}
	j.Shrink = j.Cliques == "" && nccl.CompareVersions(j.Release, firstToShrink) >= 0 && d.chance(0.15)
}

// cliques draws which communicators a job makes each by itself, as JAX does it.
func (d *dice) cliques(j *Job) string {
	var names []string
	for _, g := range []struct {
		name string
		size int
		keep float64
	}{{"dp", j.DP, 0.9}, {"tp", j.TP, 0.8}, {"pp", j.PP, 1}, {"ep", j.EP, 1}, {"cp", j.CP, 1}, {"world", j.Ranks, 0.3}} {
		if g.size > 1 && d.chance(g.keep) {
			names = append(names, g.name)
		}
	}
	d.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	return strings.Join(names, ",")
}

// training draws what a step does.
func (d *dice) training(j *Job) {
	longest, least, most := longestStep, float64(leastBytes), float64(mostBytes)
	if j.Group == Slow {
		longest, most = longestSlowStep, 4<<20
	}
	j.Gradient = pick(d, []weighted[string]{{"allreduce", 2}, {"rs-ag", 1}, {"fsdp", 2}})
	j.Chunks = pick(d, []weighted[int]{{2, 3}, {3, 1}})
	for range tries {
		j.Schedule = pick(d, []weighted[string]{{"1f1b", 3}, {"gpipe", 1}, {"interleaved", 2}})
		j.Compute = d.log(1, 60)
		j.Micro = pick(d, []weighted[int]{{1, 2}, {2, 4}, {4, 2}, {8, 1}})
		if j.Schedule == "interleaved" {
			j.Compute /= float64(j.Chunks)
			j.Micro *= j.PP
		}
		j.Buckets = pick(d, []weighted[int]{{1, 3}, {2, 2}, {4, 2}, {9, 1}})
		j.Bytes = d.bytes(least, most)
		j.TPBytes, j.PPBytes, j.EPBytes, j.CPBytes = d.part(j), d.part(j), d.part(j), d.part(j)
		// Megatron interleaves three stages or more.
		if j.step() < longest && (j.Schedule != "interleaved" || j.PP > 2) {
			break
		}
	}
	j.Graphs = d.chance(0.12)
	j.EPSkew = pick(d, []weighted[float64]{{0, 1}, {0.3, 1}, {0.9, 1}})
	j.Jitter = pick(d, []weighted[float64]{{0, 2}, {0.05, 2}, {0.2, 1}})
	j.Ahead = pick(d, []weighted[int]{{0, 4}, {1, 2}, {2, 1}, {4, 1}})
	j.Norm = pick(d, []weighted[int]{{1, 3}, {0, 1}, {5, 1}})
	j.Barrier = pick(d, []weighted[int]{{10, 2}, {0, 1}, {3, 1}})
	j.Broadcast = pick(d, []weighted[int]{{10, 2}, {0, 1}, {1, 1}})
}

// part draws the bytes of another operation than the gradient's: as many as its share, or anything.
func (d *dice) part(j *Job) uint64 {
	if d.chance(0.4) {
		return max(leastBytes, j.Bytes/4&^3)
	}
	return d.bytes(leastBytes, 8<<20)
}

// communication draws what NCCL may choose from, and who watches it.
func (d *dice) communication(j *Job) {
	j.Inside = pick(d, []weighted[string]{{"net", 3}, {"shm", 2}})
	j.Watch = pick(d, []weighted[Watch]{{Plugin, 5}, {Both, 3}, {Chain, 1}, {Hooks, 1}})
	j.Algo = pick(d, []weighted[string]{{"", 5}, {"allreduce:ring", 2}, {"allreduce:tree", 2}})
	j.Proto = pick(d, []weighted[string]{{"", 5}, {"Simple", 2}, {"LL", 2}, {"LL128", 1}})
	j.Channels = pick(d, []weighted[int]{{2, 4}, {1, 2}, {4, 2}, {0, 1}})
	// NCCL's own choice is the largest: with many ranks on one machine, it is short of memory.
	j.Buffer = pick(d, []weighted[int]{{1 << 20, 3}, {256 << 10, 1}, {4 << 20, 1}})
	if j.Ranks > 8 {
		j.Buffer = min(j.Buffer, 1<<20)
	}
}

// fault draws what goes wrong, where and when; false where nothing of the kind can in this job.
func (d *dice) fault(j *Job) bool {
	j.Rank = d.IntN(j.Ranks)
	j.When, j.Moment = Middle, math.Round(d.Float64()*100)/100
	j.Warmup = 15 + d.IntN(40)
	if len(j.groups(j.Rank)) == 0 && !j.has("world") {
		return false
	}
	switch j.Group {
	case Healthy:
		j.Fault, j.Rank = "none", 0
		return true
	case Benign:
		seconds := math.Round(d.between(3, 20))
		j.Fault = fmt.Sprintf("%s=%g", pick(d, []weighted[string]{{"checkpoint", 2}, {"first-step", 1}, {"eval", 1}}), seconds)
		return true
	case Slow:
		return d.slow(j)
	}
	return d.hang(j)
}

func (d *dice) slow(j *Job) bool {
	step := j.step()
	switch pick(d, []weighted[string]{{"gpu-slow", 1}, {"link-slow", 1}, {"proxy-delay", 1}, {"data-late", 1}}) {
	case "gpu-slow":
		j.Fault = fmt.Sprintf("gpu-slow=%.1f", d.between(2, 5))
		return j.Compute >= 5
	case "link-slow":
		sent := j.sent(j.Rank)
		// The link is as fast as what it sends takes so many steps.
		j.Fault, j.Link = "link-slow=0.1", math.Ceil(10*sent/1e6/(d.between(1, 3)*step))
		return sent >= leastSlowBytes && j.largest(j.Rank) >= leastSlowBytes/8
	case "proxy-delay":
		j.Fault = fmt.Sprintf("proxy-delay=%.0f", d.between(8, 30))
		return j.sent(j.Rank) > 0
	default:
		j.Fault = fmt.Sprintf("data-late=%.2f", max(0.1, d.between(1, 3)*step))
		return true
	}
}

// largest is the largest operation of a rank, in bytes.
func (j *Job) largest(rank int) uint64 {
	sizes := map[string]uint64{"dp": j.Bytes / uint64(j.Buckets), "tp": j.TPBytes, "pp": j.PPBytes, "ep": j.EPBytes / uint64(j.EP), "cp": j.CPBytes}
	var out uint64
	for name := range j.groups(rank) {
		out = max(out, sizes[name])
	}
	return out
}

// hangs are faults that stop a job, by how often they are drawn. A job that stands before it has communicators takes minutes to be
// told of: these are rare.
var hangs = []weighted[string]{
	{"link-stall", 4},
	{"gpu-freeze", 4},
	{"kernel-stall", 3},
	{"op-not-entered=sleep", 3},
	{"op-not-entered=spin", 1},
	{"other-op=allgather", 0.7},
	{"other-op=reducescatter", 0.7},
	{"other-op=size", 0.7},
	{"stop", 2},
	{"kill", 2},
	{"broadcast-not-entered=sleep", 1},
	{"init-hang", 0.15},
	{"split-hang", 0.15},
}

func (d *dice) hang(j *Job) bool {
	j.Fault = pick(d, hangs)
	groups := j.groups(j.Rank)
	switch j.Kind() {
	case "link-stall":
		if j.sent(j.Rank) == 0 {
			return false
		}
	case "broadcast-not-entered":
		if j.Broadcast == 0 || groups["tp"] == nil && groups["dp"] == nil {
			return false
		}
	case "other-op":
		if groups["tp"] == nil && groups["dp"] == nil || j.Graphs && (!j.has("world") || j.Norm == 0) {
			return false
		}
	case "init-hang", "split-hang":
		j.Comm = "any"
		return j.Kind() == "init-hang" || len(groups) > 0
	}
	if j.Kind() == "op-not-entered" || j.Kind() == "other-op" {
		j.Comm = "any"
	}
	if slices.Contains([]string{"other-op", "broadcast-not-entered"}, j.Kind()) {
		return true
	}
	switch x := d.Float64(); {
	case x < 0.08:
		j.When, j.Moment = First, 0
	case x < 0.16:
		// The step before the last one has no barrier and no batch: with fewer operations, the last one's end would not be met.
		j.When, j.Moment, j.Steps = Last, 1, 10*(2+d.IntN(3))+5
	case x < 0.26 && j.Kind() != "kill":
		j.For = math.Round(d.between(1, 6))
	}
	return true
}
