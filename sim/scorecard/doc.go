// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package scorecard judges the root-cause engine on simulated clusters: a matrix of faults, severities, scales and seeds,
// with healthy and benign runs between them. It is the only place where a run's sealed answer meets the engine's verdict.
package scorecard
