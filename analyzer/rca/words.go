// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// rankName is a rank with its place: "Rank 5 (node2, GPU 1)".
func (x *index) rankName(n int32) string {
	nd := &x.nodes[n]
	if nd.id < 0 {
		return "an unseen member of " + x.comms[nd.ghost].name
	}
	s := "rank " + strconv.Itoa(nd.id)
	if nd.rank == nil {
		return s
	}
	var place []string
	if nd.rank.Host != "" {
		place = append(place, nd.rank.Host)
	}
	if nd.rank.GPU != "" {
		place = append(place, "GPU "+nd.rank.GPU)
	}
	if len(place) > 0 {
		s += " (" + strings.Join(place, ", ") + ")"
	}
	return s
}

// opName is an operation for people: "AllReduce #1234 on dp_1".
func (x *index) opName(inst int32) string {
	if inst < 0 {
		return "an operation"
	}
	in := &x.insts[inst]
	return opLabel(in.op()) + " on " + x.comms[in.key.comm].name
}

// opLabel names an operation by the number that its source's own tools show: the sequence number of a Flight Recorder
// entry counts from 1 where call order counts from 0.
func opLabel(o *Op) string {
	fn := o.Func
	if fn == "" {
		fn = "operation"
	}
	n := o.Number
	if strings.HasPrefix(fn, callPrefix) {
		return fn // It has no number.
	}
	if n < 0 || isP2P(o) && o.Seq >= 0 || o.Seq == n+1 {
		n = o.Seq
	}
	if n < 0 {
		return fn
	}
	return fn + " #" + strconv.FormatInt(n, 10)
}

func opener(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// span is a duration as a person says it.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "unknown time"
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Round(100*time.Millisecond))/1e9, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	}
	return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + " h"
}

// plural says "1 rank" or "3 ranks".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// rankList names ranks briefly: "ranks 1, 2 and 3", cut after a few.
func (x *index) rankList(ns []int32) string {
	const few = 8
	if len(ns) == 1 {
		return x.rankName(ns[0])
	}
	var parts []string
	for i, n := range ns {
		if i == few {
			parts = append(parts, fmt.Sprintf("%d more", len(ns)-few))
			break
		}
		parts = append(parts, strconv.Itoa(x.nodes[n].id))
	}
	return "ranks " + strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// flawText says what a rank shows of itself, without ages.
func (x *index) flawText(r *root) string {
	peer := ""
	if r.peer >= 0 {
		peer = " to " + x.rankName(r.peer)
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
	case flawGPUIdle:
		return fmt.Sprintf("all its data of %s has moved, yet its kernel does not end", on)
	case flawKernel:
		return fmt.Sprintf("it called %s but the kernel never started: its GPU is busy, blocked or dead", on)
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
		if x.comms[x.insts[r.inst].key.comm].call {
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

// actionFor suggests what to do.
func actionFor(class Class, cause Cause) string {
	if class == Benign {
		return "Nothing: wait."
	}
	if a, ok := actions[cause]; ok {
		return a
	}
	return "Look at the ranks under missing, then ask again."
}

var actions = map[Cause]string{
	CauseProcessStopped:   "Resume the process (kill -CONT) or find who stopped it; if nobody did, restart the job without this host.",
	CauseProcessGone:      "Read the process's last output and the kernel log for why it died (OOM, Xid); restart the job from its checkpoint.",
	CauseHostLost:         "Check the host's power and management network; restart the job without it.",
	CauseNotCalled:        "Dump the Python stack of the process (py-spy dump): data loader, lock, exception handler or a branch the others did not take.",
	CauseStorage:          "Check the file system that the process reads or writes (mount, server, quota); the process cannot be killed while it is blocked there.",
	CauseKernelNotRunning: "Check the GPU (nvidia-smi, Xid in the kernel log) and the kernel that runs before the operation on the same stream.",
	CauseOtherOp:          "Compare the code paths of the named ranks: they called different operations at the same place.",
	CauseDeadlock:         "Make all ranks enter these groups in one order, or put them on one stream.",
	CauseGPU:              "Check the GPU (Xid, ECC, clocks, NVLink errors); drain the host and restart the job without it.",
	CauseNetworkSend:      "Check NIC, cable and switch port of the sending rank (link state, error counters); drain the host if the counters grow.",
	CauseReceiver:         "Check the receiving process: its proxy thread does not post buffers (CPU starvation, stuck thread, NIC error).",
	CausePCIe:             "Check PCIe link width and speed and the peer-memory driver of that GPU and NIC.",
	CauseProxy:            "Check CPU use and affinity of the process: its NCCL proxy thread does not get to run.",
	CauseCPU:              "Check CPU pressure, affinity and the stack of the process.",
	CauseStage:            "Move layers from this stage to others: the cut of the model is uneven, no machine is bad.",
	CauseRouting:          "Balance the experts (capacity factor, auxiliary loss): routing is uneven, no machine is bad.",
	CauseData:             "Balance sequence lengths between ranks: the data is uneven, no machine is bad.",
}

// finishers says who has finished what the culprit has not.
func (x *index) finishers(r *root) string {
	in := &x.insts[r.inst]
	left := x.completed(in)
	if left+len(in.joins) >= len(x.comms[in.key.comm].mem) && len(in.joins) == 1 {
		return pick(left == 1, "the other member has finished", "the other members have finished")
	}
	return plural(left, "member") + pick(left == 1, " has finished", " have finished")
}

// through says who has come back from the call that the culprit is in.
func (x *index) through(r *root) string {
	if n := x.completed(&x.insts[r.inst]); n > 0 {
		return ", from which " + plural(n, "other member") + pick(n == 1, " has", " have") + " come back"
	}
	return ""
}
