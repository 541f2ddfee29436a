// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package matrix lists what the scorecard runs: faults of every severity on jobs of every scale, with healthy and benign runs
// between them, each with the seed that draws its place and time.
package matrix

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// Case is one run of the matrix.
type Case struct {
	Name     string // scenario/severity/workload/seed, and what is not usual of age, level and scrape interval.
	Scenario string
	Group    string // hang, slow, healthy or benign.
	Workload string
	Severity string
	Ranks    int
	Seed     uint64
	Level    cluster.Level
	Config   cluster.Config // What is simulated.
	Scrape   time.Duration  // Interval.
	// Rescraped: the matrix has the same case at its own interval.
	Rescraped bool
	// Young: the fault begins in the job's first half minute, and the matrix has the same in a job that has settled.
	Young bool
	// Ask: the engine is asked at this time even when nothing triggers, as a person would; 0 never.
	Ask   time.Duration
	Drawn bool // By Blind, not from the matrix.
	// Harms are those that its evidence suffers as well, each by itself.
	Harms []string
}

// Begins tells whether something goes wrong at some time, and all was well before.
func (c *Case) Begins() bool {
	return slices.ContainsFunc(c.Config.Faults, func(f cluster.Fault) bool { return f.At > 0 || f.FromIteration > 0 })
}

// Lasting tells whether the case's fault holds from the start of the job, so that there is no time before it.
func (c *Case) Lasting() bool {
	return slices.ContainsFunc(c.Config.Faults, func(f cluster.Fault) bool { return f.At == 0 && f.FromIteration == 0 })
}

// Groups of scenarios.
const (
	GroupHang    = "hang"
	GroupSlow    = "slow"
	GroupHealthy = "healthy"
	GroupBenign  = "benign"
)

// scenario makes the faults of a run on a job, from a random source.
type scenario struct {
	name     string
	group    string
	severity string
	at       position // Among the severities of its fault.
	faults   func(d *dice) []cluster.Fault
	change   func(c *cluster.Config, d *dice)
	needs    func(w *workload) bool
}

// position is a severity's place among those of its fault.
type position int

const (
	first    position = iota // Or the only one.
	harshest                 // The last of the papers', where it is harsher than the first.
	between
)

