// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

// Analyze finds the culprit in the evidence. It is pure and deterministic: the same evidence and options give the same
// verdict, byte for byte, whatever the order of ranks and communicators in the evidence.
func Analyze(ev Evidence, opt Options) Verdict {
	_ = opt.withDefaults()
	return Verdict{Version: VerdictVersion, JobID: ev.JobID, Class: Unknown, Cause: CauseUnknown, Summary: "The evidence does not carry a name."}
}
