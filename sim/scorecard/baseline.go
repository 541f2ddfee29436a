// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Guess is what a baseline says, judged as the engine is: by the first rank it names.
type Guess struct {
	Rank  int  `json:"rank"` // -1 nobody.
	Right bool `json:"right"`
	False bool `json:"false_accusation"`
}

// Baselines are the simple methods that see the same evidence at the same moment. They are written from the papers'
// rules, without anything that the engine adds.
var baselineNames = []string{"ccl-d", "mycroft", "last arriver", "ras", "3-sigma"}

func baselines(ev *rca.Evidence, a *cluster.Answer, effect bool) map[string]Guess {
	b := newBench(ev)
	said := map[string]int{}
	if b.stuck != "" {
		said["ccl-d"], said["mycroft"], said["last arriver"] = b.ccldHang(), b.mycroftFailure(), b.lastArriverHang()
		said["3-sigma"] = -1
	} else {
		said["ccl-d"], said["mycroft"], said["last arriver"] = b.ccldSlow(), b.mycroftStraggler(), b.lastArriverSlow()
		said["3-sigma"] = b.threeSigma()
	}
	said["ras"] = b.ras()
	out := map[string]Guess{}
	for name, rank := range said {
		g := Guess{Rank: rank}
		guilty := false
		if effect {
			for _, t := range a.Truths {
				guilty = guilty || slices.Contains(t.Ranks, rank)
			}
		}
		nobody := !effect || !slices.ContainsFunc(a.Truths, func(t cluster.Truth) bool { return len(t.Ranks) > 0 })
		g.Right = guilty || (nobody && rank < 0)
		g.False = rank >= 0 && !guilty
		out[name] = g
	}
	return out
}

// bench is the evidence arranged for the baselines.
type bench struct {
	ev     *rca.Evidence
	member map[rca.CommID][]memberView
	stuck  rca.CommID // Communicator with the longest-stuck operation; empty: nobody is stuck.
}

type memberView struct {
	rank int
	m    *rca.Membership
}

const baselineHang = 3 * time.Second

func newBench(ev *rca.Evidence) *bench {
	b := &bench{ev: ev, member: map[rca.CommID][]memberView{}}
	var longest time.Duration
	for i := range ev.Ranks {
		for j := range ev.Ranks[i].Memberships {
			m := &ev.Ranks[i].Memberships[j]
			b.member[m.Comm] = append(b.member[m.Comm], memberView{ev.Ranks[i].ID, m})
			for k := range m.InFlight {
				o := &m.InFlight[k]
				if entered(o) && o.Stuck > baselineHang && (o.Stuck > longest || (o.Stuck == longest && m.Comm < b.stuck)) {
					longest, b.stuck = o.Stuck, m.Comm
				}
			}
		}
	}
	return b
}

func entered(o *rca.Op) bool { return o.State == rca.OpEntered || o.State == rca.OpMoving }

// done is the number of network steps that a rank has sent and received of its operations in flight.
func done(m *rca.Membership) (steps int64) {
	for i := range m.InFlight {
		for _, f := range m.InFlight[i].Flows {
			steps += f.Done
		}
	}
	return steps
}

// least gives the rank with the smallest value, -1 when all have the same.
func least(views []memberView, value func(*rca.Membership) int64) int {
	if len(views) == 0 {
		return -1
	}
	low, high, rank := int64(math.MaxInt64), int64(math.MinInt64), -1
	for _, v := range views {
		n := value(v.m)
		if n < low {
			low, rank = n, v.rank
		}
		high = max(high, n)
	}
	if low == high {
		return -1
	}
	return rank
}