// dice draws the place and the time of a fault.
type dice struct {
	state uint64
	w     *workload
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	x := d.state
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func (d *dice) n(n int) int { return int(d.next() % uint64(n)) }

func (d *dice) rank() int { return d.n(d.w.ranks()) }

// otherHost is a rank on another host than rank's, the same rank when there is only one host.
func (d *dice) otherHost(rank int) int {
	per := d.w.hw.GPUsPerHost
	hosts := (d.w.ranks() + per - 1) / per
	if hosts == 1 {
		return rank
	}
	h := (rank/per + 1 + d.n(hosts-1)) % hosts
	return min(h*per+rank%per, d.w.ranks()-1)
}

// nextHost is the same place on the next host of rank's pipeline stage: a neighbour in the data-parallel rings.
func (d *dice) nextHost(rank int) int {
	j := &d.w.job
	per := d.w.hw.GPUsPerHost
	stage := max(1, j.TP) * max(1, j.CP) * max(1, j.DP)
	if next := rank/stage*stage + (rank%stage+per)%stage; next/per != rank/per {
		return next
	}
	hosts := (j.World() + per - 1) / per // The stage is on one host.
	return min((rank/per+1)%hosts*per+rank%per, j.World()-1)
}

// when is a moment after the job has warmed up, at any point of an iteration.
func (d *dice) when() time.Duration {
	start, period := d.w.warm()
	return start + time.Duration(d.n(int(period)))
}

// whenKnown is a moment after the rules know the job, at any point of an iteration.
func (d *dice) whenKnown() time.Duration {
	_, period := d.w.warm()
	return known + time.Duration(d.n(int(period)))
}

func overNetwork(w *workload) bool { return w.ranks() > w.hw.GPUsPerHost }

// manyPaths: with two hosts, everything that crosses the network crosses the path between them, and a slow network is a slow path.
func manyPaths(w *workload) bool { return w.ranks() > 2*w.hw.GPUsPerHost }

func training(w *workload) bool { return w.job.Workload == cluster.Training }

func withNVLink(w *workload) bool { return w.hw.GPUsPerHost > 1 }

// Options choose how much of the matrix is run.
type Options struct {
	Quick    bool
	Seed     uint64
	Only     []string        // Parts of a case's name, any of which it must have; empty: all.
	Groups   []string        // hang, slow, healthy, benign; empty: all.
	Seeds    int             // Per scenario and workload; 0: 1 quick, as planned full.
	All      bool            // Every severity at every scale, beyond the full plan.
	MinRanks int             // Smallest scale.
	Ranks    int             // Largest scale; 0: 512 quick, 10240 full.
	Harm     string          // none, sample (or empty), all, or the name of one.
	Scrape   time.Duration   // Interval; 0: 5 s.
	Levels   []cluster.Level // Of evidence; empty: kernel events for all, and the others for the jobs of levelWorkload.
	Later    time.Duration   // So much later than in a job's first half minute begins what stops it; 0: settled.
}

// Whole reports whether the options choose the whole matrix of their mode, so that its floors apply.
func (o *Options) Whole() bool {
	return len(o.Only) == 0 && len(o.Groups) == 0 && len(o.Levels) == 0 && (o.Scrape == 0 || o.Scrape == usualScrape) && o.MinRanks == 0 && o.Ranks == 0
}

// Wants reports whether a case is among those that Ranks, Groups and Only choose.
func (o *Options) Wants(c *Case) bool {
	if c.Ranks < o.MinRanks || (len(o.Groups) > 0 && !slices.Contains(o.Groups, c.Group)) {
		return false
	}
	return len(o.Only) == 0 || slices.ContainsFunc(o.Only, func(s string) bool { return strings.Contains(c.Name, s) })
}

// quickAtScale are the scenarios that the quick matrix also runs on hundreds of ranks, at their first severity. What only slows such a job
// costs as much as thirty other runs.
var quickAtScale = []string{string(cluster.NICDown), string(cluster.ProcessStopped), string(cluster.SkippedOp), "healthy", "checkpoint_one"}

const quickRanks = 64 // Up to here the quick matrix runs every scenario.

// Workloads of the quick matrix, and those that the full one adds.
var (
	quickWorkloads = []string{"fsdp-8", "fsdp-16", "gpt-32", "gpt-64", "gpt-64-tree", "mixtral-32", "neighbour-4", "gpt-512"}
	fullWorkloads  = []string{"fsdp-512", "gpt-2048", "gpt-8192", "gpt-10240"}
)

// Cases lists the runs.
func Cases(opt Options) []Case {
	names, limit := quickWorkloads, 512
	if !opt.Quick {
		names, limit = slices.Concat(quickWorkloads, fullWorkloads), 10240
	}
	if opt.Ranks > 0 {
		limit = opt.Ranks
	}
	var out []Case
	for _, sc := range slices.Concat(hangs(), slows(opt.Quick), quiet()) {
		for _, name := range names {
			w := workloads[name]
			if w.ranks() > limit || (sc.needs != nil && !sc.needs(&w)) {
				continue
			}
			for seed := range opt.seeds(&sc, &w) {
				c := makeCase(sc, &w, opt.Seed+uint64(seed))
				c.Harms = opt.harmsOf(&c)
				for _, c := range opt.atAges(c) {
					out = append(out, slices.DeleteFunc(opt.atLevels(&c), func(at Case) bool { return !opt.Wants(&at) })...)
				}
			}
		}
	}
	return out
}

// seeds is how often a scenario is run on a workload.
func (o *Options) seeds(sc *scenario, w *workload) int {
	n := planned(w).runs(sc)
	switch {
	case o.Quick && w.ranks() > quickRanks && (!slices.Contains(quickAtScale, sc.name) || sc.at > first):
		return 0
	case o.Quick && !sc.takes(w):
		return 0
	case o.Quick:
		n = 1
	case n == 0 && !o.All:
		return 0
	}
	n = max(n, 1)
	if o.Seeds > 0 {
		n = o.Seeds
	}
	return n
}

// dear are the workloads of the quick matrix whose slow runs cost most. They share the scenarios between them.
var dear = []string{"gpt-64", "gpt-64-tree", "mixtral-32"}

// takes tells whether the quick matrix runs a scenario on a workload. What only slows a job is run on one of the dear workloads that
// can have it, each in its turn, and at its first severity on all that a paper has it on.
func (sc *scenario) takes(w *workload) bool {
	if sc.group != GroupSlow || !slices.Contains(dear, w.name) || sc.at == first && ofPapers(cluster.FaultKind(sc.name), w.name) {
		return true
	}
	able := slices.DeleteFunc(slices.Clone(dear), func(name string) bool {
		other := workloads[name]
		return sc.needs != nil && !sc.needs(&other)
	})
	h := fnv.New32a()
	h.Write([]byte(sc.name + "/" + sc.severity))
	return able[int(h.Sum32())%len(able)] == w.name
}

// settled is how much later than in a job's first half minute the matrix stops it: the look at a new job is closed by then, whose
// incident would take in what comes while it is open, and rates and baselines are those of a job that runs for days.
const settled = 125 * time.Second

// atAges gives a case in a job that has settled, and of the jobs of levelWorkload also in a young one: only what stops a job can come in its
// first half minute and still be known for what it is.
func (o *Options) atAges(c Case) []Case {
	if c.Group != GroupHang {
		return []Case{c}
	}
	young := c
	young.Name, young.Young, young.Harms = young.Name+"/young", true, nil
	young.Config.Faults = slices.Clone(c.Config.Faults)
	c.postpone(cmp.Or(o.Later, settled))
	if o.Later > 0 {
		c.Name += "/+" + o.Later.String()
		return []Case{c}
	}
	if c.Workload != levelWorkload {
		return []Case{c}
	}
	return []Case{c, young}
}

// postpone has everything begin later, and the run end so much later.
func (c *Case) postpone(by time.Duration) {
	for i := range c.Config.Faults {
		if f := &c.Config.Faults[i]; f.At > 0 {
			f.At += by
		}
	}
	c.Config.Until += by
}

func makeCase(sc scenario, w *workload, seed uint64) Case {
	h := seed
	for _, b := range sc.name + "/" + sc.severity + "/" + w.name {
		h = h*1099511628211 + uint64(b)
	}
	d := &dice{state: h, w: w}
	start, _ := w.warm()
	if sc.group == GroupSlow {
		start = known
	}
	c := Case{
		Name: fmt.Sprintf("%s/%s/%s/%d", sc.name, strings.ReplaceAll(sc.severity, " ", "_"), w.name, seed), Scenario: sc.name, Group: sc.group, Workload: w.name,
		Severity: sc.severity, Ranks: w.ranks(), Seed: seed,
		Config: cluster.Config{Seed: d.next(), Hardware: w.hw, Job: w.job, Until: start + w.watched()},
	}
	if sc.faults != nil {
		c.Config.Faults = sc.faults(d)
	}
	if sc.change != nil {
		sc.change(&c.Config, d)
	}
	if sc.group == GroupHealthy || sc.group == GroupBenign {
		c.Ask = c.Config.Until
	}
	return c
}
