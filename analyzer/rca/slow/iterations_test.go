// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"slices"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// pairs is a job of four ranks, of which two and two exchange gradients in each step. Of the operations of all of them only ranks 0 and 2 show
// anything, one in each step and another one in every tenth: the others are connected to them within their hosts.
func pairs(steps int, step func(k int) time.Duration) (rca.Evidence, []rca.Segment) {
	ev := rca.Evidence{JobID: "job", WorldSize: 4}
	for r := range 4 {
		ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Host: []string{"node0", "node1"}[r/2], State: rca.ProcessRunning})
	}
	var tl []rca.Segment
	at, reports := time.Second, int64(0)
	for k := range steps {
		end := at + step(k)
		for r := range 4 {
			op := func(comm string, bytes, number int64, from, to time.Duration) {
				tl = append(tl, rca.Segment{
					Rank: r, Kind: rca.SegmentOp, Iteration: -1, Comm: rca.CommID(comm), Func: "AllReduce", Peer: -1, Number: number, Bytes: bytes,
					Start: int64(from), End: int64(to),
				})
			}
			op([]string{"even", "odd"}[r%2], 262144, int64(k), at, end-2*time.Millisecond)
			tl[len(tl)-1].Entered = int64(end - 4*time.Millisecond)
			if r%2 == 1 {
				continue
			}
			if k%10 == 9 {
				op("all", 4, int64(k)+reports, at+100*time.Microsecond, end-1*time.Millisecond)
			}
			op("all", 8, int64(k)+reports+int64(k%10/9), at+200*time.Microsecond, end-500*time.Microsecond)
		}
		if k%10 == 9 {
			reports++
		}
		at = end
	}
	return ev, tl
}

// TestIterationsOfAll: iterations are of the whole job. What some ranks are seen to do in every tenth step does not cut theirs into longer ones
// than the others', so that the step at which the job became slower is the same for all.
func TestIterationsOfAll(t *testing.T) {
	const steps, slowFrom = 200, 150
	ev, tl := pairs(steps, func(k int) time.Duration { return pick(k >= slowFrom, 120*time.Millisecond, 40*time.Millisecond) })
	h := repaired(newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), tl))
	if h.whole.iters < steps-1 || h.whole.iters > steps {
		t.Errorf("%d iterations in %d steps", h.whole.iters, steps)
	}
	if h.past == nil || h.past.iters < slowFrom-2 || h.past.iters > slowFrom+2 || h.onset < 2.5 {
		t.Errorf("became slower by %.2f, past %v", h.onset, h.past != nil)
	}
	for k, length := range h.series {
		if length > int64(pick(k >= slowFrom-2, 150*time.Millisecond, 60*time.Millisecond)) {
			t.Errorf("iteration %d takes %v", k, time.Duration(length))
		}
	}
}

// TestPartlyUnrecorded: where some ranks have no records of operations in which others have, the replay does not know who waits for them.
func TestPartlyUnrecorded(t *testing.T) {
	ev, tl := pairs(20, func(int) time.Duration { return 40 * time.Millisecond })
	for _, callers := range [][]int{{0, 2}, {0, 1, 2, 3}} { // Of the operations of all, which 0 and 2 record.
		for r := range ev.Ranks {
			ev.Ranks[r].Memberships = []rca.Membership{{Comm: []rca.CommID{"even", "odd"}[r%2], CommRank: r / 2, Called: 20}}
			if slices.Contains(callers, r) {
				ev.Ranks[r].Memberships = append(ev.Ranks[r].Memberships, rca.Membership{Comm: "all", CommRank: r, Called: 22})
			}
		}
		h := repaired(newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), tl))
		if seen := newAnalysis(h).seenWhole(); seen != (len(callers) == 2) {
			t.Errorf("called by %v, seen whole: %v", callers, seen)
		}
	}
}

// TestSmallExchanges: members of a small group that exchange have no more partners than the stages of a pipeline. Each of their calls sends
// and receives, so they have one role; a pipeline's stages have their own.
func TestSmallExchanges(t *testing.T) {
	type call []rca.Segment
	send := func(to int) rca.Segment { return rca.Segment{Func: "Send", Peer: to} }
	recv := func(from int) rca.Segment { return rca.Segment{Func: "Recv", Peer: from} }
	for _, c := range []struct {
		name     string
		size     int
		calls    func(rank int) []call // In each iteration.
		alone    bool                  // The source does not tell what was called together.
		exchange bool
	}{
		{"pair", 2, func(r int) []call { return []call{{send(1 - r), recv(1 - r)}, {send(1 - r), recv(1 - r)}} }, false, true},
		{"ring of three", 3, func(r int) []call { return []call{{send((r + 1) % 3), recv((r + 2) % 3)}} }, false, true},
		{"pair, calls not told", 2, func(r int) []call { return []call{{send(1 - r), recv(1 - r)}} }, true, false},
		{"two stages", 2, func(r int) []call {
			if r == 0 {
				return []call{{send(1)}, {send(1), recv(1)}, {recv(1)}}
			}
			return []call{{recv(0)}, {send(0), recv(0)}, {send(0)}}
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := rca.Evidence{WorldSize: c.size, Comms: []rca.Comm{{ID: "c", Size: c.size}}}
			for r := range c.size {
				ev.Ranks = append(ev.Ranks, rca.Rank{ID: r, Caps: rca.SeesKernels})
				ev.Comms[0].Members = append(ev.Comms[0].Members, r)
				at, number := int64(time.Second), int64(0)
				for range 20 {
					for _, ops := range c.calls(r) {
						at += int64(10 * time.Millisecond)
						for i, s := range ops {
							s.Rank, s.Kind, s.Comm, s.Iteration, s.Stage, s.Bytes = r, rca.SegmentOp, "c", -1, -1, 1<<20
							s.Start, s.Entered, s.End, s.Number = at, at+1000, at+int64(time.Millisecond), number
							if !c.alone {
								s.GroupOrdinal = int64(i + 1)
							}
							number++
							ev.Timeline = append(ev.Timeline, s)
						}
					}
				}
			}
			tl := timelineOf(&ev)
			if roles := pick(c.exchange, 1, c.size); tl.exchange[0] != c.exchange || tl.roles != roles {
				t.Errorf("exchange %v, %d roles; want %v, %d", tl.exchange[0], tl.roles, c.exchange, roles)
			}
		})
	}
}
