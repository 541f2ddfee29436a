// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"hash/fnv"

	"github.com/culprit-project/culprit/sim/scorecard/harm"
)

// Choices of harms beside their names.
const (
	HarmNone   = "none"
	HarmSample = "sample" // One harm a run, taking turns; in the quick matrix every second run.
	HarmAll    = "all"
)

// harmedRanks is the size of job up to which a sample of the harms is asked about: beyond, a second look at everything costs
// as much as the run.
const harmedRanks = 64

// harmsOf chooses the harms of a case.
func (o *Options) harmsOf(c *Case) []string {
	switch o.Harm {
	case HarmNone:
		return nil
	case HarmAll:
		return harm.Names()
	case "", HarmSample:
		if c.Ranks > harmedRanks {
			return nil
		}
		names := harm.Names()
		h := fnv.New32a()
		h.Write([]byte(c.Name))
		if o.Quick && h.Sum32()/uint32(len(names))%2 == 1 {
			return nil
		}
		return []string{names[h.Sum32()%uint32(len(names))]}
	}
	return []string{o.Harm}
}

// Spoil replaces what was drawn for a case by what the options choose, unless they leave it to chance.
func (o *Options) Spoil(c *Case) {
	if o.Harm != "" && o.Harm != HarmSample {
		c.Harms = o.harmsOf(c)
	}
}
