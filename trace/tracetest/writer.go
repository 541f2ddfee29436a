// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tracetest makes trace files for tests, benchmarks and simulations: those of a rank in a ring, and broken ones to throw at
// readers.
package tracetest

import "github.com/culprit-project/culprit/trace/tracefile"

// Writer writes one trace file in place.
type Writer = tracefile.Writer

// Size is how many entries each section has.
type Size = tracefile.Size

// DefaultSize is what Create takes where Size has zeros.
var DefaultSize = tracefile.DefaultSize

// Create makes a finished, empty trace file and its directory.
var Create = tracefile.Create
