// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package latency measures how long a verdict takes where everything is real but the job: a simulated job of 10,240 ranks hangs,
// Prometheus scrapes its 1,280 exporters and evaluates the shipped rules, and the analyzer is asked again and again. Its
// benchmark takes minutes; `make bench-latency` runs it.
package latency
