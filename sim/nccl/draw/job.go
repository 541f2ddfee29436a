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

// Job is a drawn job. Sizes are bytes, times of computation milliseconds.
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
	EP         int    `json:"ep"`
	Cliques    string `json:"cliques,omitempty"` // Communicators made each by itself; empty: world and its splits.

	Inside   string `json:"inside"` // Between ranks of a host: net or shm.
	Watch    Watch  `json:"watch"`
	Algo     string `json:"algo,omitempty"`
	Proto    string `json:"proto,omitempty"`
	Channels int    `json:"channels"` // 0: NCCL's choice.

	Compute   float64 `json:"compute_ms"`
	Jitter    float64 `json:"jitter"`
	Micro     int     `json:"microbatches"`
	Schedule  string  `json:"schedule"`
	Gradient  string  `json:"gradient"`
	Buckets   int     `json:"buckets"`
	Bytes     uint64  `json:"bytes"`
	TPBytes   uint64  `json:"tp_bytes"`
	PPBytes   uint64  `json:"pp_bytes"`
	EPBytes   uint64  `json:"ep_bytes"`
	Ahead     int     `json:"ahead"`
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
	return strings.Join(parts, ",")
}

// Flags are those of each rank, without the layout and the fault's own two.
func (j *Job) Flags() []string {
	flags := []string{
		"--intra=" + j.Inside, "--channels=" + strconv.Itoa(j.Channels),
		fmt.Sprintf("--compute-ms=%g", j.Compute), fmt.Sprintf("--jitter=%g", j.Jitter),
		"--microbatches=" + strconv.Itoa(j.Micro), "--schedule=" + j.Schedule, "--dp-op=" + j.Gradient, "--dp-buckets=" + strconv.Itoa(j.Buckets),
		fmt.Sprintf("--bytes=%d", j.Bytes), fmt.Sprintf("--tp-bytes=%d", j.TPBytes), fmt.Sprintf("--pp-bytes=%d", j.PPBytes), fmt.Sprintf("--ep-bytes=%d", j.EPBytes),
		"--ahead=" + strconv.Itoa(j.Ahead), "--norm-every=" + strconv.Itoa(j.Norm), "--barrier-every=" + strconv.Itoa(j.Barrier),
		"--broadcast-every=" + strconv.Itoa(j.Broadcast), "--steps=" + strconv.Itoa(j.Steps), "--report-rank=" + strconv.Itoa(j.Rank),
	}
	if j.Cliques != "" {
		flags = append(flags, "--cliques="+j.Cliques)
	}
	if j.Algo != "" {
		flags = append(flags, "--algo="+j.Algo)
	}
	if j.Proto != "" {
		flags = append(flags, "--proto="+j.Proto)
	}
	if j.Bytes+j.TPBytes+j.PPBytes+j.EPBytes > checkedBytes {
		flags = append(flags, "--check=off")
	}
	return append(flags, j.faultFlags()...)
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

// sent is about how many bytes a rank sends over the network in a step. Where ranks of a host share memory, a ring's neighbours are
// only known to be on other hosts if all members are: what is not known is not counted.
func (j *Job) sent(rank int) float64 {
	total := 0.0
	away := func(a, b int) bool { return j.Inside == "net" || j.host(a) != j.host(b) }
	passes := float64(2 * j.Micro)
	for name, members := range j.groups(rank) {
		n := float64(len(members))
		apart := true
		for i, a := range members {
			for _, b := range members[:i] {
				apart = apart && away(a, b)
			}
		}
		switch name {
		case "dp", "tp":
			bytes := float64(j.Bytes)
			if name == "tp" {
				bytes = passes * float64(j.TPBytes)
			}
			if apart {
				total += 2 * (n - 1) / n * bytes
			}
		case "pp":
			for i, m := range members {
				if m != rank {
					continue
				}
				if i > 0 && away(members[i-1], m) {
					total += float64(j.Micro) * float64(j.PPBytes)
				}
				if i+1 < len(members) && away(members[i+1], m) {
					total += float64(j.Micro) * float64(j.PPBytes)
				}
			}
		case "ep":
			for _, m := range members {
				if m != rank && away(m, rank) {
					total += 2 * passes * float64(j.EPBytes) / n
				}
			}
		}
	}
	return total
}

// moved is about how many bytes all ranks move in a step, whichever way.
func (j *Job) moved() float64 {
	passes, each := float64(2*j.Micro), 0.0
	for name, members := range j.groups(0) {
		n := float64(len(members))
		switch name {
		case "dp":
			each += 2 * (n - 1) / n * float64(j.Bytes)
		case "tp":
			each += 2 * (n - 1) / n * passes * float64(j.TPBytes)
		case "pp":
			each += passes * float64(j.PPBytes)
		case "ep":
			each += 2 * passes * float64(j.EPBytes)
		}
	}
	return each * float64(j.Ranks)
}

// What a small machine needs for a hop of an operation, and how fast it moves bytes: only so that steps are neither too long nor too short.
const (
	hopSeconds     = 0.0007
	bytesPerSecond = 250e6
)

// step is about how many seconds a step takes.
func (j *Job) step() float64 {
	passes := float64(2 * j.Micro)
	compute := (passes + 2*float64(j.PP-1)) * j.Compute / 1000
	hops := 0.0
	for name, members := range j.groups(0) {
		n := float64(len(members))
		switch name {
		case "dp":
			hops += 2 * n * float64(j.Buckets)
		case "tp":
			hops += 2 * n * passes
		case "pp":
			hops += 2 * passes
		case "ep":
			hops += 4 * passes
		}
	}
	if j.has("world") && j.Norm > 0 {
		hops += 2 * float64(j.Ranks) / float64(j.Norm)
	}
	return compute + hops*hopSeconds + j.moved()/bytesPerSecond
}
