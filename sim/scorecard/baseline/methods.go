// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package baseline is what the engine is compared with: the papers' rules alone, and simple ones. Evidence in, a rank out.
package baseline

import (
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Method is one that the engine is compared with, on the same evidence at the same moment.
type Method struct {
	Name string
	// Paper: its authors present it as what finds the culprit, so that it may not be better than the whole.
	Paper bool
	What  string
}

// Methods are all methods. The first are written in this package from the papers' rules, without anything that the engine adds; the
// votes are what the reference packages of the engine say alone, before it weighs them.
var Methods = []Method{
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

// Accused gives whom each method names first by the evidence, and by the votes of the engine's verdict on it; -1 nobody.
func Accused(ev *rca.Evidence, v *rca.Verdict) map[string]int {
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
	return said
}
