// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

// FlowView is the transfer that stands still, from the sender's GPU to the receiver's, in steps.
type FlowView struct {
	Comm    string      `json:"comm"`
	CommID  string      `json:"comm_id,omitempty"` // As the label comm of series has it.
	Op      string      `json:"op"`
	Channel int         `json:"channel"`
	Total   int64       `json:"total"`         // Steps of the operation on this channel; 0 unknown.
	Stuck   float64     `json:"stuck_seconds"` // Since a step passed; -1 unknown.
	From    FlowEnd     `json:"from"`
	To      FlowEnd     `json:"to"`
	QPs     []QueuePair `json:"qps,omitempty"` // That carry it, as the sender's node shows them.
}

// FlowEnd is one end of a transfer. Steps are -1 where nobody showed them. Of the sender they are posted, GPU ready, transmitted and
// done; of the receiver posted, received, given to the GPU and consumed.
type FlowEnd struct {
	Rank  int      `json:"rank"` // -1 unknown.
	Host  string   `json:"host,omitempty"`
	GPU   string   `json:"gpu,omitempty"`
	NIC   string   `json:"nic,omitempty"`
	Steps [4]int64 `json:"steps"`
}

// QueuePair is an RDMA connection.
type QueuePair struct {
	Device      string `json:"device"`
	Num         uint32 `json:"num"`
	DestNum     uint32 `json:"dest_num,omitempty"`
	Remote      string `json:"remote,omitempty"`
	Outstanding uint64 `json:"outstanding"` // Sends posted and not known done.
	Errors      uint64 `json:"errors"`
}

// Round is one finished operation of the communicator in which a job is slow: the operations of one communicator end together, so who
// was in it for the shortest time came last, and kept the others waiting.
type Round struct {
	Comm    string  `json:"comm"`
	Op      string  `json:"op"`
	Members []Spell `json:"members"` // By rank; at most 64.
}

// Spell is one rank's share of a round.
type Spell struct {
	Rank    int     `json:"rank"`
	Before  float64 `json:"before_seconds"`  // From the end of its last operation on the communicator; -1 unknown.
	Inside  float64 `json:"inside_seconds"`  // From when the GPU came to it, where that was seen, else from enqueued.
	Network float64 `json:"network_seconds"` // Part of it with a transfer in flight; 0 not seen.
}
