// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// mostLags bounds how many queue pairs of a process are told of.
const mostLags = 8

// QueuePair is the component of facts about queue pairs. It is no ailment of a NIC: the cause may lie anywhere on the path, at its far end too.
const QueuePair = "queue pair"

// Lagging gives the queue pairs of a process that lag behind their sisters (P2), with their path, and how often the port that they are on waited
// in vain for an acknowledgement (of; a NIC does not tell by which queue pair). member gives the global rank of a communicator's member, -1 unknown.
func Lagging(p *nodeapi.Process, host string, of []nodeapi.Fact, member func(rca.CommID, int) int) []rca.Fact {
	var out []rca.Fact
	for i := range p.Lagging[:min(len(p.Lagging), mostLags)] {
		l := &p.Lagging[i]
		for k := range p.QPs {
			q := &p.QPs[k]
			if q.Index != l.QPIndex {
				continue
			}
			f := rca.Fact{Host: host, Rank: int(p.Rank), Component: QueuePair, Device: q.Device, Kind: "queue_pair_" + string(l.Kind)}
			f.Text = pathOf(p, q, member)
			switch l.Kind {
			case trace.LagStanding:
				f.Value = float64(l.StuckNS) / 1e9
				f.Text += fmt.Sprintf(" has completed no send for %.1f s", f.Value)
			case trace.LagSlow:
				f.Value, f.Expected = l.BytesPerSecond, l.SistersBytesPerSecond
				f.Text += fmt.Sprintf(" moves %.1f MB/s while a send is outstanding, and the %d others to the same peer %.1f MB/s", f.Value/1e6, l.Sisters, f.Expected/1e6)
			default:
				continue
			}
			f.Text += retried(q, of)
			out = append(out, f)
		}
	}
	return out
}

// pathOf names a queue pair and where it leads: "queue pair 1001 on mlx5_1 port 1 (channel 2, to rank 5 at 10.1.2.3, queue pair 77)".
func pathOf(p *nodeapi.Process, q *trace.QP, member func(rca.CommID, int) int) string {
	var way []string
	for i := range p.Flows {
		if f := &p.Flows[i]; int64(f.Index) == q.FlowIndex && f.Generation == q.FlowGeneration {
			way = append(way, fmt.Sprintf("channel %d", f.Channel))
			break
		}
	}
	to := fmt.Sprintf("to peer %d", q.Peer)
	if id := commOf(p, q); id != "" {
		if rank := member(id, int(q.Peer)); rank >= 0 {
			to = fmt.Sprintf("to rank %d", rank)
		} else {
			to += " of " + string(id)
		}
	}
	if q.Remote != "" {
		to += " at " + q.Remote
	}
	way = append(way, to)
	if q.DestQPNum != 0 {
		way = append(way, fmt.Sprintf("queue pair %d", q.DestQPNum))
	}
	return fmt.Sprintf("queue pair %d on %s port %d (%s)", q.QPNum, q.Device, q.Port, strings.Join(way, ", "))
}

// retried says what the port of a queue pair counted of retransmissions lately.
func retried(q *trace.QP, of []nodeapi.Fact) string {
	for i := range of {
		if f := &of[i]; f.Component == "nic" && f.Device == q.Device && f.Kind == "ack_timeout" {
			return fmt.Sprintf("; its port timed out on %g acknowledgements, the last %s ago", f.Value, seconds(f.AgeSeconds).Round(time.Second))
		}
	}
	return ""
}

// Tell adds the queue pairs that lag to the evidence that a verdict lists, where it names another rank, or none: they are seen all the same.
func Tell(v *rca.Verdict, facts []rca.Fact) {
	for i := range facts {
		f := &facts[i]
		if f.Component == QueuePair && !slices.ContainsFunc(v.Evidence, func(line string) bool { return strings.HasSuffix(line, f.Text) }) {
			v.Evidence = append(slices.Clip(v.Evidence), fmt.Sprintf("%s, rank %d: %s", f.Host, f.Rank, f.Text))
		}
	}
}

// lagging adds what the seen ranks' queue pairs show.
func (a *assembly) lagging() {
	at := map[rca.CommID][]int{}
	for i := range a.ev.Comms {
		at[a.ev.Comms[i].ID] = a.ev.Comms[i].Members
	}
	member := func(id rca.CommID, place int) int {
		if m := at[id]; place >= 0 && place < len(m) {
			return m[place]
		}
		return -1
	}
	for i := range a.ev.Ranks {
		if s := a.seen[a.ev.Ranks[i].ID]; s.process != nil && len(s.process.Lagging) > 0 {
			a.ev.Facts = append(a.ev.Facts, Lagging(s.process, s.rank.Host, s.node.state.Facts, member)...)
		}
	}
}
