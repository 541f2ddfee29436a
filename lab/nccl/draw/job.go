// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package draw draws training jobs on the real NCCL library, and what goes wrong in them, from a seed: jobs that nobody has
// chosen and nobody has looked at before.
package draw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Group is a kind of job by what goes wrong in it.
type Group string

// Groups.
const (
	Hang    Group = "hang"
	Slow    Group = "slow"
	Benign  Group = "benign"
	Healthy Group = "healthy"
)

// Watch is what watches a job.
type Watch string

// Watches.
const (
	Plugin Watch = "plugin"
	Both   Watch = "both"  // The plugin and the preloaded hooks.
	Chain  Watch = "chain" // The plugin with a second plugin behind it.
	Hooks  Watch = "hooks" // The preloaded hooks alone.
)

// When a fault begins.
type When string

// Moments in a job's life. In its middle is after a warm-up.
const (
	Middle When = "middle"
	First  When = "first" // Before the first operation of the first step.
	Last   When = "last"  // Before the last operation of the last step.
)

// Job is a drawn job. Sizes are bytes, times of computation milliseconds. One that was written down before a field existed has 0 there,
// which stands for what such jobs did.
type Job struct {
	Seed    uint64 `json:"seed"`
	Number  int    `json:"number"` // Of the seed's jobs, from 0.
	Release string `json:"release"`

	Ranks      int    `json:"ranks"`
	Hosts      int    `json:"hosts"`
	PerProcess int    `json:"per_process"` // Ranks.
	TP         int    `json:"tp"`
	DP         int    `json:"dp"`
	PP         int    `json:"pp"`
	EP         int    `json:"ep"` // Inside dp, as cp.
	CP         int    `json:"cp"`
	Cliques    string `json:"cliques,omitempty"` // Communicators made each by itself; empty: world and its splits.

	Shrink bool `json:"shrink,omitempty"` // A communicator of all ranks but the last, made by ncclCommShrink.

	Inside   string `json:"inside"` // Between ranks of a host: net or shm.
	Watch    Watch  `json:"watch"`
	Algo     string `json:"algo,omitempty"`
	Proto    string `json:"proto,omitempty"`
	Channels int    `json:"channels"` // 0: NCCL's choice.
	Buffer   int    `json:"buffer"`   // Bytes of a connection's; NCCL_BUFFSIZE.

	Compute   float64 `json:"compute_ms"`
	Jitter    float64 `json:"jitter"`
	Micro     int     `json:"microbatches"`
	Schedule  string  `json:"schedule"`
	Chunks    int     `json:"chunks"` // Of a stage, interleaved.
	Gradient  string  `json:"gradient"`
	Buckets   int     `json:"buckets"`
	Bytes     uint64  `json:"bytes"`
	TPBytes   uint64  `json:"tp_bytes"`
	PPBytes   uint64  `json:"pp_bytes"`
	EPBytes   uint64  `json:"ep_bytes"`
	CPBytes   uint64  `json:"cp_bytes"`
	EPSkew    float64 `json:"ep_skew"` // How much an all-to-all is uneven.
	Ahead     int     `json:"ahead"`
	Graphs    bool    `json:"graphs,omitempty"` // Passes are replayed from a CUDA graph.
	Norm      int     `json:"norm_every"`
	Barrier   int     `json:"barrier_every"`
	Broadcast int     `json:"broadcast_every"`
	Steps     int     `json:"steps,omitempty"` // 0: until it is ended.

	Group  Group   `json:"group"`
	Fault  string  `json:"fault"` // With its value; "none".
	Rank   int     `json:"rank"`
	Comm   string  `json:"comm,omitempty"` // Whose operation the fault strikes; empty: the gradient's.
	When   When    `json:"when"`
	Warmup int     `json:"warmup"`        // Steps before a fault in the middle.
	Moment float64 `json:"moment"`        // Share of a step's operations that are called before the fault begins.
	For    float64 `json:"for,omitempty"` // Seconds; 0: until the end.
	// Link is what a slow link carries when it is whole, in MB/s.
	Link float64 `json:"link_mbps,omitempty"`
}

// ID names the job among all that were ever drawn.
func (j *Job) ID() string { return fmt.Sprintf("%d-%d", j.Seed, j.Number) }

// Kind is the fault without its value.
func (j *Job) Kind() string {
	kind, _, _ := strings.Cut(j.Fault, "=")
	return kind
}

// Layout is the parallelism as the training program takes it.
func (j *Job) Layout() string {
	parts := []string{"dp" + strconv.Itoa(j.DP)}
	if j.PP > 1 {
		parts = append(parts, "pp"+strconv.Itoa(j.PP))
	}
	if j.TP > 1 {
		parts = append(parts, "tp"+strconv.Itoa(j.TP))
	}
	if j.EP > 1 {
		parts = append(parts, "ep"+strconv.Itoa(j.EP))
	}
	if j.CP > 1 {
		parts = append(parts, "cp"+strconv.Itoa(j.CP))
	}
	return strings.Join(parts, ",")
}

