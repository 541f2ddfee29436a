// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"

	"github.com/culprit-project/culprit/analyzer/rca/job"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// opName is an operation for people: "AllReduce #1234 on dp_1".
func (x *standstill) opName(inst int32) string {
	if inst < 0 {
		return "an operation"
	}
	in := &x.insts[inst]
	return job.OpLabel(in.op()) + " on " + x.Comms[in.key.comm].Name
}

// shownPlace is the operation's place for people. Sources that count from 1 print numbers from 1: a text shows one number for one
// operation.
func (in *instance) shownPlace() int64 {
	if seq := in.op().Seq; seq == in.key.place+1 {
		return seq
	}
	return in.key.place
}

// missedName is the part in an operation that somebody has not called, for people: of a send or receive it is the other half.
func (x *standstill) missedName(inst int32) string {
	if inst < 0 || !x.insts[inst].key.p2p() {
		return x.opName(inst)
	}
	in := &x.insts[inst]
	half := pick(in.op().Func == "Send", "Recv", "Send")
	return fmt.Sprintf(words.HalfOf, half, x.Nodes[in.joins[0].node].ID, x.opName(inst))
}

// flawText says what a rank shows of itself, without ages.
func (x *standstill) flawText(c *candidate) string {
	from, ch := "", ""
	if c.peer >= 0 {
		from = " " + x.RankName(c.peer)
	}
	if c.channel >= 0 {
		ch = fmt.Sprintf(" on channel %d", c.channel)
	}
	return fmt.Sprintf(c.text, x.opName(c.inst), ch, pick(from == "", "", " to")+from, from, x.finishers(c))
}

// finishers says who has finished what the culprit has not, or returned from the call that it is in.
func (x *standstill) finishers(c *candidate) string {
	if c.inst < 0 {
		return ""
	}
	in := &x.insts[c.inst]
	left := x.completed(in)
	has := pick(left == 1, " has", " have")
	switch {
	case x.Comms[in.key.comm].Call && left == 0:
		return ""
	case x.Comms[in.key.comm].Call:
		return ", from which " + words.Plural(left, "other member") + has + " returned"
	case left+len(in.joins) >= len(x.Comms[in.key.comm].Members) && len(in.joins) == 1:
		return pick(left == 1, words.OtherFinished, words.OthersFinished)
	}
	return words.Plural(left, "member") + has + " finished"
}

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
