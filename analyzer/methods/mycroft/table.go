// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package mycroft has what Mycroft derives from plain numbers: the state table of a flow with local and remote causes (M8), and
// the principles of chunks and flows (M9). Its triggers (M6) run in Prometheus.
package mycroft

// Counters are a flow's chunks: on a sender, made ready by the GPU, handed to the network, and done; on a receiver, received,
// given to the GPU, and consumed.
type Counters struct {
	Ready, Transmitted, Done int64
}

// Row is a row of table 4.
type Row struct {
	State  string
	Local  string // Cause on the rank itself.
	Remote string // Cause on the other side, empty where there is none.
}

// The rows of table 4.
var (
	NotStarted     = Row{"not started", "uninitialized", "blocked"}
	NotTransmitted = Row{"not transmitted", "RDMA issue", "receiver not ready"}
	NotDelivered   = Row{"not delivered", "RDMA issue", "receiver failed"}
	GPUNotReady    = Row{"GPU not ready", "GPU issue", ""}
)

// Table gives the rows of table 4 that hold for a flow that is not finished; several may hold.
func Table(c Counters) []Row {
	var out []Row
	if c.Ready > c.Transmitted {
		out = append(out, NotTransmitted)
	}
	if c.Transmitted > c.Done {
		out = append(out, NotDelivered)
	}
	switch {
	case len(out) > 0:
	case c.Ready <= 0:
		out = append(out, NotStarted)
	default:
		out = append(out, GPUNotReady)
	}
	return out
}

// Side is one end of a flow.
type Side int

// Sides.
const (
	Unclear Side = iota
	Sender
	Receiver
)

// Compare compares a sender with its receiver. A sender that has handed everything to the network without completion, and whose
// receiver has used everything it got, points at the receiver.
func Compare(sender, receiver Counters) Side {
	used := receiver.Ready == receiver.Transmitted && receiver.Transmitted == receiver.Done
	switch {
	case sender.Ready == sender.Transmitted && sender.Transmitted > sender.Done && used:
		return Receiver
	case sender.Ready == sender.Transmitted && sender.Transmitted == sender.Done && used:
		return Sender // Nothing is under way, so the sender's GPU gives nothing.
	}
	return Unclear
}
