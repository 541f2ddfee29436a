// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/culprit-project/culprit/analyzer/rca/observe"

// exchange goes over one operation: who gets what it needs from the others?
func (s *States) exchange(i int32) (changed bool) {
	j := s.w.job
	in := &j.Operations[i]
	worst := s.worst(in)
	for _, p := range in.Parts {
		part := &j.Parts[p]
		if part.Seen == observe.Left {
			continue
		}
		ends := s.Runs[p]
		switch {
		case s.w.has(part.Node, GPU, Starting):
			ends = No
		case in.P2P && part.Op != nil && part.Op.Func == "Send":
			if worst != Yes {
				ends = min(ends, Maybe) // Buffers may hold all of it.
			}
		case in.Root >= 0 && s.gives(in.Root) == Yes:
			if worst != Yes {
				ends = min(ends, Maybe) // Ranks that are not behind the missing one get all.
			}
		default:
			ends = min(ends, worst)
		}
		if s.Ends[p].Lower(ends) {
			changed, s.nodes[part.Node] = true, true
		}
	}
	return changed
}

// worst is what the member gives that gives least; No where their calls cannot meet, or data does not pass.
func (s *States) worst(in *observe.Operation) observe.Tri {
	j, worst := s.w.job, Yes
	for _, p := range in.Parts {
		part := &j.Parts[p]
		if part.Odd && s.w.has(part.Node, OtherCall) {
			return No
		}
		for k := range part.Flows {
			if s.dead(p, &part.Flows[k]) != alive {
				return No
			}
		}
		worst = min(worst, s.gives(p))
	}
	return worst
}

// gives tells whether a part does for the others what they need.
func (s *States) gives(p int32) observe.Tri {
	part := &s.w.job.Parts[p]
	switch {
	case part.Seen == observe.Left:
		return Yes
	case s.w.has(part.Node, GPU, Starting):
		return No
	case s.halted(part.Node) && len(part.Flows) == 0:
		return min(s.Runs[p], Maybe)
	case s.w.has(part.Node, Gone):
		return No
	case s.w.has(part.Node, NIC) && len(part.Flows) == 0:
		return min(s.Runs[p], Maybe) // Nobody tells whether its data takes this way.
	}
	return s.Runs[p]
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
func (s *States) dead(p int32, f *observe.Flow) death {
	from, to := s.w.job.Parts[p].Node, int32(-1)
	if f.Peer >= 0 {
		to = s.w.job.Parts[f.Peer].Node
	}
	if !f.Send {
		from, to = to, from
	}
	for _, x := range s.w.Faults {
		switch {
		case x.Kind == Wire && x.A == from && x.B == to,
			x.Kind == NIC && (from >= 0 && s.w.at(x, from) || to >= 0 && s.w.at(x, to)):
			return wire
		case from >= 0 && s.halted(from):
			return sender
		case to >= 0 && s.halted(to):
			return receiver
		}
	}
	return alive
}

// halted: the rank's proxy moves nothing.
func (s *States) halted(n int32) bool { return s.w.has(n, Stopped, Gone, Proxy, Lost) }
