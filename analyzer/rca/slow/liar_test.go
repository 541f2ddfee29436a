// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// lie changes what a process says of one operation that it has finished; it is on its own in what it says of all of them.
type lie func(rng *rand.Rand) func(s *rca.Segment)

// each makes a lie that is the same of every operation.
func each(tell func(s *rca.Segment)) lie {
	return func(*rand.Rand) func(*rca.Segment) { return tell }
}

// lies are what a process can say of the past that is not so: it writes its own trace file.
var lies = map[string]lie{
	"it waits longer": func(rng *rand.Rand) func(*rca.Segment) {
		d := time.Duration(1+rng.IntN(200)) * time.Millisecond
		return func(s *rca.Segment) { s.Start, s.Entered = s.Start-int64(d), s.Entered-int64(d) }
	},
	"it never waits":                      each(func(s *rca.Segment) { s.Start, s.Entered = s.End-1000, s.End-1000 }),
	"it enters early and its kernel late": each(func(s *rca.Segment) { s.Entered = s.End - 1000 }),
	"its operations take an instant":      each(func(s *rca.Segment) { s.End = s.Start + 1000; s.Entered = s.Start }),
	"its operations end late": func(rng *rand.Rand) func(*rca.Segment) {
		d := time.Duration(1+rng.IntN(100)) * time.Millisecond
		return func(s *rca.Segment) { s.End += int64(d) }
	},
	"its times are drawn": func(rng *rand.Rand) func(*rca.Segment) {
		return func(s *rca.Segment) {
			s.Start -= rng.Int64N(int64(100 * time.Millisecond))
			s.Entered = s.Start + rng.Int64N(max(1, s.End-s.Start))
		}
	},
	"its clock jumps": func(rng *rand.Rand) func(*rca.Segment) {
		at, by := 1e15+rng.Int64N(int64(5*time.Second)), rng.Int64N(int64(10*time.Second))-int64(5*time.Second)
		return func(s *rca.Segment) {
			if s.Start > at {
				s.Start, s.Entered, s.End = s.Start+by, s.Entered+by, s.End+by
			}
		}
	},
	"its sends take ages":           each(func(s *rca.Segment) { s.Steps, s.SendWait = 100, [3]time.Duration{0, 0, 5 * time.Second} }),
	"its receivers are never ready": each(func(s *rca.Segment) { s.Steps, s.SendWait = 100, [3]time.Duration{0, 5 * time.Second, 0} }),
	"nothing comes from others":     each(func(s *rca.Segment) { s.Steps, s.RecvWait = 100, [3]time.Duration{5 * time.Second, 0, 0} }),
	"another is the slowest": func(rng *rand.Rand) func(*rca.Segment) {
		other := rng.IntN(4)
		return func(s *rca.Segment) {
			s.SlowestPeer, s.SlowestTime, s.FastestTime = other, 5*time.Second, time.Microsecond
			s.SendPeer, s.RecvPeer, s.SendFlows, s.RecvFlows = other, other, 1, 1
			s.SendActive, s.RecvActive, s.SendBytes, s.RecvBytes = 5*time.Second, 5*time.Second, 1<<20, 1<<20
		}
	},
	"other operations": each(func(s *rca.Segment) { s.Func, s.Bytes = "Broadcast", 77 }),
	"other numbers":    each(func(s *rca.Segment) { s.Number, s.Seq = s.Number+5, s.Seq+5 }),
	"other peers": func(rng *rand.Rand) func(*rca.Segment) {
		return func(s *rca.Segment) {
			if s.Peer >= 0 {
				s.Peer = rng.IntN(8)
			}
		}
	},
}

