// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"slices"
	"testing"
)

func TestLevel(t *testing.T) {
	const (
		launches = SeesCalls | SeesSteps | SeesCompletion
		steps    = launches | SeesCallTimes
		kernels  = steps | SeesKernels
	)
	for name, c := range map[string]struct {
		caps []Capability
		want Level
	}{
		"nobody":                  {nil, LevelUnknown},
		"processes alone":         {[]Capability{SeesProcess, SeesProcess | SeesInit}, LevelUnknown},
		"hooks":                   {[]Capability{SeesCalls | SeesCallTimes}, LevelCalls},
		"2.24":                    {[]Capability{launches, launches}, LevelLaunches},
		"2.32":                    {[]Capability{steps, steps}, LevelSteps},
		"2.30":                    {[]Capability{kernels, kernels}, LevelKernels},
		"a flight recorder":       {[]Capability{SeesCalls | SeesCompletion | SeesKernels}, LevelRecorder},
		"most of them":            {[]Capability{kernels, kernels, steps}, LevelKernels},
		"as many":                 {[]Capability{kernels, kernels, steps, steps}, LevelSteps},
		"some of unknown sources": {[]Capability{kernels, SeesProcess, SeesProcess}, LevelKernels},
	} {
		t.Run(name, func(t *testing.T) {
			var ev Evidence
			for i, caps := range c.caps {
				ev.Ranks = append(ev.Ranks, Rank{ID: i, Caps: caps})
			}
			if got := ev.Level(); got != c.want {
				t.Errorf("level %q, want %q", got, c.want)
			}
			slices.Reverse(ev.Ranks)
			if got := ev.Level(); got != c.want {
				t.Errorf("level %q in the other order, want %q", got, c.want)
			}
		})
	}
}