// otherAlgos follows an algorithm for AllReduce alone. From 2.31 on NCCL_ALGO leaves no algorithm to the functions that it does not name, and
// calls of these are invalid.
const otherAlgos = ";broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring"

// Flags are those of each rank, without the layout and the fault's own two.
func (j *Job) Flags() []string {
	flags := []string{
		"--intra=" + j.Inside, "--channels=" + strconv.Itoa(j.Channels),
		fmt.Sprintf("--compute-ms=%g", j.Compute), fmt.Sprintf("--jitter=%g", j.Jitter),
		"--microbatches=" + strconv.Itoa(j.Micro), "--schedule=" + j.Schedule, "--chunks=" + strconv.Itoa(max(1, j.Chunks)), "--dp-op=" + j.Gradient, "--dp-buckets=" + strconv.Itoa(j.Buckets),
		fmt.Sprintf("--bytes=%d", j.Bytes), fmt.Sprintf("--tp-bytes=%d", j.TPBytes), fmt.Sprintf("--pp-bytes=%d", j.PPBytes), fmt.Sprintf("--ep-bytes=%d", j.EPBytes),
		fmt.Sprintf("--cp-bytes=%d", j.CPBytes), fmt.Sprintf("--ep-skew=%g", j.EPSkew),
		"--ahead=" + strconv.Itoa(j.Ahead), "--norm-every=" + strconv.Itoa(j.Norm), "--barrier-every=" + strconv.Itoa(j.Barrier),
		"--broadcast-every=" + strconv.Itoa(j.Broadcast), "--steps=" + strconv.Itoa(j.Steps), "--report-rank=" + strconv.Itoa(j.Rank),
	}
	if j.Cliques != "" {
		flags = append(flags, "--cliques="+j.Cliques)
	}
	if j.Shrink {
		flags = append(flags, "--shrink")
	}
	if j.Graphs {
		flags = append(flags, "--graphs")
	}
	if j.Algo != "" {
		flags = append(flags, "--algo="+j.Algo+otherAlgos)
	}
	if j.Proto != "" {
		flags = append(flags, "--proto="+j.Proto)
	}
	if j.Bytes+j.TPBytes+j.PPBytes+j.EPBytes+j.CPBytes > checkedBytes {
		flags = append(flags, "--check=off")
	}
	return append(flags, j.faultFlags()...)
}

// Env is what the ranks' environment has beside what the library and those that watch it need.
func (j *Job) Env() []string {
	if j.Buffer == 0 {
		return nil
	}
	return []string{"NCCL_BUFFSIZE=" + strconv.Itoa(j.Buffer)}
}

// checkedBytes is how much the ranks verify in a step at most: beyond, the processors would do little else.
const checkedBytes = 1 << 20

func (j *Job) faultFlags() []string {
	var flags []string
	if j.Fault == "none" {
		return nil
	}
	if j.Comm != "" {
		flags = append(flags, "--fault-comm="+j.Comm)
	}
	if j.Link > 0 {
		flags = append(flags, fmt.Sprintf("--link-mbps=%g", j.Link))
	}
	if j.For > 0 {
		flags = append(flags, fmt.Sprintf("--fault-for=%g", j.For))
	}
	if j.BeforeTraining() || j.BetweenSteps() {
		return flags
	}
	switch j.When {
	case First:
		flags = append(flags, "--fault-at-step=0")
	case Last:
		flags = append(flags, "--fault-at-step="+strconv.Itoa(j.Steps-1))
	}
	return append(flags, fmt.Sprintf("--fault-moment=%g", j.Moment))
}

// BeforeTraining says whether the fault lies before the first step.
func (j *Job) BeforeTraining() bool {
	return slices.Contains([]string{"init-hang", "split-hang", "first-step"}, j.Kind())
}

// BetweenSteps says whether the fault acts before a step begins, so that it has no moment within one.
func (j *Job) BetweenSteps() bool {
	return slices.Contains([]string{"checkpoint", "eval", "data-late"}, j.Kind())
}

// host of a rank: blocks of equal size.
func (j *Job) host(rank int) int { return rank / (j.Ranks / j.Hosts) }

