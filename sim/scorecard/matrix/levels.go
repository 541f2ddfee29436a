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

// atLevels gives a case at each level of evidence that it is run at.
func (o *Options) atLevels(c *Case) []Case {
	levels := o.Levels
	if len(levels) == 0 {
		levels = cluster.Levels
		if c.Workload != levelWorkload {
			levels = levels[:1]
		}
	}
	var out []Case
	for _, l := range levels {
		at := *c
		at.Level, at.Config.Level, at.Scrape = l, l, cmp.Or(o.Scrape, usualScrape)
		at.Config.Faults = slices.Clone(c.Config.Faults)
		if l != cluster.KernelEvents {
			at.Name += "/" + string(l)
			at.Harms = nil
		}
		if at.Scrape != usualScrape {
			at.Name += "/" + at.Scrape.String()
		}
		out = append(out, at)
	}
	return out
}
