// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"strings"

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
func (x *standstill) flawText(r *root) string {
	peer := ""
	if r.peer >= 0 {
		peer = " to " + x.RankName(r.peer)
	}
	on := x.opName(r.inst)
	ch := ""
	if r.channel >= 0 {
		ch = fmt.Sprintf(" on channel %d", r.channel)
	}
	switch r.what {
	case flawUndelivered:
		return fmt.Sprintf(words.Undelivered, peer, on, ch)
	case flawUnacked:
		return fmt.Sprintf(words.Unacknowledged, peer, on, ch)
	case flawUntransmit:
		return fmt.Sprintf(words.Untransmitted, peer, on, ch)
	case flawProxy:
		return fmt.Sprintf(words.ProxyStopped, peer, on, ch)
	case flawGPU:
		return fmt.Sprintf(words.GPUStopped, on, ch)
	case flawGPUStart:
		return fmt.Sprintf(words.GPUGivesNothing, on, ch)
	case flawNotCome:
		return fmt.Sprintf(words.GPUNotCome, on)
	case flawGPUIdle:
		return fmt.Sprintf(words.KernelStays, on)
	case flawKernel:
		return fmt.Sprintf(words.KernelNotStarted, on)
	case flawNotBegun:
		return fmt.Sprintf(words.SendNotBegun, peer, on, ch)
	case flawFlush:
		return fmt.Sprintf(words.NotFlushed, on, ch)
	case flawNoBuffers:
		return fmt.Sprintf(words.NoBuffers, on, ch)
	case flawLostOnWire:
		return fmt.Sprintf(words.LostOnWire, on, ch, peer)
	case flawPeerLeft:
		return fmt.Sprintf(words.PeerLeft, on, ch, peer)
	case flawLinkUnproven:
		return fmt.Sprintf(words.LinkUnproven, peer, on, ch)
	case flawCall:
		if x.Comms[x.insts[r.inst].key.comm].Call {
			return fmt.Sprintf(words.InsideSetup, on, x.through(r))
		}
		return fmt.Sprintf(words.InsideCall, on)
	case flawAlone:
		return fmt.Sprintf(words.GPUAlone, on, x.finishers(r))
	case flawReceiving:
		return fmt.Sprintf(words.NotReceived, strings.TrimPrefix(peer, " to"), on, ch)
	case flawNICDown:
		return fmt.Sprintf(words.NICDown, on)
	case flawGPUError:
		return fmt.Sprintf(words.GPUFaulty, on)
	}
	return ""
}

// finishers says who has finished what the culprit has not.
func (x *standstill) finishers(r *root) string {
	in := &x.insts[r.inst]
	left := x.completed(in)
	if left+len(in.joins) >= len(x.Comms[in.key.comm].Members) && len(in.joins) == 1 {
		return pick(left == 1, words.OtherFinished, words.OthersFinished)
	}
	return words.Plural(left, "member") + pick(left == 1, " has finished", " have finished")
}

// through says who has come back from the call that the culprit is in.
func (x *standstill) through(r *root) string {
	if n := x.completed(&x.insts[r.inst]); n > 0 {
		return ", from which " + words.Plural(n, "other member") + pick(n == 1, " has", " have") + " returned"
	}
	return ""
}

// pick gives one of two values.
func pick[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}
