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
	return fmt.Sprintf("the %s that rank %d's %s needs", half, x.Nodes[in.joins[0].node].ID, x.opName(inst))
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
		return fmt.Sprintf("what it sent%s in %s%s is not delivered, though the receiver has buffers posted and waits: its NIC or link", peer, on, ch)
	case flawUnacked:
		return fmt.Sprintf("what it sent%s in %s%s arrived and is not acknowledged", peer, on, ch)
	case flawUntransmit:
		return fmt.Sprintf("data ready to send%s in %s%s is not sent, though the receiver has a buffer posted: its NIC", peer, on, ch)
	case flawProxy:
		return fmt.Sprintf("data ready to send%s in %s%s is not sent and its proxy thread does not even try", peer, on, ch)
	case flawGPU:
		return fmt.Sprintf("its GPU has received data in %s%s, has room to send, and does not go on", on, ch)
	case flawGPUStart:
		return fmt.Sprintf("its GPU does not produce data for %s%s, for which it waits for nobody", on, ch)
	case flawNotCome:
		return fmt.Sprintf("its GPU has given no data for %s, which other GPUs are in: it still computes, or it stands", on)
	case flawGPUIdle:
		return fmt.Sprintf("all its data of %s has moved, yet its kernel does not end", on)
	case flawKernel:
		return fmt.Sprintf("it called %s but the kernel never started: its GPU is busy, blocked or dead", on)
	case flawNotBegun:
		return fmt.Sprintf("it has not begun to send%s in %s%s: earlier data on that connection has not left, or is not taken", peer, on, ch)
	case flawFlush:
		return fmt.Sprintf("data that arrived in %s%s is not handed to its GPU: PCIe, NIC or driver", on, ch)
	case flawNoBuffers:
		return fmt.Sprintf("it posts no buffers in %s%s, so its sender cannot go on", on, ch)
	case flawLostOnWire:
		return fmt.Sprintf("it says that data in %s%s was delivered%s, which denies it", on, ch, peer)
	case flawPeerLeft:
		return fmt.Sprintf("data of %s%s is still under way%s although one end has finished", on, ch, peer)
	case flawLinkUnproven:
		return fmt.Sprintf("what it sent%s in %s%s is not acknowledged, and nothing is known of the receiver", peer, on, ch)
	case flawCall:
		if x.Comms[x.insts[r.inst].key.comm].Call {
			return fmt.Sprintf("its CPU is inside %s and does not come out%s", on, x.through(r))
		}
		return fmt.Sprintf("its CPU is inside the call of %s and does not come out, while others have launched it", on)
	case flawAlone:
		return fmt.Sprintf("its GPU does not finish %s, which %s", on, x.finishers(r))
	case flawReceiving:
		return fmt.Sprintf("what%s sent in %s%s does not arrive, and its own node shows why", strings.TrimPrefix(peer, " to"), on, ch)
	case flawNICDown:
		return fmt.Sprintf("all members of %s stand still together and its NIC is down", on)
	case flawGPUError:
		return fmt.Sprintf("its host's members of %s stand still together and its GPU shows an error", on)
	}
	return ""
}

// finishers says who has finished what the culprit has not.
func (x *standstill) finishers(r *root) string {
	in := &x.insts[r.inst]
	left := x.completed(in)
	if left+len(in.joins) >= len(x.Comms[in.key.comm].Members) && len(in.joins) == 1 {
		return pick(left == 1, "the other member has finished", "the other members have finished")
	}
	return words.Plural(left, "member") + pick(left == 1, " has finished", " have finished")
}

// through says who has come back from the call that the culprit is in.
func (x *standstill) through(r *root) string {
	if n := x.completed(&x.insts[r.inst]); n > 0 {
		return ", from which " + words.Plural(n, "other member") + pick(n == 1, " has", " have") + " come back"
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
