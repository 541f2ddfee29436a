// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestMixture: two explanations of the same ranks are a mixture (S3) when it takes both to account for what the job became slower by. On
// NCCL 2.30.7 a slow link alone seemed to be a slow computation, too: the ends of the link begin their next work as late as it makes them.
func TestMixture(t *testing.T) {
	for _, c := range []struct {
		name          string
		onset         float64 // 0: the job has no past.
		sends, others float64 // What the removal of each gains.
		want          rca.Class
	}{
		{"each accounts for all of it", 9.3, 9.3, 9.3, rca.SlowComm},
		{"one accounts for most of it", 2, 1.8, 1.7, rca.SlowComm},
		{"it takes both", 2, 1.5, 1.5, rca.SlowMixed},
		{"it takes both, in a job without a past", 0, 1.5, 1.5, rca.SlowMixed},
		{"one is much larger, in a job without a past", 0, 2, 1.2, rca.SlowComm},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := rca.Evidence{JobID: "mixed", WorldSize: 1, Ranks: []rca.Rank{{ID: 0, Host: "node0", State: rca.ProcessRunning}}}
			a := unseenWork(&ev)
			if a.onset = c.onset; c.onset > 0 {
				a.past = a.now
			}
			got := a.choose([]finding{
				{class: rca.SlowComm, cause: rca.CauseNetworkSend, nodes: []int32{0}, gain: c.sends, weight: 0.9},
				{class: rca.SlowCompute, cause: rca.CauseGPU, nodes: []int32{0}, gain: c.others, weight: 0.85},
			})
			if got.class != c.want {
				t.Errorf("%s, want %s", got.class, c.want)
			}
		})
	}
}
