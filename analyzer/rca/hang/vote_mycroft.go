// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/mycroft"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// mycroftVote is Mycroft's algorithm 2 for failures (M7): the rank with the lowest operation number (CheckMinOp), else
// the one whose flows moved least (CheckMinData); then the state table for its kind (CheckRCTable).
func (w *waitFor) mycroftVote(inst int32) rca.Vote {
	v := rca.Vote{Method: "mycroft", Class: rca.NotEntered, Ranks: []int{}}
	c := &w.Comms[w.insts[inst].key.comm]
	if low := behindInCalls(c); len(low) > 0 {
		v.Note = "CheckMinOp on " + c.Name
		v.Ranks = w.IDs(low)
		return v
	}
	low := w.leastData(&w.insts[inst])
	v.Class, v.Note = rca.Fault, "CheckMinData on "+c.Name
	v.Ranks = w.IDs(low)
	if len(low) == 0 {
		v.Class = rca.Unknown
	}
	if len(low) == 1 {
		v.Note += ": " + w.tableOf(low[0], inst)
		if channel := w.leastMoved(&w.insts[inst], low[0]); channel >= 0 {
			v.Note += fmt.Sprintf(words.MethodUnequal, mycroft.UnequalAmount, channel)
		}
	}
	return v
}

// tableOf is CheckRCTable: the rows of table 4 that hold for the sends of a rank, with local and remote causes.
func (w *waitFor) tableOf(n, inst int32) string {
	j := w.part(&w.insts[inst], n)
	if j == nil {
		return words.MethodNotInIt
	}
	var rows []mycroft.Row
	side := mycroft.Unclear
	for i := range j.op.Flows {
		f := &j.op.Flows[i]
		if !f.Send || f.Finished() {
			continue
		}
		if to := w.insts[inst].at(int32(f.Peer)); to != nil && side == mycroft.Unclear {
			if r := matching(to.op, f, j.commRank); r != nil {
				side = mycroft.Compare(countersOf(f), countersOf(r))
			}
		}
		for _, r := range mycroft.Table(countersOf(f)) {
			if !slices.Contains(rows, r) {
				rows = append(rows, r)
			}
		}
	}
	if len(rows) == 0 {
		return words.MethodSendsFinished
	}
	var s strings.Builder
	for i, r := range rows {
		s.WriteString(pick(i > 0, "; ", "") + r.State + " (here: " + r.Local + pick(r.Remote != "", ", receiver: "+r.Remote, "") + ")")
	}
	switch side {
	case mycroft.Receiver:
		s.WriteString("; " + words.MethodReceiverUsedAll)
	case mycroft.Sender:
		s.WriteString("; " + words.MethodNothingUnderWay)
	case mycroft.Unclear:
	}
	return s.String()
}

func countersOf(f *rca.Flow) mycroft.Counters {
	return mycroft.Counters{Ready: f.Ready, Transmitted: f.Transmitted, Done: f.Done}
}

// leastMoved gives the channel on which a rank sent least of all flows of an operation (M9); -1 where none stands out.
func (w *waitFor) leastMoved(in *instance, node int32) int {
	var flows []mycroft.Flow
	for i := range in.joins {
		for k := range in.joins[i].op.Flows {
			f := &in.joins[i].op.Flows[k]
			if f.Send {
				flows = append(flows, mycroft.Flow{Rank: w.Nodes[in.joins[i].node].ID, Channel: f.Channel, Chunks: f.Done, Total: f.Total})
			}
		}
	}
	channel := -1
	for _, v := range mycroft.Check(flows) {
		if v.Principle != mycroft.UnequalAmount {
			continue
		}
		if channel >= 0 || v.Rank != w.Nodes[node].ID {
			return -1
		}
		channel = v.Channel
	}
	return channel
}
