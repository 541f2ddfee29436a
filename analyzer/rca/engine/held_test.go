// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// TestHeldInUnseenExchange: two ranks of a host exchange over shared memory, whose end nothing shows, and then call a send whose kernel does
// not start. One of their GPUs may have stopped in the exchange and hold the other there, so that neither is named. What a rank sends to
// itself holds nobody.
func TestHeldInUnseenExchange(t *testing.T) {
	for _, c := range []struct {
		name string
		peer func(r int) int // In the exchange.
		want []int
	}{
		{"with each other", func(r int) int { return 1 - r }, nil},
		{"with themselves", func(r int) int { return r }, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newHungJob(4).comm("ep", 0, 1).comm("pp_0", 0, 2).comm("pp_1", 1, 3)
			j.rank(1).Host = j.rank(0).Host
			for r := range 2 {
				m := j.on(r, "ep")
				m.KernelUntrusted = true
				m.Recent = append(m.Recent, rca.Op{
					Number: 99, Seq: 24, Func: "Send", Peer: c.peer(r), State: rca.OpLeft, Age: 7 * time.Second, KernelStarted: -1, NoCompletion: true,
				})
				pp := []string{"pp_0", "pp_1"}[r]
				j.in(pp, "Send", []int{r}, func(_ int, o *rca.Op) { o.State, o.Peer, o.Seq, o.KernelStarted = rca.OpEnqueued, 1, 40, 0 })
				j.in(pp, "Recv", []int{r + 2}, func(_ int, o *rca.Op) { o.Peer, o.Seq = 0, 40 }, flows(map[int][]rca.Flow{r + 2: {recv(0, 2, 0, 0, 0)}}))
			}
			v := j.verdict()
			if got := rcatest.Accused(v); !slices.Equal(got, c.want) {
				t.Errorf("%s/%s accuses %v, want %v: %s", v.Class, v.Cause, got, c.want, v.Summary)
			}
		})
	}
}
