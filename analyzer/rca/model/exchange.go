// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca/observe"
)

// exchange goes over one operation: who gets what it needs from the others?
func (w *World) exchange(i int32) {
	in := &w.Operations[i]
	worst := w.worst(in)
	lax := worst // Buffers may hold all of a send, and what a root gives may reach the ranks that are not behind the missing one.
	if worst != Yes {
		lax = Maybe
	}
	rooted := in.Root >= 0 && w.gives(in.Root) == Yes
	for _, p := range in.Parts {
		part := &w.Parts[p]
		if part.Seen == observe.Left || w.idle[p] {
			continue
		}
		ends := min(w.parts[p].runs, worst)
		switch {
		case w.has(part.Node, stopsGPU):
			ends = No
		case rooted, in.P2P && part.Op != nil && part.Op.Func == "Send":
			ends = min(w.parts[p].runs, lax)
		}
		if w.lower(p, state{Yes, Yes, ends}) {
			w.nodes.add(part.Node)
		}
	}
}

// worst is what the member gives that gives least; No where their calls cannot meet, or data does not pass.
func (w *World) worst(in *observe.Operation) observe.Tri {
	worst := Yes
	deadly := slices.ContainsFunc(w.Faults, func(f Fault) bool { return 1<<f.Kind&stopsFlows != 0 })
	for _, p := range in.Parts {
		part := &w.Parts[p]
		if part.Odd && w.has(part.Node, 1<<OtherCall) {
			return No
		}
		for k := range part.Flows {
			if deadly && w.dead(p, &part.Flows[k]) != alive {
				return No
			}
		}
		worst = min(worst, w.gives(p))
	}
	return worst
}

// gives tells whether a part does for the others what they need.
func (w *World) gives(p int32) observe.Tri {
	part, runs := &w.Parts[p], w.parts[p].runs
	switch at := w.kinds[part.Node]; {
	case part.Seen == observe.Left:
		return Yes
	case at == 0:
	case at&stopsGPU != 0:
		return No
	case at&stopsProxy != 0 && len(part.Flows) == 0:
		return min(runs, Maybe)
	case at&(1<<Gone) != 0:
		return No
	case at&(1<<NIC) != 0 && len(part.Flows) == 0:
		return min(runs, Maybe) // Nobody tells whether its data takes this way.
	}
	return runs
}

// death is why a flow moves nothing, whatever the GPUs do.
type death uint8

const (
	alive    death = iota
	sender         // The sender's proxy moves nothing.
	receiver       // The receiver's.
	wire           // The network between them.
)

// dead tells why a flow of a part moves nothing in this world.
func (w *World) dead(p int32, f *observe.Flow) death {
	from, to := w.Parts[p].Node, int32(-1)
	if f.Peer >= 0 {
		to = w.Parts[f.Peer].Node
	}
	if !f.Send {
		from, to = to, from
	}
	var at, other kindSet
	if from >= 0 {
		at = w.kinds[from]
	}
	if to >= 0 {
		other = w.kinds[to]
	}
	switch {
	case at == 0 && other == 0:
		return alive
	case (at|other)&(1<<NIC) != 0, at&(1<<Wire) != 0 && slices.Contains(w.Faults, Fault{Wire, from, to}):
		return wire
	case at&stopsProxy != 0:
		return sender
	case other&stopsProxy != 0:
		return receiver
	}
	return alive
}
