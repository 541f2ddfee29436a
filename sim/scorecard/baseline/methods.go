// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package baseline is what the engine is compared with: the papers' rules alone, and simple ones. Evidence in, a rank out.
package baseline

import (
	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Method is one that the engine is compared with, on the same evidence at the same moment.
type Method struct {
	Name string
	// Paper: its authors present it as what finds the culprit, so that it may not be better than the whole.
	Paper bool
	What  string
}

// Methods are all methods: the papers' as analyzer/methods has them, and simple ones.
var Methods = []Method{
	{"ccl-d", true, "CCL-D's decision tree"},
	{"mycroft", true, "Mycroft's algorithm 2"},
	{"pulse", true, "Pulse's localisation, on operations instead of RDMA epochs"},
	{"holmes", true, "Holmes' graph search, with the detector that needs no training"},
	{"last arriver", false, "whoever enters last"},
	{"ras", false, "NCCL RAS: who does not answer, or has launched less"},
	{"3-sigma", false, "whose operations take three standard deviations longer than its peers'; Holmes' \"traditional\" way"},
}

// Accused gives whom each method names first; -1 nobody.
func Accused(ev *rca.Evidence) map[string]int {
	b := newBench(ev)
	said := map[string]int{"3-sigma": -1, "ras": b.ras()}
	if b.stuck != "" {
		said["last arriver"] = b.lastArriverHang()
	} else {
		said["last arriver"], said["3-sigma"] = b.lastArriverSlow(), b.threeSigma()
	}
	votes := methods.Say(ev, &methods.Options{})
	for name := range methods.Titles {
		said[name] = -1
		for _, v := range votes {
			if v.Method == name && len(v.Ranks) > 0 {
				said[name] = v.Ranks[0]
			}
		}
	}
	return said
}
