// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// ring makes recordings of collectives as a ring moves them: each rank sends its own chunk, then what it gets, slice by slice,
// into buffers that its receiver has posted.
type ring struct {
	ranks, ops  int
	slices      int     // That a rank sends in an operation.
	chunk       int     // Slices that a rank sends before it needs what the one before it sends.
	window      int     // Slices that the receiver has room for.
	sliceBytes  float64 // Bytes.
	slice       float64 // Seconds that one takes on a whole link.
	compute     float64 // Seconds between operations.
	interval    float64 // Seconds between two lines.
	after       float64 // Seconds that the recording goes on.
	late        func(op, rank int) float64
	slow        func(rank int) float64 // Times as long as a slice takes.
	absent      func(op, rank int) bool
	unposted    bool            // Whoever has not come has not posted buffers.
	stops       map[int]float64 // Sends no more from this time on.
	undelivered map[int]float64 // What it sends from this time on counts and does not arrive.
	clock       map[int]float64 // A rank's clock is ahead by so much.
	header      string
	label       string
	totals      bool
}

func newRing(ranks int) *ring {
	return &ring{
		ranks: ranks, ops: 12, slices: 8 * (ranks - 1) * 4, chunk: 2, window: 8, sliceBytes: 1 << 20, slice: 40e-6, compute: 20e-3, interval: 32e-6,
		after: 5, late: func(int, int) float64 { return 0 }, slow: func(int) float64 { return 1 }, absent: func(int, int) bool { return false },
		stops: map[int]float64{}, undelivered: map[int]float64{}, clock: map[int]float64{}, header: "time_seconds,rank,peer,bytes",
	}
}

var never = math.Inf(1)

// run gives, by rank, when each slice's sending begins and ends.
func (g *ring) run() [][][2]float64 {
	sent := make([][][2]float64, g.ranks)
	ready := make([]float64, g.ranks)
	for op := range g.ops {
		begin := make([]float64, g.ranks)
		for r := range g.ranks {
			begin[r] = ready[r] + g.compute + g.late(op, r)
			if g.absent(op, r) {
				begin[r] = never
			}
		}
		from, to, arrived := grid(g.ranks, g.slices), grid(g.ranks, g.slices), grid(g.ranks, g.slices)
		for j := range g.slices {
			for r := range g.ranks {
				prev, next := (r+g.ranks-1)%g.ranks, (r+1)%g.ranks
				s := begin[r]
				if g.unposted {
					s = max(s, begin[next])
				}
				if j > 0 {
					s = max(s, to[r][j-1])
				}
				if j >= g.chunk {
					s = max(s, arrived[prev][j-g.chunk])
				}
				if k := j - g.window + g.chunk; k >= 0 && k < g.slices {
					s = max(s, to[next][k])
				}
				if at, ok := g.stops[r]; ok && s >= at {
					s = never
				}
				from[r][j], to[r][j] = s, s+g.slice*g.slow(r)
				arrived[r][j] = to[r][j]
				if at, ok := g.undelivered[r]; ok && s >= at {
					arrived[r][j] = never
				}
			}
		}
		for r := range g.ranks {
			prev := (r + g.ranks - 1) % g.ranks
			ready[r] = max(to[r][g.slices-1], arrived[prev][g.slices-1])
			for j := range g.slices {
				if !math.IsInf(to[r][j], 1) {
					sent[r] = append(sent[r], [2]float64{from[r][j], to[r][j]})
				}
			}
		}
	}
	return sent
}

func grid(n, m int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, m)
	}
	return out
}

// record writes the recording as a file has it.
func (g *ring) record() string {
	sent := g.run()
	end := 0.0
	for _, s := range sent {
		if len(s) > 0 {
			end = max(end, s[len(s)-1][1])
		}
	}
	end += g.after
	var b strings.Builder
	b.WriteString(g.header + "\n")
	for r, list := range sent {
		bytes := map[int]float64{}
		for _, s := range list {
			rate := g.sliceBytes / (s[1] - s[0])
			for at := s[0]; at < s[1]; {
				i := int(at/g.interval) + 1
				until := min(s[1], float64(i)*g.interval)
				if until <= at {
					i++
					until = min(s[1], float64(i)*g.interval)
				}
				bytes[i] += rate * (until - at)
				at = until
			}
		}
		line := func(i int, n float64) {
			fmt.Fprintf(&b, "%.6f,%d,%d,%d%s\n", float64(i)*g.interval+g.clock[r], r, (r+1)%g.ranks, int64(n), g.label)
		}
		keys := []int{}
		for i := range bytes {
			keys = append(keys, i)
		}
		slices.Sort(keys)
		total := 0.0
		line(0, 0)
		for _, i := range keys {
			total += bytes[i]
			if g.totals {
				line(i, total)
			} else {
				line(i, math.Round(bytes[i]))
			}
		}
		line(int(end/g.interval)+1, map[bool]float64{true: total}[g.totals])
	}
	return b.String()
}

