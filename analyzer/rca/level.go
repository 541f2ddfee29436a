// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// Level is how much the sources of the evidence record of a job's operations. The confidence of a verdict depends on it.
type Level string

// Levels of evidence, from the most to the least.
const (
	LevelKernels  Level = "kernels"  // Calls, proxy steps and kernels: NCCL 2.28.3 to 2.30.
	LevelSteps    Level = "steps"    // Calls and proxy steps: NCCL 2.31 and later, or kernel events off.
	LevelLaunches Level = "launches" // Proxy steps; an operation appears when it is launched: NCCL 2.24 to 2.27.
	LevelCalls    Level = "calls"    // Calls without ends: preloaded hooks alone.
	LevelRecorder Level = "recorder" // Calls with ends and no flows: PyTorch's Flight Recorder and the like.
	LevelUnknown  Level = ""         // No source records operations.
)

// levelOf gives the level of a source with these capabilities.
func levelOf(c Capability) Level {
	switch {
	case c&SeesKernels != 0 && c&SeesSteps != 0:
		return LevelKernels
	case c&SeesSteps != 0 && c&SeesCallTimes != 0:
		return LevelSteps
	case c&SeesSteps != 0:
		return LevelLaunches
	case c&SeesCompletion != 0:
		return LevelRecorder
	case c&SeesCalls != 0:
		return LevelCalls
	default:
		return LevelUnknown
	}
}

// Level gives the level of most ranks; on a tie the lower one.
func (ev *Evidence) Level() Level {
	ranks := map[Level]int{}
	for i := range ev.Ranks {
		ranks[levelOf(ev.Ranks[i].Caps)]++
	}
	most := LevelUnknown
	for _, l := range []Level{LevelCalls, LevelRecorder, LevelLaunches, LevelSteps, LevelKernels} {
		if ranks[l] > 0 && (most == LevelUnknown || ranks[l] > ranks[most]) {
			most = l
		}
	}
	return most
}
