// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rcatest

import "github.com/culprit-project/culprit/analyzer/rca"

const (
	smallRanks    = 64
	smallTimeline = 256
)

// Small tells whether a fuzz target can afford to analyse evidence that came out of its input. A few bytes can claim thousands of
// ranks: those are for the readers to bear, and the engine finds nothing new in them that it does not find in 64.
func Small(ev *rca.Evidence) bool {
	if ev.WorldSize > smallRanks || len(ev.Ranks) > smallRanks || len(ev.Comms) > smallRanks || len(ev.Timeline) > smallTimeline {
		return false
	}
	members := 0
	for i := range ev.Comms {
		if members += max(len(ev.Comms[i].Members), ev.Comms[i].Size); members > 4*smallRanks {
			return false
		}
	}
	for i := range ev.Missing {
		if len(ev.Missing[i].Ranks) > smallRanks {
			return false
		}
	}
	return true
}
