// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rca has the types of root-cause analysis: what is known of a job (Evidence), what is concluded (Verdict), by which
// thresholds (Options), and how often a conclusion is right (Calibration). The packages below it draw the conclusions with pure
// functions, without network, clock or files: engine calls hang and slow, which build on job. The methods of Mycroft, CCL-D,
// Pulse and Holmes vote beside them, each in a package of its own.
package rca