// ccldHang is CCL-D's tree for hangs: not entered (operation counter), inconsistent (type sets), else fewest Send and Recv.
func (b *bench) ccldHang() int {
	views := b.member[b.stuck]
	if r := least(views, func(m *rca.Membership) int64 { return m.Called }); r >= 0 {
		return r
	}
	count := map[string]int{}
	head := func(m *rca.Membership) string {
		if len(m.InFlight) == 0 {
			return "none"
		}
		o := &m.InFlight[0]
		return o.Func + "/" + o.Datatype + "/" + time.Duration(o.Bytes).String()
	}
	for _, v := range views {
		count[head(v.m)]++
	}
	if len(count) > 1 {
		rare, rank := math.MaxInt, -1
		for _, v := range views {
			if n := count[head(v.m)]; n < rare {
				rare, rank = n, v.rank
			}
		}
		return rank
	}
	return least(views, done)
}

// mycroftFailure is Algorithm 2 for failures: lowest operation sequence in the group, else least data.
func (b *bench) mycroftFailure() int {
	views := b.member[b.stuck]
	if r := least(views, func(m *rca.Membership) int64 { return m.Completed }); r >= 0 {
		return r
	}
	return least(views, done)
}

// lastArriverHang names the first rank of the stuck communicator that has not entered its operation.
func (b *bench) lastArriverHang() int {
	for _, v := range b.member[b.stuck] {
		if !slices.ContainsFunc(v.m.InFlight, func(o rca.Op) bool { return entered(&o) }) {
			return v.rank
		}
	}
	return -1
}

// ras is NCCL RAS's view: processes that do not answer, and lower counts of launched operations.
func (b *bench) ras() int {
	for i := range b.ev.Ranks {
		if b.ev.Ranks[i].State == rca.ProcessGone {
			return b.ev.Ranks[i].ID
		}
	}
	for _, m := range b.ev.Missing {
		if len(m.Ranks) > 0 {
			return m.Ranks[0]
		}
	}
	best, behind := -1, int64(0)
	for _, id := range b.comms() {
		views := b.member[id]
		high := int64(0)
		for _, v := range views {
			high = max(high, v.m.Called)
		}
		for _, v := range views {
			if d := high - v.m.Called; d > behind && b.collectiveOnly(views) {
				best, behind = v.rank, d
			}
		}
	}
	if behind < 1 || b.stuck == "" {
		return -1
	}
	return best
}

// collectiveOnly tells that a communicator does no send and receive, whose counts differ legitimately.
func (b *bench) collectiveOnly(views []memberView) bool {
	for _, v := range views {
		if v.m.FuncCalled["Send"] > 0 || v.m.FuncCalled["Recv"] > 0 {
			return false
		}
	}
	return true
}

