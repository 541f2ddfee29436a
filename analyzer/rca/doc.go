// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rca has the words of root-cause analysis: what is known of a job (Evidence), what is concluded (Verdict), by which
// thresholds (Options), and how often a conclusion is right (Calibration). The conclusions are drawn by its rooms, pure functions
// without network, clock or files: engine asks hang and slow, which stand on job; the methods of Mycroft, CCL-D, Pulse and Holmes
// vote beside them, each from a room of its own.
package rca
