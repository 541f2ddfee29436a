// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package tests holds ringjob to its promises: right results for every operation, profiler callbacks in NCCL's order and
// meaning, faults that do what they say, and no process left behind. It has tests only.
package tests
