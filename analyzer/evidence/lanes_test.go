// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestP2Lagging: a queue pair that lags is told of with its path and with what its port counted; one that the process does not show, and what an exporter makes up, is not.
func TestP2Lagging(t *testing.T) {
	p := nodeapi.Process{
		Rank: 4, Host: "node-2",
		Snapshot: trace.Snapshot{
			Comms: []trace.Comm{{Index: 1, Generation: 3, ID: 0xab, NRanks: 2}},
			Flows: []trace.Flow{{Index: 9, Generation: 2, Channel: 7}},
			QPs: []trace.QP{
				{Index: 0, QPNum: 1000, Device: "mlx5_0", CommIndex: 1, CommGeneration: 3, Peer: 1},
				{Index: 1, QPNum: 1001, DestQPNum: 77, Device: "mlx5_1", Port: 1, CommIndex: 1, CommGeneration: 3, FlowIndex: 9, FlowGeneration: 2, Peer: 1, Remote: "10.1.2.3"},
			},
		},
		Lagging: []trace.Lag{
			{QPIndex: 1, Kind: trace.LagStanding, Sisters: 1, StuckNS: 4.2e9},
			{QPIndex: 0, Kind: trace.LagSlow, Sisters: 3, BytesPerSecond: 1.5e9, SistersBytesPerSecond: 6e9},
			{QPIndex: 5, Kind: trace.LagSlow},
			{QPIndex: 0, Kind: "else"},
		},
	}
	of := []nodeapi.Fact{{Component: "nic", Device: "mlx5_1", Kind: "ack_timeout", Value: 3, AgeSeconds: 2, Rank: -1}, {Component: "nic", Device: "mlx5_0", Kind: "port_down", Rank: -1}}
	member := func(id rca.CommID, at int) int {
		if id == "ab/2" && at == 1 {
			return 5
		}
		return -1
	}
	want := []rca.Fact{
		{
			Host: "node-2", Rank: 4, Component: QueuePair, Device: "mlx5_1", Kind: "queue_pair_standing", Value: 4.2,
			Text: "queue pair 1001 on mlx5_1 port 1 (channel 7, to rank 5 at 10.1.2.3, queue pair 77) has completed no send for 4.2 s; its port timed out on 3 acknowledgements, the last 2s ago",
		},
		{
			Host: "node-2", Rank: 4, Component: QueuePair, Device: "mlx5_0", Kind: "queue_pair_slow", Value: 1.5e9, Expected: 6e9,
			Text: "queue pair 1000 on mlx5_0 port 0 (to rank 5) moves 1500.0 MB/s while a send is outstanding, and the 3 others to the same peer 6000.0 MB/s",
		},
	}
	got := Lagging(&p, "node-2", of, member)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v := rca.Verdict{Evidence: []string{"node-2, queue pair: " + want[0].Text}}
	Tell(&v, append(got, rca.Fact{Component: "nic", Text: "something else"}))
	if diff := cmp.Diff([]string{"node-2, queue pair: " + want[0].Text, "node-2, rank 4: " + want[1].Text}, v.Evidence); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
