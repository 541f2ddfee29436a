// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// Recording is what the nodes of a run saw, at its end.
type Recording struct{ s *sim }

// Iterations gives the times at which a rank ended its iterations.
func (r *Recording) Iterations(rank int) []Time { return r.s.ranks[rank].ends }
