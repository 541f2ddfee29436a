// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// addFlows reads the counters of a part's flows.
func (j *Job) addFlows(p int32) {
	part := &j.Parts[p]
	if part.Op == nil {
		return
	}
	type end struct {
		send bool
		peer int
	}
	index := map[end]int{}
	for k := range part.Op.Flows {
		f := &part.Op.Flows[k]
		e := end{f.Send, f.Peer}
		i, ok := index[e]
		if !ok {
			i = len(part.Flows)
			index[e] = i
			part.Flows = append(part.Flows, Flow{Send: f.Send, Peer: j.peer(part.Operation, f.Peer)})
		}
		flow := &part.Flows[i]
		flow.Seen = moreTelling(flow.Seen, flowLetter(f))
		flow.Onward = flow.Onward || !j.Operations[part.Operation].P2P && !f.Send && !sendsOn(part.Op, f.Channel)
	}
}

// sendsOn reports whether an operation sends over the network on a channel.
func sendsOn(o *rca.Op, channel int) bool {
	return slices.ContainsFunc(o.Flows, func(f rca.Flow) bool { return f.Send && f.Channel == channel })
}

// peer gives the part of a rank of the communicator; -1 none.
func (j *Job) peer(operation int32, commRank int) int32 {
	c := &j.Index.Comms[j.Operations[operation].Comm]
	if commRank >= 0 && commRank < len(c.At) && c.At[commRank] >= 0 {
		return j.partOf(c.At[commRank], operation)
	}
	return j.partOf(c.Unnamed, operation)
}
