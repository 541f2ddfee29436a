// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestLateCallInsideAHost: two hosts of four ranks. Inside each they wait for each other in operations that nothing records, and between the
// hosts they exchange what does. From the eleventh iteration on one rank's data comes late, so that it calls late, and nobody's GPU on its
// host comes to the recorded operations before: that all of them take longer is no proof that all compute.
func TestLateCallInsideAHost(t *testing.T) {
	const ranks, hosts, late, iterations, onset = 8, 2, 2, 40, 10
	perHost := ranks / hosts
	ms := func(x float64) int64 { return int64(x * float64(time.Millisecond)) }
	ev := rca.Evidence{JobID: "late", WorldSize: ranks}
	for r := range ranks {
		ev.Ranks = append(ev.Ranks, rca.Rank{
			ID: r, Host: fmt.Sprintf("node%d", r/perHost), GPU: fmt.Sprint(r % perHost), State: rca.ProcessRunning,
			Caps: rca.SeesCalls | rca.SeesSteps | rca.SeesCompletion,
		})
	}
	for i := range perHost {
		ev.Comms = append(ev.Comms, rca.Comm{ID: rca.CommID(fmt.Sprint("dp_", i)), Size: hosts, Members: []int{i, i + perHost}})
	}
	noise := rand.New(rand.NewPCG(1, 2))
	jitter := func() float64 { return 2 * noise.Float64() }
	now := 1000.0 // ms.
	for it := range iterations {
		called := make([]float64, ranks)
		for r := range ranks {
			if called[r] = now + 20 + jitter(); r == late && it >= onset {
				called[r] += 400
			}
		}
		for op := range 2 {
			begun := now + 70 + 60*float64(op) // The unrecorded operation inside a host ends.
			if it >= onset {
				begun += 400
			}
			for r := range ranks {
				entered := now + 70 + 60*float64(op) + jitter()
				if r/perHost == late/perHost {
					entered = begun + jitter()
				}
				ev.Timeline = append(ev.Timeline, rca.Segment{
					Rank: r, Kind: rca.SegmentOp, Iteration: -1, Comm: ev.Comms[r%perHost].ID, Number: int64(2*it + op), Seq: int64(2*it + op), Func: "AllReduce", Peer: -1,
					Bytes: 1 << 20, Start: ms(called[r] + 0.02*float64(op)), Entered: ms(entered), End: ms(begun + 10), Stage: -1, DataRank: -1, Layer: -1, Microbatch: -1,
				})
			}
		}
		if now += 150; it >= onset {
			now += 400
		}
	}
	v := verdictOf(ev, rca.Options{})
	if v.Class != rca.SlowCompute || v.Cause != rca.CauseCPU || len(v.Culprits) != 1 || v.Culprits[0].Rank != late {
		t.Errorf("%s, %s, %v: %s", v.Class, v.Cause, v.Culprits, v.Summary)
	}
}