func (b *bench) comms() []rca.CommID {
	out := make([]rca.CommID, 0, len(b.member))
	for id := range b.member {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// round is one collective seen at its members.
type round struct {
	comm   rca.CommID
	number int64
	parts  []*rca.Segment
}

// rounds groups the timeline's collectives by communicator and number, those seen at every member.
func (b *bench) rounds() map[rca.CommID][]*round {
	type key struct {
		comm rca.CommID
		n    int64
	}
	all := map[key]*round{}
	for i := range b.ev.Timeline {
		s := &b.ev.Timeline[i]
		if s.Kind != rca.SegmentOp || s.Peer >= 0 || s.Bytes <= 16 {
			continue
		}
		k := key{s.Comm, s.Number}
		r := all[k]
		if r == nil {
			r = &round{comm: s.Comm, number: s.Number}
			all[k] = r
		}
		r.parts = append(r.parts, s)
	}
	out := map[rca.CommID][]*round{}
	for _, r := range all {
		if len(r.parts) == len(b.member[r.comm]) && len(r.parts) > 1 {
			out[r.comm] = append(out[r.comm], r)
		}
	}
	for _, rs := range out {
		slices.SortFunc(rs, func(x, y *round) int { return cmp.Compare(x.number, y.number) })
	}
	return out
}

func stay(s *rca.Segment) float64 {
	if s.Entered > 0 {
		return float64(s.End - s.Entered)
	}
	return float64(s.End - s.Start)
}

// extremes of a round: the longest and the shortest stay and the rank of the shortest.
func (r *round) extremes() (longest, shortest float64, rank int) {
	shortest, rank = math.Inf(1), -1
	for _, p := range r.parts {
		d := stay(p)
		longest = max(longest, d)
		if d < shortest {
			shortest, rank = d, p.Rank
		}
	}
	return longest, shortest, rank
}

// ccldSlow is CCL-D's rule for slowness on the communicator with the largest R: P tells computation from communication.
func (b *bench) ccldSlow() int {
	const theta, alpha, beta = 3, 0.4, 0.6
	best, rank := float64(theta), -1
	rounds := b.rounds()
	for _, id := range b.comms() {
		rs := rounds[id]
		if len(rs) < 4 {
			continue
		}
		base := 0.0
		first := rs[:max(2, len(rs)/4)]
		for _, r := range first {
			l, _, _ := r.extremes()
			base += l / float64(len(first))
		}
		var widest *round
		spread := -1.0
		for _, r := range rs[len(rs)/2:] {
			if l, s, _ := r.extremes(); l-s > spread {
				spread, widest = l-s, r
			}
		}
		tmax, tmin, quickest := widest.extremes()
		ratio := (tmax - base) / base
		if ratio <= best {
			continue
		}
		best = ratio
		rank = quickest
		if p := (tmax - tmin) / (tmax - base); p < alpha {
			rank = widest.slowestRate()
		}
	}
	return rank
}

// slowestRate names the rank with the longest active time for its steps.
func (r *round) slowestRate() int {
	worst, rank := 0.0, -1
	for _, p := range r.parts {
		if p.Steps > 0 {
			if v := float64(p.Active) / float64(p.Steps); v > worst {
				worst, rank = v, p.Rank
			}
		}
	}
	return rank
}

// mycroftStraggler names the rank that is late by more than a second in most rounds of a group.
func (b *bench) mycroftStraggler() int {
	return b.constantlyLate(float64(time.Second))
}

// lastArriverSlow names the rank that most often arrives last, however little.
func (b *bench) lastArriverSlow() int { return b.constantlyLate(0) }

func (b *bench) constantlyLate(threshold float64) int {
	best, rank := 0.0, -1
	rounds := b.rounds()
	for _, id := range b.comms() {
		late, total := map[int]float64{}, 0.0
		rs := rounds[id]
		for _, r := range rs[len(rs)/2:] {
			longest, shortest, last := r.extremes()
			if longest-shortest > threshold {
				late[last] += longest - shortest
				total++
			}
		}
		if total < float64(len(rs)/2)/2 {
			continue
		}
		for r, t := range late {
			if t > best || (t == best && r < rank) {
				best, rank = t, r
			}
		}
	}
	return rank
}

// threeSigma names the rank whose operations of one kind and size are, in the mean, furthest above their peers', beyond
// three standard deviations.
func (b *bench) threeSigma() int {
	type key struct {
		fn    string
		bytes int64
	}
	type cell struct{ sum, n float64 }
	by := map[key]map[int]*cell{}
	for i := range b.ev.Timeline {
		s := &b.ev.Timeline[i]
		k := key{s.Func, s.Bytes}
		if by[k] == nil {
			by[k] = map[int]*cell{}
		}
		c := by[k][s.Rank]
		if c == nil {
			c = &cell{}
			by[k][s.Rank] = c
		}
		c.sum += stay(s)
		c.n++
	}
	best, rank := 3.0, -1
	for _, ranks := range by {
		if len(ranks) < 4 {
			continue
		}
		mean, sq := 0.0, 0.0
		for _, c := range ranks {
			mean += c.sum / c.n / float64(len(ranks))
		}
		for _, c := range ranks {
			d := c.sum/c.n - mean
			sq += d * d / float64(len(ranks))
		}
		sigma := math.Sqrt(sq)
		for r, c := range ranks {
			if z := (c.sum/c.n - mean) / sigma; sigma > 0 && (z > best || (z == best && r < rank)) {
				best, rank = z, r
			}
		}
	}
	return rank
}
