// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"cmp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/sim/cluster"
)

// usualScrape is the scrape interval of the design's latency budget.
const usualScrape = 5 * time.Second

// levelWorkload is the job that is run at every level of evidence unless others are chosen: the smallest with tensor, data and
// pipeline parallelism on several hosts.
const levelWorkload = "gpt-32"

// otherScrapes are the intervals at which the full matrix runs the jobs of levelWorkload once more.
var otherScrapes = []time.Duration{time.Second, 15 * time.Second}

// atLevels gives a case at each level of evidence and scrape interval that it is run at. The quick matrix leaves out slowness that
// calls alone would have to show, as almost all of it is told as unknown, and has young jobs with kernel events only.
func (o *Options) atLevels(c *Case) []Case {
	levels := o.Levels
	if len(levels) == 0 {
		levels = cluster.Levels
		if c.Workload != levelWorkload || o.Quick && c.Young {
			levels = levels[:1]
		}
		if o.Quick && c.Group == GroupSlow {
			levels = slices.DeleteFunc(slices.Clone(levels), func(l cluster.Level) bool { return l == cluster.Calls })
		}
	}
	out := atScrape(c, levels, cmp.Or(o.Scrape, usualScrape), false)
	if !o.Quick && c.Workload == levelWorkload && !c.Young && c.Seed == o.Seed && (o.Scrape == 0 || o.Scrape == usualScrape) {
		for _, interval := range otherScrapes {
			out = append(out, atScrape(c, levels, interval, true)...)
		}
	}
	return out
}

func atScrape(c *Case, levels []cluster.Level, interval time.Duration, again bool) []Case {
	var out []Case
	for _, l := range levels {
		at := *c
		at.Level, at.Config.Level, at.Scrape, at.Rescraped = l, l, interval, again
		at.Config.Faults = slices.Clone(c.Config.Faults)
		if l != cluster.KernelEvents {
			at.Name += "/" + string(l)
		}
		if l != cluster.KernelEvents || again {
			at.Harms = nil
		}
		if at.Scrape != usualScrape {
			at.Name += "/" + at.Scrape.String()
		}
		out = append(out, at)
	}
	return out
}
