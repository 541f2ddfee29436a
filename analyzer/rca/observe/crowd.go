// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"encoding/binary"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// gather has one node stand for all that show the same in the same operations. Nothing tells them apart, so that whatever is wrong elsewhere
// becomes of all of them alike, and a fault at one of them is as likely as at another. Of each such crowd two nodes stay: one at which a fault
// may be, and one for the rest.
func (j *Job) gather() {
	apart := j.apart()
	first, crowds := map[string]int32{}, [][]int32{}
	var key []byte
	for n := range j.Of {
		j.Weight[n], j.crowd[n] = 1, -1
		if apart[n] || len(j.Of[n]) == 0 {
			continue
		}
		if key = j.shown(key[:0], int32(n)); len(key) == 0 {
			continue
		}
		c, ok := first[string(key)]
		if !ok {
			c = int32(len(crowds))
			first[string(key)] = c
			crowds = append(crowds, nil)
		}
		crowds[c] = append(crowds[c], int32(n))
	}
	for _, crowd := range crowds {
		if len(crowd) <= 2 {
			continue
		}
		for _, n := range crowd {
			j.crowd[n] = int32(len(j.crowds))
		}
		j.crowds = append(j.crowds, crowd)
		j.Weight[crowd[1]] = int32(len(crowd) - 1)
		for _, n := range crowd[2:] {
			j.Weight[n], j.Of[n] = 0, nil
		}
	}
	for i := range j.Operations {
		in := &j.Operations[i]
		in.Size = len(in.Parts)
		in.Parts = slices.DeleteFunc(in.Parts, func(p int32) bool { return j.Weight[j.Parts[p].Node] == 0 })
	}
}

// apart marks the nodes that something beside their operations tells from others.
func (j *Job) apart() []bool {
	out := make([]bool, len(j.Of))
	ports := make([]int32, len(j.Of))
	for n := range j.Of {
		ports[j.Port[n]]++
		r := j.Index.Nodes[n].Rank
		out[n] = r == nil || j.Silent[n] || j.Moving[n] > 0 || r.Lost > 0 || r.State != rca.ProcessUnknown && r.State != rca.ProcessRunning
	}
	for n := range j.Of {
		out[n] = out[n] || ports[j.Port[n]] > 1
	}
	for _, f := range j.Facts {
		for _, n := range f.Nodes {
			out[n] = true
		}
	}
	for _, o := range j.Orders {
		for _, n := range slices.Concat(o.Odd, o.Rest) {
			out[n] = true
		}
	}
	for p := range j.Parts {
		for _, f := range j.Parts[p].Flows {
			if f.Peer >= 0 {
				out[j.Parts[f.Peer].Node] = true
			}
		}
	}
	for i := range j.Operations {
		if root := j.Operations[i].Root; root >= 0 {
			out[j.Parts[root].Node] = true
		}
	}
	return out
}

// shown writes all that a node shows; nothing where it exchanges data with certain others.
func (j *Job) shown(key []byte, n int32) []byte {
	r := j.Index.Nodes[n].Rank
	key = append(key, bit(r.State == rca.ProcessRunning), bit(r.WriteBytesPerSec >= j.Index.Opt.StorageBytesPerSec), bit(j.Young(n)))
	for _, p := range j.Of[n] {
		part := &j.Parts[p]
		if len(part.Flows) > 0 || j.Operations[part.Operation].P2P {
			return nil
		}
		key = binary.LittleEndian.AppendUint32(key, uint32(part.Operation))
		flags := bit(part.Op != nil) | bit(part.Still)<<1 | bit(part.Moving)<<2 | bit(part.Midway)<<3 | bit(part.Blank)<<4 | bit(part.Hidden)<<5 | bit(part.Odd)<<6
		key = append(key, byte(part.Seen), flags)
	}
	return key
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// Alike gives the nodes that nothing tells from a node, itself included.
func (j *Job) Alike(n int32) []int32 {
	if c := j.crowd[n]; c >= 0 {
		return j.crowds[c]
	}
	return []int32{n}
}

// StandsFor gives the node that a node's letters are read at.
func (j *Job) StandsFor(n int32) int32 {
	if c := j.crowd[n]; c >= 0 && j.Weight[n] == 0 {
		return j.crowds[c][1]
	}
	return n
}

// Young reports whether a rank has ended hardly anything yet.
func (j *Job) Young(n int32) bool {
	r := j.Index.Nodes[n].Rank
	return r != nil && !slices.ContainsFunc(r.Memberships, func(m rca.Membership) bool { return m.Completed >= j.Index.Opt.FirstJobOps })
}