// groups gives the members of each communicator of a rank that its operations run on, by name. Ranks are numbered as Megatron does:
// tensor parallel first, then data, then pipeline.
func (j *Job) groups(rank int) map[string][]int {
	tp, dp, pp := rank%j.TP, rank/j.TP%j.DP, rank/(j.TP*j.DP)
	at := func(t, d, p int) int { return t + j.TP*(d+j.DP*p) }
	out := map[string][]int{}
	for i := range j.TP {
		out["tp"] = append(out["tp"], at(i, dp, pp))
	}
	for i := range j.DP {
		out["dp"] = append(out["dp"], at(tp, i, pp))
	}
	for i := range j.PP {
		out["pp"] = append(out["pp"], at(tp, dp, i))
	}
	for i := range j.EP {
		out["ep"] = append(out["ep"], at(tp, dp-dp%j.EP+i, pp))
	}
	for i := range j.CP { // None in a job without the field.
		out["cp"] = append(out["cp"], at(tp, dp-dp%j.CP+i, pp))
	}
	for name, members := range out {
		if len(members) < 2 || !j.has(name) {
			delete(out, name)
		}
	}
	return out
}

// has says whether the job makes communicators of a name.
func (j *Job) has(name string) bool {
	return j.Cliques == "" || slices.Contains(strings.Split(j.Cliques, ","), name)
}

// use is what an operation's communicator carries of a rank in a step: operations, and bytes that it sends in each.
type use struct {
	ops, bytes float64
}

// passes is how many forward and backward passes a stage makes in a step.
func (j *Job) passes() float64 {
	if j.Schedule == "interleaved" {
		return float64(2 * j.Micro * j.Chunks)
	}
	return float64(2 * j.Micro)
}

// uses gives what the communicators of some sizes carry, by name.
func (j *Job) uses(name string, members int) use {
	n, passes := float64(members), j.passes()
	switch name {
	case "dp":
		share := (n - 1) / n * float64(j.Bytes) / float64(j.Buckets)
		if j.Gradient == "fsdp" {
			return use{1.5 * passes * float64(j.Buckets), share} // A backward pass gathers and scatters.
		}
		return use{float64(j.Buckets), 2 * share}
	case "tp":
		return use{passes, 2 * (n - 1) / n * float64(j.TPBytes)}
	case "pp":
		return use{passes, float64(j.PPBytes)}
	case "ep":
		return use{2 * passes, (n - 1) / n * float64(j.EPBytes)}
	case "cp":
		rounds := passes + float64(j.Buckets-1)
		if j.Gradient == "fsdp" {
			rounds = passes * float64(j.Buckets)
		}
		return use{rounds * (n - 1), float64(j.CPBytes)}
	}
	return use{}
}

// sent is about how many bytes a rank sends over the network in a step. Where ranks of a host share memory, a ring's neighbours are
// only known to be on other hosts if all members are: what is not known is not counted.
func (j *Job) sent(rank int) float64 {
	total := 0.0
	for name, members := range j.groups(rank) {
		u := j.uses(name, len(members))
		total += u.ops * u.bytes * j.away(name, rank, members)
	}
	return total
}

// away is the share of what a rank sends on a communicator that certainly leaves its host's shared memory.
func (j *Job) away(name string, rank int, members []int) float64 {
	if j.Inside == "net" {
		return 1
	}
	at, n := slices.Index(members, rank), len(members)
	elsewhere := func(i int) float64 {
		if j.host(members[(i+n)%n]) != j.host(rank) {
			return 1
		}
		return 0
	}
	total := 0.0
	switch name {
	case "cp":
		return elsewhere(at + 1)
	case "pp": // As much forth as back.
		if at+1 < n || j.Schedule == "interleaved" {
			total += elsewhere(at+1) / 2
		}
		if at > 0 || j.Schedule == "interleaved" {
			total += elsewhere(at-1) / 2
		}
		return total
	case "ep":
		for i := range members {
			total += elsewhere(i) / float64(n-1)
		}
		return total
	}
	for i, a := range members {
		for _, b := range members[:i] {
			if j.host(a) == j.host(b) {
				return 0
			}
		}
	}
	return 1
}

// What a small machine needs for a hop of an operation, and how fast it moves bytes: only so that steps are neither too long nor too short.
const (
	hopSeconds     = 0.0007
	bytesPerSecond = 250e6
)

// step is about how many seconds a step takes.
func (j *Job) step() float64 {
	passes := j.passes()
	total := (passes + 2*float64(j.PP-1)) * j.Compute / 1000
	for name, members := range j.groups(0) {
		u, hops := j.uses(name, len(members)), 2.0
		if name == "dp" || name == "tp" {
			hops = 2 * float64(len(members))
		}
		total += u.ops * (hops*hopSeconds + u.bytes*float64(j.Ranks)/bytesPerSecond)
	}
	if j.has("world") && j.Norm > 0 {
		total += 2 * float64(j.Ranks) / float64(j.Norm) * hopSeconds
	}
	return total
}
