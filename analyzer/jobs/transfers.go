// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/culprit-project/culprit/analyzer/evidence"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Exporters are where finished operations of single ranks are read, with their sizes: series have sums only.
type Exporters struct {
	Nodes   evidence.NodeAPI
	BaseURL func(labels map[string]string) (string, error) // Of an exporter, from a process's labels.
}

// Transfer is the quickest of the last operations of one size, by one function, on the communicators of one name.
type Transfer struct {
	Comm, Function string
	Ranks          int // Of the communicator.
	Bytes          uint64
	Ops            int     // How many were looked at.
	Seconds        float64 // The quickest took.
	Bus            float64 // Bus bandwidth of that one, bytes a second, as nccl-tests have it; 0: the function has none.
}

// Bounds of what is read and shown.
const (
	mostObjects   = 1 << 16 // Of one process's state.
	mostTransfers = 16
)

// transfers reads the last operations of the rank that comes latest, which waits least inside them.
func (a *asker) transfers(processes []evidence.Process) {
	if a.s.exporters.Nodes == nil {
		return
	}
	rank := processes[0].Rank
	if len(a.j.Late) > 0 {
		rank = a.j.Late[0].Rank
	}
	i := slices.IndexFunc(processes, func(p evidence.Process) bool { return p.Rank == rank })
	base, err := a.s.exporters.BaseURL(processes[i].Labels)
	if err != nil {
		a.note(err)
		return
	}
	state, _, err := a.s.exporters.Nodes.State(a.ctx, base, a.j.ID.ID, []int{rank}, nil, func(objects int64) bool { return objects <= mostObjects })
	if err != nil {
		a.note(fmt.Errorf("asking the exporter of rank %d for its last operations: %w", rank, err))
		return
	}
	a.j.TransfersOf = rank
	for k := range state.Processes {
		if p := &state.Processes[k]; p.JobID == a.j.ID.ID && int(p.Rank) == rank && p.Disputed == "" && (p.UID == "" || p.UID == processes[i].Owner || processes[i].Owner == "") {
			a.j.Transfers = transfersOf(p)
		}
	}
}

// transfersOf gives the quickest operation of each size, the largest sizes first.
func transfersOf(p *nodeapi.Process) []Transfer {
	names := map[trace.CommID]string{}
	for i := range p.Comms {
		names[p.Comms[i].ID] = p.Comms[i].Name
	}
	type kind struct {
		comm, function string
		ranks          int
		bytes          uint64
	}
	found := map[kind]*Transfer{}
	for i := range p.Completions {
		c := &p.Completions[i]
		begin := max(c.EnqueuedNS, c.EnteredNS) // A program enqueues an operation long before its GPU comes to it.
		if c.LeftNS <= begin || begin == 0 || c.Bytes == 0 || c.NRanks < 2 {
			continue
		}
		k := kind{family(names[c.CommID]), c.Func.String(), int(c.NRanks), c.Bytes}
		t := found[k]
		if t == nil {
			t = &Transfer{Comm: k.comm, Function: k.function, Ranks: k.ranks, Bytes: k.bytes}
			found[k] = t
		}
		t.Ops++
		if took := float64(c.LeftNS-begin) / 1e9; t.Seconds == 0 || took < t.Seconds {
			t.Seconds = took
			t.Bus = float64(c.Bytes) * busFactor(k.function, k.ranks) / took
		}
	}
	var out []Transfer
	for _, t := range found {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y Transfer) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Comm, y.Comm), cmp.Compare(x.Function, y.Function), cmp.Compare(x.Ranks, y.Ranks))
	})
	return out[:min(len(out), mostTransfers)]
}

// busFactor is bus bandwidth over bytes a second, as nccl-tests have it. Bytes are the payload that a rank hands to the call: of AllGather,
// ReduceScatter, AlltoAll, Gather and Scatter nccl-tests count those of all ranks, of which a rank's own do not travel.
func busFactor(function string, n int) float64 {
	if n < 2 {
		return 0
	}
	switch function {
	case "AllReduce":
		return 2 * float64(n-1) / float64(n)
	case "AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter":
		return float64(n - 1)
	case "Broadcast", "Reduce", "Send", "Recv":
		return 1
	}
	return 0
}
