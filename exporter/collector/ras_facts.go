// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Facts gives what RAS says of ranks that are dead, do not answer, report an error, or have not launched what the others
// have. It tells them apart by their place in a communicator; where that is no rank of the job, the fact has none.
func (c *RAS) Facts() []nodeapi.Fact {
	c.mu.Lock()
	report, before, age := c.report, c.before, c.now().Sub(c.at)
	c.mu.Unlock()
	if report == nil || age > 2*c.every {
		return nil
	}
	ranks := c.ranks.Ranks()
	found := map[nodeapi.Fact]bool{} // A rank is in many communicators.
	for i := range report.Communicators {
		comm := &report.Communicators[i]
		place := placeOf(comm, ranks)
		for _, f := range factsOf(comm, before.Find(comm)) {
			f.Rank = place(f.Rank)
			f.AgeSeconds = age.Seconds()
			found[f] = true
		}
	}
	facts := make([]nodeapi.Fact, 0, len(found))
	for f := range found {
		facts = append(facts, f)
	}
	sortFacts(facts)
	return facts
}

// placeOf tells a member's rank in the job: that of a process on this node, or the member's own number in a communicator
// of the whole job.
func placeOf(comm *ras.Communicator, ranks []node.RankRef) func(member int32) int32 {
	var id trace.CommID
	if err := id.UnmarshalText([]byte(comm.Hash)); err != nil {
		return func(int32) int32 { return -1 }
	}
	here := map[int32]int32{}
	world := false
	for _, r := range ranks {
		for _, c := range r.Comms {
			if c.ID == id && int(c.NRanks) == comm.Size {
				here[c.Rank] = r.Rank
				world = c.NRanks == r.World && c.Rank == r.Rank
			}
		}
	}
	return func(member int32) int32 {
		if rank, ok := here[member]; ok {
			return rank
		}
		if world {
			return member
		}
		return -1
	}
}

// factsOf gives what is wrong with members of a communicator, with their number in it as rank.
func factsOf(comm, before *ras.Communicator) []nodeapi.Fact {
	var facts []nodeapi.Fact
	fact := func(kind string, member int, value float64, text string) {
		facts = append(facts, nodeapi.Fact{
			Component: "process", Kind: kind, Value: value, Rank: int32(member),
			Text: strings.ToValidUTF8(text, "?"),
		})
	}
	for i := range comm.Missing {
		m := &comm.Missing[i]
		where := fmt.Sprintf("process %d on %s", m.PID, m.Host)
		switch {
		case m.Status.Dead:
			fact("ras_dead", m.Rank, 1, where+" is considered dead by NCCL")
		case m.Status.Unresponsive:
			fact("ras_unresponsive", m.Rank, 1, where+" does not answer NCCL's RAS")
		default:
			fact("ras_missing", m.Rank, 1, where+" is missing from NCCL's RAS report")
		}
	}
	behind := comm.Behind(before)
	for i := range comm.Ranks {
		r := &comm.Ranks[i]
		where := fmt.Sprintf("process %d on %s", r.PID, r.Host)
		if r.Status.AsyncError != 0 {
			fact("ras_async_error", r.Rank, float64(r.Status.AsyncError), where+" has an asynchronous NCCL error")
		}
		if n := behind[r.Rank]; n > 0 {
			fact("ras_lagging", r.Rank, float64(n), where+" has launched fewer operations than others and none since the last report")
		}
	}
	return facts
}
