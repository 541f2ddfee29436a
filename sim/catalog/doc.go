// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package catalog names what can be simulated: workloads, changes to them, and faults with their parameters, as the
// command line spells them.
package catalog
