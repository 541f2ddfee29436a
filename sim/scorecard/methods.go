// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Guess is what a method alone says, judged by the first rank it names.
type Guess struct {
	Rank  int  `json:"rank"` // -1 nobody.
	Right bool `json:"right"`
	False bool `json:"false_accusation"`
}

// method is one that the engine is compared with, on the same evidence at the same moment.
type method struct {
	name string
	// paper: its authors present it as what finds the culprit, so that it may not be better than the whole.
	paper bool
	what  string
}

// whole is the engine among the methods.
const whole = "culprit"

// Methods. The first group is written in this package from the papers' rules, without anything that the engine adds; the
// votes are what the reference packages of the engine say alone, before it weighs them.
var comparedMethods = []method{
	{"ccl-d", true, "CCL-D's decision tree alone"},
	{"mycroft", true, "Mycroft's algorithm 2 alone"},
	{"ccl-d vote", true, "the same, as the engine's package has it"},
	{"mycroft vote", true, "the same, as the engine's package has it"},
	{"pulse vote", true, "Pulse's localisation alone, on operations instead of RDMA epochs"},
	{"holmes vote", true, "Holmes' graph search alone, with the detector that needs no training"},
	{"last arriver", false, "whoever enters last"},
	{"ras", false, "NCCL RAS: who does not answer, or has launched less"},
	{"3-sigma", false, "whose operations take three standard deviations longer than its peers'; Holmes' \"traditional\" way"},
}

// votes are the names of the engine's methods.
var votes = map[string]string{"ccl-d vote": "ccl-d", "mycroft vote": "mycroft", "pulse vote": "pulse", "holmes vote": "holmes"}

// methods judges what each method says of the evidence.
func methods(ev *rca.Evidence, v *rca.Verdict, a *cluster.Answer, effect bool) map[string]Guess {
	b := newBench(ev)
	said := map[string]int{"3-sigma": -1, "ras": b.ras()}
	if b.stuck != "" {
		said["ccl-d"], said["mycroft"], said["last arriver"] = b.ccldHang(), b.mycroftFailure(), b.lastArriverHang()
	} else {
		said["ccl-d"], said["mycroft"], said["last arriver"] = b.ccldSlow(), b.mycroftStraggler(), b.lastArriverSlow()
		said["3-sigma"] = b.threeSigma()
	}
	for name, of := range votes {
		said[name] = -1
		for i := range v.Methods {
			if m := &v.Methods[i]; m.Method == of && len(m.Ranks) > 0 {
				said[name] = m.Ranks[0]
			}
		}
	}
	out := map[string]Guess{}
	for name, rank := range said {
		out[name] = guess(rank, a, effect)
	}
	return out
}

func guess(rank int, a *cluster.Answer, effect bool) Guess {
	guilty, somebody := false, false
	for _, t := range a.Truths {
		guilty = guilty || slices.Contains(t.Ranks, rank)
		somebody = somebody || (effect && len(t.Ranks) > 0)
	}
	return Guess{Rank: rank, Right: (somebody && guilty) || (!somebody && rank < 0), False: rank >= 0 && !guilty}
}