func (g *ring) read(t testing.TB) *Recording {
	t.Helper()
	r, err := Read("flows.csv", []byte(g.record()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// blamed gives whom a verdict names: ranks, and links as "3->4".
func blamed(t testing.TB, g *ring) (class string, who []string) {
	t.Helper()
	v, _, _ := Analyze([]*Recording{g.read(t)})
	if v.Page || v.Confidence > 0.5 {
		t.Errorf("pages %v with confidence %v", v.Page, v.Confidence)
	}
	rcatest.CheckPair(t, &v)
	if v.Summary == "" || strings.Contains(v.Summary, "%!") {
		t.Errorf("summary %q", v.Summary)
	}
	for _, c := range v.Culprits {
		if c.Rank >= 0 {
			who = append(who, fmt.Sprint(c.Rank))
		} else {
			who = append(who, strings.TrimPrefix(c.Group, "link "))
		}
	}
	return string(v.Class), who
}

// TestP4RingsOfAllSizes: whoever is guilty is named, or an end of the link that is, or nobody.
func TestP4RingsOfAllSizes(t *testing.T) {
	type job struct {
		name  string
		spoil func(g *ring, guilty int)
		class string // Of rings of four and more.
		link  bool   // A link is named, an end of which is guilty.
	}
	middle := func(g *ring) float64 { // A time within the eighth operation.
		one := float64(g.slices)*g.slice + g.compute
		return 7*one + g.compute + 0.4*float64(g.slices)*g.slice
	}
	for _, c := range []job{
		{"late", func(g *ring, r int) {
			g.late = func(_, rank int) float64 { return map[bool]float64{true: 8e-3}[rank == r] }
		}, "slow_compute", false},
		{"late, buffers not posted", func(g *ring, r int) {
			g.unposted = true
			g.late = func(_, rank int) float64 { return map[bool]float64{true: 8e-3}[rank == r] }
		}, "slow_compute", false},
		{"late from the middle on", func(g *ring, r int) {
			g.late = func(op, rank int) float64 { return map[bool]float64{true: 8e-3}[rank == r && op > 5] }
		}, "slow_compute", false},
		{"slow link", func(g *ring, r int) {
			g.slow = func(rank int) float64 { return map[bool]float64{true: 3, false: 1}[rank == r] }
		}, "slow_comm", false},
		{"not begun", func(g *ring, r int) {
			g.absent = func(op, rank int) bool { return rank == r && op == g.ops-1 }
		}, "not_entered", false},
		{"not begun, buffers not posted", func(g *ring, r int) {
			g.unposted = true
			g.absent = func(op, rank int) bool { return rank == r && op == g.ops-1 }
		}, "not_entered", false},
		{"stops sending", func(g *ring, r int) { g.stops[r] = middle(g) }, "fault", true},
		{"not delivered", func(g *ring, r int) { g.undelivered[r] = middle(g) }, "fault", true},
		{"NIC down both ways", func(g *ring, r int) {
			g.stops[r], g.undelivered[(r+g.ranks-1)%g.ranks] = middle(g), middle(g)
		}, "", true},
	} {
		for _, n := range []int{2, 3, 4, 8} {
			for _, totals := range []bool{false, true} {
				guilty := n / 2
				t.Run(fmt.Sprintf("%s/%d/totals %v", c.name, n, totals), func(t *testing.T) {
					g := newRing(n)
					if totals {
						g.totals, g.header = true, "time_seconds,rank,peer,bytes_total"
					}
					c.spoil(g, guilty)
					class, who := blamed(t, g)
					for _, w := range who {
						if a, b, link := strings.Cut(w, "->"); a != fmt.Sprint(guilty) && (!link || b != fmt.Sprint(guilty)) {
							t.Errorf("%s accuses %v, guilty is %d", class, who, guilty)
						}
					}
					if class == "healthy" {
						t.Error("healthy")
					}
					if n >= fewestRanks && c.class != "" && (class != c.class || len(who) != 1 || strings.Contains(who[0], "->") != c.link) {
						t.Errorf("%s accuses %v, want %s of %d", class, who, c.class, guilty)
					}
				})
			}
		}
	}
}

// TestInnocentRings: what is nobody's fault, or cannot be told, accuses nobody.
func TestInnocentRings(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(g *ring)
		class string
	}{
		{"healthy", func(*ring) {}, "unknown"}, // It goes silent before the recording ends.
		{"healthy to the end", func(g *ring) { g.after = 0 }, "healthy"},
		{"ends within an operation", func(g *ring) {
			for r := range g.ranks {
				g.stops[r] = 0.2
			}
			g.after = 0.5
		}, "healthy"},
		{"all ended within an operation", func(g *ring) {
			for r := range g.ranks {
				g.stops[r] = 0.1995
			}
		}, "unknown"},
		{"uneven data", func(g *ring) {
			rnd := rand.New(rand.NewPCG(1, 2))
			g.after, g.ops = 0, 40
			g.late = func(int, int) float64 { return 10e-3 * rnd.Float64() }
		}, ""},
		{"now and then late", func(g *ring) {
			g.after = 0
			g.late = func(op, r int) float64 { return map[bool]float64{true: 10e-3}[op == 5 && r == 3] }
		}, "healthy"},
		{"a clock that is far ahead", func(g *ring) { g.clock[2] = 0.015 }, "unknown"},
		{"too coarse", func(g *ring) {
			g.after, g.interval = 0, 1e-3
			g.slow = func(r int) float64 { return map[bool]float64{true: 1.6, false: 1}[r == 3] }
		}, "unknown"},
		{"two late by turns", func(g *ring) {
			g.after = 0
			g.late = func(op, r int) float64 { return map[bool]float64{true: 8e-3}[r == 2+3*(op%2)] }
		}, "unknown"},
		{"a slow host of three", func(g *ring) {
			g.after = 0
			g.late = func(_, r int) float64 { return map[bool]float64{true: 8e-3}[r >= 2 && r <= 4] }
		}, "unknown"},
		{"hardly any operations", func(g *ring) { g.ops, g.after = 2, 0 }, "unknown"},
		{"two have not begun", func(g *ring) {
			g.absent = func(op, r int) bool { return op == g.ops-1 && (r == 1 || r == 5) }
		}, "unknown"},
		{"no peers", func(g *ring) {
			g.late = func(_, r int) float64 { return map[bool]float64{true: 8e-3}[r == 3] }
			g.header = "time_seconds,rank,unused,bytes,peer"
			g.label = ","
		}, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRing(8)
			c.spoil(g)
			if class, who := blamed(t, g); len(who) > 0 || c.class != "" && class != c.class {
				t.Errorf("%s accuses %v, want %s", class, who, c.class)
			}
		})
	}
}

// TestP3StatedOperation: where the library's operation is stated, even the first that stands is known not to have ended.
func TestP3StatedOperation(t *testing.T) {
	for _, stated := range []bool{false, true} {
		g := newRing(4)
		g.ops = 1
		g.stops[2] = g.compute + 0.4*float64(g.slices)*g.slice
		if stated {
			g.header += ",operation,size_bytes,group"
			// A ring AllReduce sends twice the buffer, but for a rank's own part, each way.
			g.label = fmt.Sprintf(",all_reduce,%d,dp", int64(g.sliceBytes)*int64(g.slices)*4/6)
		}
		rec := g.read(t)
		tab := newTable([]*Recording{rec})
		if s := tab.streams[0]; s.stated != stated || stated && s.expected != int64(g.sliceBytes)*int64(g.slices) {
			t.Errorf("stated %v: volume %d, stated %v", stated, s.expected, s.stated)
		}
		v, _, _ := Analyze([]*Recording{rec})
		if named := len(v.Culprits) == 1 && v.Culprits[0].Group == "link 1->2"; named != stated {
			t.Errorf("stated %v: %s %+v: %s", stated, v.Class, v.Culprits, v.Summary)
		}
		if stated && !strings.Contains(v.Comm, "dp") {
			t.Errorf("group %q", v.Comm)
		}
	}
}

// TestBlackoutOfARecorder: a rank whose recording ends early may be at fault, or its recorder alone.
func TestBlackoutOfARecorder(t *testing.T) {
	g := newRing(6)
	g.absent = func(op, r int) bool { return op == g.ops-1 && r == 2 }
	var kept []string
	for line := range strings.SplitSeq(g.record(), "\n") {
		f := strings.Split(line, ",")
		if len(f) > 1 && f[1] == "2" {
			if at, err := time.ParseDuration(f[0] + "s"); err == nil && at > time.Second {
				continue
			}
		}
		kept = append(kept, line)
	}
	r, err := Read("x", []byte(strings.Join(kept, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := Analyze([]*Recording{r}); len(v.Culprits) > 0 || v.Class != "unknown" || !strings.Contains(v.Summary, "ank 2 has no lines") {
		t.Errorf("%s %+v: %s", v.Class, v.Culprits, v.Summary)
	}
}
