// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package search decides which exporters of a large job are asked, and in which order (H6). It is pure: the analyzer feeds it
// from Prometheus and exporters, the simulator from a recording.
//
// Prometheus has a coarse wait-for graph of all ranks. Work runs in the order in which it was called, so a rank waits in its
// oldest operation in flight, its head. A communicator waits for those members whose head is another communicator; they are held
// there. So the waiting ends where a rank has nothing in flight, where an exporter is silent, or in a communicator that is the
// head of all its members: it lacks nobody and still makes no progress. The search begins at these ends instead of walking there
// step by step. Where they do not explain what is seen, it continues with the engine's questions.
package search
