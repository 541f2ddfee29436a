// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package pulse has Pulse's methods: how much an operation should transmit (P3), where its transfers begin and end in a rate
// curve (P4), how long it really communicated and how much (P5), custom collectives (P6), the first operation that is late or
// missing (P7), and which parallelism a communicator serves (P8). All are pure functions of plain numbers.
package pulse
