// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

// perGroup gives the operations of TorchComms numbers that compare. Its recorder counts all operations of a process in one
// row, from zero, whatever their communicator: the numbers of one operation differ between ranks that use others in between.
// Numbers in the communicator follow where nothing is lacking at the beginning; else there are none.
func (d *Dump) perGroup() {
	if !d.countsAll() {
		return
	}
	groups := map[string]bool{}
	whole := true
	for i := range d.Entries {
		e := &d.Entries[i]
		groups[e.Group] = true
		whole = whole && e.RecordID == int64(i)
	}
	for _, g := range d.Groups {
		groups[g.Name] = true
	}
	next := map[string]int64{}
	for i := range d.Entries {
		e := &d.Entries[i]
		e.P2P = e.P2P || e.Name == "batch_op_issue" // Sends and receives.
		next[e.Group]++
		switch {
		case e.P2P:
			next[e.Group]--
			e.CollectiveSeq = -1
		case whole:
			e.CollectiveSeq = next[e.Group]
		case len(groups) == 1:
			e.CollectiveSeq++
		default:
			e.CollectiveSeq = -1
			d.Unnumbered = true
		}
	}
}

// countsAll says that the dump is of TorchComms: communicators are described by their backend, and operations have one number
// as records, in their process, and as collectives.
func (d *Dump) countsAll() bool {
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Backend == "" || e.Desc != e.Backend || e.CollectiveSeq != e.RecordID || e.P2PSeq > 0 {
			return false
		}
	}
	return len(d.Entries) > 0
}
