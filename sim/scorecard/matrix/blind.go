// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/harm"
)

// Bounds of the jobs that Blind draws: ranks, and seconds of an iteration by its computation alone.
const (
	blindLeastRanks = 8
	blindMostRanks  = 96
	blindShortest   = 0.5
	blindLongest    = 8
)

// Blind draws runs that nobody has looked at before from a seed: layouts, hosts, models, step times, faults, their places, times
// and severities, levels of evidence, scrape intervals, and losses.
func Blind(seed uint64, runs int) []Case {
	out := make([]Case, 0, runs)
	d := &dice{state: seed}
	for i := range runs {
		w := d.job()
		d.w = &w
		sc := d.scenario()
		c := makeCase(sc, &w, d.next())
		later := time.Duration(d.n(int(15 * time.Second)))
		switch {
		case sc.group == GroupSlow:
			later += longer(&w, known)
		case sc.group == GroupHang && i%2 == 1: // Every second job has settled.
			later += settled
		}
		c.postpone(later)
		if sc.group == GroupSlow {
			c.Config.Until += longer(&w, w.watched())
		}
		c.Seed, c.Drawn = seed, true
		c.Level, c.Scrape = cluster.Levels[d.n(len(cluster.Levels))], []time.Duration{time.Second, 5 * time.Second, 5 * time.Second, 15 * time.Second}[d.n(4)]
		c.Config.Level = c.Level
		if d.n(3) == 0 {
			c.Harms = []string{harm.Names()[d.n(len(harm.Names()))]}
		}
		c.Name = fmt.Sprintf("%s/%s/%s/%d-%d/%s/%s", sc.name, strings.ReplaceAll(sc.severity, " ", "_"), w.name, seed, i, c.Level, c.Scrape)
		out = append(out, c)
	}
	return out
}

// blindIterations are watched at least before and after a job gets slow, by their computation alone.
const blindIterations = 20

// longer is what a span lacks of so many iterations of a job.
func longer(w *workload, span time.Duration) time.Duration {
	return max(0, blindIterations*computation(&w.job, &w.hw)-span)
}

func (d *dice) share() float64 { return float64(d.next()>>11) / (1 << 53) }

func (d *dice) between(low, high float64) float64 { return low + (high-low)*d.share() }

// job draws a job on its machines.
func (d *dice) job() workload {
	pick := func(list ...int) int { return list[d.n(len(list))] }
	hw := cluster.H100()
	if d.n(2) == 0 {
		hw = cluster.A100()
	}
	if d.n(3) == 0 { // Cloud machines with half of it.
		hw.GPUsPerHost, hw.NICsPerHost = hw.GPUsPerHost/2, max(1, hw.NICsPerHost/2)
	}
	hw.NICRate *= d.between(0.5, 1)
	j := cluster.Job{ID: "blind"}
	for j.World() < blindLeastRanks || j.World() > blindMostRanks {
		j.TP, j.CP, j.PP = pick(1, 2, 4, 8), pick(1, 1, 1, 2), pick(1, 1, 2, 3, 4)
		j.DP = 1 + d.n(12)
	}
	j.Model = []cluster.Model{cluster.Llama7B, cluster.GPT32B, cluster.GPT70B, cluster.Mixtral}[d.n(4)]
	if j.Model.Experts > 0 && j.DP%2 == 0 {
		j.EP = pick(1, 2)
	}
	j.MicroBatches, j.MicroBatchSize = j.PP*(1+d.n(3)), 1+d.n(2)
	j.Sharding = []cluster.Sharding{cluster.AllReduceDP, cluster.ZeRO, cluster.FSDP}[d.n(3)]
	j.Overlap, j.Tree, j.Channels = d.n(2) == 0, d.n(4) == 0, pick(1, 2, 4, 8)
	j.Proto = []string{"simple", "ll", "ll128"}[d.n(3)]
	j.Model.Layers = d.layers(&j, &hw)
	if j.PP > 1 {
		for range j.PP { // Stages are never quite alike.
			j.StageFactor = append(j.StageFactor, d.between(1, 1.08))
		}
	}
	j.SeqImbalance = d.between(0, 0.05)
	name := fmt.Sprintf("%s-tp%d-cp%d-dp%d-pp%d-ep%d-%s-%dx%d", j.Model.Name, j.TP, j.CP, j.DP, j.PP, max(1, j.EP), j.Sharding, (j.World()+hw.GPUsPerHost-1)/hw.GPUsPerHost, hw.GPUsPerHost)
	return workload{name: name, hw: hw, job: j}
}

// layers draws so many that an iteration's computation takes a time within the bounds.
func (d *dice) layers(j *cluster.Job, hw *cluster.Hardware) int {
	want := math.Exp(d.between(math.Log(blindShortest), math.Log(blindLongest)))
	return min(96, j.PP*max(1, int(want/layerSeconds(j, hw))))
}

// layerSeconds is what one layer computes in an iteration.
func layerSeconds(j *cluster.Job, hw *cluster.Hardware) float64 {
	m := &j.Model
	hidden := float64(m.Hidden)
	params := 4*hidden*hidden + 3*hidden*float64(m.FFN)*float64(max(1, m.TopK))
	tokens := float64(m.Seq * j.MicroBatches * j.MicroBatchSize)
	return 6 * params * tokens / float64(j.TP*j.CP) / hw.GPUFlops
}

// computation is that of a stage in an iteration.
func computation(j *cluster.Job, hw *cluster.Hardware) time.Duration {
	return time.Duration(float64(j.Model.Layers/j.PP) * layerSeconds(j, hw) * float64(time.Second))
}

// scenario draws what goes wrong: as often a standstill as slowness, and nothing in every fifth run.
func (d *dice) scenario() scenario {
	from := hangs()
	switch d.n(5) {
	case 0:
		from = quiet()
	case 1, 2:
		from = slows(false)
	}
	from = slices.DeleteFunc(from, func(sc scenario) bool { return sc.needs != nil && !sc.needs(d.w) })
	sc := from[d.n(len(from))]
	if sc.group != GroupSlow {
		return sc
	}
	left := math.Round(100*d.between(0.2, 0.75)) / 100
	faults := sc.faults
	sc.severity = "drawn"
	sc.faults = func(d *dice) []cluster.Fault {
		out := faults(d)
		for i := range out {
			if out[i].Delay == 0 && out[i].FromIteration == 0 && out[i].At > 0 {
				out[i].Remaining = left
			}
		}
		return out
	}
	return sc
}
