// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package search decides which nodes of a large job are asked, and in which order (H6). It is pure: the analyzer and the
// simulator feed the same decisions, the one from Prometheus and exporters, the other from a recording.
//
// What Prometheus has of all ranks is a wait-for graph already, if a coarse one. Work is run in the order in which it was
// called, so a rank waits in the oldest operation that it has in flight, its head. A communicator waits for the members
// whose head is elsewhere, and these are held there. So the waiting ends where a rank has nothing in flight, where a node
// is silent, or in a communicator that is the head of all its members: it lacks nobody and stands still all the same.
// The search begins at these ends instead of walking there hop by hop, and widens along the engine's questions where they
// do not explain what is seen.
package search