// slowDraw is a job with at most one fault, and the ranks that have it.
func slowDraw(rng *rand.Rand) (j *rcatest.SlowJob, guilty []int) {
	shapes := [][3]int{{4, 2, 2}, {8, 1, 1}, {4, 1, 2}, {2, 4, 1}, {2, 2, 2}}
	shape := shapes[rng.IntN(len(shapes))]
	j = rcatest.NewSlowJob(shape[0], shape[1], shape[2])
	j.Iters, j.Rng = 16, rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	rank := rng.IntN(j.World())
	switch onset := rng.IntN(2) * 8; rng.IntN(4) {
	case 0: // Healthy.
		return j, nil
	case 1:
		by := 1.3 + rng.Float64()
		j.Compute = func(r, it int) float64 { return pick(r == rank && it >= onset, by, 1.0) }
	case 2:
		by := time.Duration(100+rng.IntN(300)) * time.Millisecond
		j.Host = func(r, it int) time.Duration { return pick(r == rank && it >= onset, by, 0) }
	default:
		by := 3 + 3*rng.Float64()
		j.Send = func(r, it int) float64 { return pick(r == rank && it >= onset, by, 1.0) }
	}
	return j, []int{rank}
}

// TestRandomSlowJobsOneProcessLies: whatever one process of a job says of the operations that it has finished, nobody is paged but who
// slows the job down and the liar.
func TestRandomSlowJobsOneProcessLies(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 8))
			named, faulty := 0, 0
			jobs := rcatest.Draws(40)
			for n := range jobs {
				j, may := slowDraw(rng)
				ev := j.Evidence()
				liar, tell := rng.IntN(j.World()), lie(rng)
				for i := range ev.Timeline {
					if s := &ev.Timeline[i]; s.Rank == liar {
						tell(s)
					}
				}
				v := verdictOf(ev, rca.Options{})
				accused := rcatest.Accused(v)
				if len(may) > 0 {
					faulty++
					if slices.Contains(accused, may[0]) {
						named++
					}
				}
				may = append(may, liar)
				for _, r := range accused {
					if !slices.Contains(may, r) && v.Page {
						t.Errorf("job %d: %v may be named, %d lies: innocent %d is paged (%s, %s, %g)\n%s", n, may, liar, r, v.Class, v.Cause, v.Confidence, v.Summary)
					}
				}
			}
			t.Logf("named beside a liar: %d of %d", named, faulty)
		})
	}
}

// TestContradictedRecordsAreLeftOut: whose records nobody confirms is said, is not named, and does not hide who is slow.
func TestContradictedRecordsAreLeftOut(t *testing.T) {
	j := rcatest.NewSlowJob(4, 2, 2)
	j.Compute = rcatest.One(5, 1.5)
	ev := j.Evidence()
	for i := range ev.Timeline {
		if s := &ev.Timeline[i]; s.Rank == 9 {
			s.Func = "Broadcast"
		}
	}
	v := verdictOf(ev, rca.Options{})
	slowWant{rca.SlowCompute, rca.CauseGPU, []int{5}, ""}.check(t, v)
	if !slices.ContainsFunc(v.Missing, func(m string) bool { return strings.HasPrefix(m, "rank 9 ") }) {
		t.Errorf("rank 9's records are missing from what is said to be missing: %q", v.Missing)
	}
}

// TestLostRecordsContradictNobody: what one host has lost does not make it a liar.
func TestLostRecordsContradictNobody(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	ev := rcatest.NewSlowJob(4, 2, 2).Evidence()
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Rank/2 == 2 && rng.IntN(3) == 0 })
	if a := analysisOf(&ev); len(a.doubted) > 0 {
		t.Errorf("of nodes %v nothing is believed", a.doubted)
	}
}

// TestShortHistoryContradictsNobody: a rank of which less is kept does not deny what others did before.
func TestShortHistoryContradictsNobody(t *testing.T) {
	j := rcatest.NewSlowJob(2, 4, 1)
	ev := j.Evidence()
	latest := slices.MaxFunc(ev.Timeline, func(a, b rca.Segment) int { return int(a.End - b.End) }).End
	ev.Timeline = slices.DeleteFunc(ev.Timeline, func(s rca.Segment) bool { return s.Rank == 3 && s.End < latest-int64(time.Second) })
	if a := analysisOf(&ev); len(a.doubted) > 0 {
		t.Errorf("of nodes %v nothing is believed", a.doubted)
	}
}
