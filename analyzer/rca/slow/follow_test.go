// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/job"
)

// TestEndSeenLate: what waits for a long operation may begin before its end is seen. It follows that operation however short it is
// itself, so that the wait is not taken for its rank's own work. What begins well before the end runs beside it.
func TestEndSeenLate(t *testing.T) {
	const wait = 20 * time.Millisecond
	for _, c := range []struct {
		name    string
		early   time.Duration // Before the end of the operation waited in.
		lasts   time.Duration
		follows bool
	}{
		{"after the end", -5 * time.Microsecond, 250 * time.Microsecond, true},
		{"29 us before it, and short", 29 * time.Microsecond, 250 * time.Microsecond, true},
		{"over before the end is seen", 36 * time.Microsecond, 14 * time.Microsecond, true},
		{"half a millisecond before it", 500 * time.Microsecond, time.Millisecond, false},
		{"long before it", 10 * time.Millisecond, time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			op := func(fn string, number int64, enter, end time.Duration) rca.Segment {
				return rca.Segment{
					Rank: 0, Kind: rca.SegmentOp, Iteration: -1, Comm: rca.CommID(fn), Func: fn, Peer: -1, Number: number,
					Start: int64(time.Second), Entered: int64(time.Second + enter), End: int64(time.Second + end),
				}
			}
			ev := rca.Evidence{JobID: "job", WorldSize: 1, Ranks: []rca.Rank{{ID: 0, Host: "node0", State: rca.ProcessRunning}}}
			first, waits := op("AllGather", 1, time.Millisecond, 2*time.Millisecond), op("AllReduce", 1, 12*time.Millisecond, 12*time.Millisecond+wait)
			at := 12*time.Millisecond + wait - c.early
			next := op("ReduceScatter", 1, at, at+c.lasts)
			tl := newTimeline(job.NewIndex(&ev, rca.Options{}.WithDefaults()), []rca.Segment{first, waits, next})
			var before string
			for i := range tl.segs {
				if s := &tl.segs[i]; s.record.Func == next.Func && s.pred >= 0 {
					before = tl.segs[s.pred].record.Func
				}
			}
			if want := pick(c.follows, waits.Func, first.Func); before != want {
				t.Errorf("it follows %q, want %q", before, want)
			}
		})
	}
}

// TestMadeUpTimes: what comes before what costs time by the number of operations alone, whatever times and groups a process claims.
func TestMadeUpTimes(t *testing.T) {
	for name, claim := range map[string]func(i, n int, s *rca.Segment){
		"all at one moment": func(_, _ int, _ *rca.Segment) {},
		"all in one group": func(i, n int, s *rca.Segment) {
			s.Start, s.End, s.Number, s.GroupOrdinal = s.Start+int64(i), s.End+int64(i), int64(n+i), int64(1+i)
		},
		"groups in turn":           func(i, n int, s *rca.Segment) { s.Number, s.GroupOrdinal = int64(n+i/2+i%2*n), int64(1+i/2) },
		"ends within an overlap":   func(i, _ int, s *rca.Segment) { s.End += int64(i) },
		"each one inside the last": func(i, n int, s *rca.Segment) { s.Start, s.End = s.Start+int64(i), s.End+int64(2*n-i) },
	} {
		t.Run(name, func(t *testing.T) {
			spent := func(n int) time.Duration {
				tl := make([]rca.Segment, n)
				for i := range tl {
					tl[i] = rca.Segment{Kind: rca.SegmentOp, Iteration: -1, Comm: "c", Func: "Send", Peer: 1, Number: int64(i), Start: int64(time.Second), End: int64(time.Second + time.Microsecond)}
					claim(i, n, &tl[i])
				}
				ev := rca.Evidence{WorldSize: 2, Comms: []rca.Comm{{ID: "c", Size: 2, Members: []int{0, 1}}}, Ranks: []rca.Rank{{ID: 0, Caps: rca.SeesKernels}}}
				x := job.NewIndex(&ev, rca.Options{}.WithDefaults())
				var before, after unix.Rusage
				if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
					t.Fatal(err)
				}
				newTimeline(x, tl)
				if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
					t.Fatal(err)
				}
				return time.Duration(after.Utime.Nano() - before.Utime.Nano())
			}
			const few, times, most = 2000, 16, 64 // What grows with the square takes 256 times as long.
			if small, large := spent(few), spent(times*few); large > most*max(small, 4*time.Millisecond) {
				t.Errorf("%d operations take %v, %d take %v", few, small, times*few, large)
			}
		})
	}
}
