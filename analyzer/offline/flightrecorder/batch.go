// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

// coalesced is what the entry that ends a batch is called.
const coalesced = "coalesced"

// batchID is what the entries of a batch share.
type batchID struct {
	group            string
	p2p              bool
	collective, pair int64
}

func (e *Entry) batch() batchID { return batchID{e.Group, e.P2P, e.CollectiveSeq, e.P2PSeq} }

// settleBatches gives the operations of a batch (batch_isend_irecv, the coalescing manager) the state of the batch:
// PyTorch records each of them under the batch's number and then follows only the entry that ends it. The others would
// look pending for ever. Batches of a group complete in order: what one lacks its end, as the ring buffer has lost it,
// and was recorded before one that has completed, has completed too.
func (d *Dump) settleBatches() {
	open := map[batchID][]int{}
	unended := map[string][]int{} // By group.
	for i := range d.Entries {
		e := &d.Entries[i]
		switch {
		case e.Name == coalesced:
			members := open[e.batch()]
			delete(open, e.batch())
			for _, k := range members {
				d.Entries[k].follow(e)
			}
			if !e.P2P {
				continue
			}
			d.inBatches(e.Group)
			if e.State != Completed {
				continue
			}
			for _, k := range unended[e.Group] {
				if m := &d.Entries[k]; !m.InBatch && m.batch() != e.batch() {
					m.follow(e)
				}
			}
			unended[e.Group] = nil
		case e.State == Scheduled && !e.Retired:
			open[e.batch()] = append(open[e.batch()], i)
			if e.P2P {
				unended[e.Group] = append(unended[e.Group], i)
				if len(open[e.batch()]) > 1 { // Only a batch has several of one number.
					d.inBatches(e.Group)
				}
			}
		}
	}
}

// inBatches notes that a group's sends and receives are launched in batches.
func (d *Dump) inBatches(group string) {
	if d.batched == nil {
		d.batched = map[string]bool{}
	}
	d.batched[group] = true
}

// follow takes over how far the batch has come.
func (e *Entry) follow(end *Entry) {
	e.InBatch = true
	e.State, e.Retired = end.State, end.Retired
	e.StartedNS, e.CompletedNS, e.Assumed = end.StartedNS, end.CompletedNS, end.Assumed
}
