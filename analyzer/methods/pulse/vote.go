// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pulse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Stop is what Pulse says of a job that stands: operators are scanned in time order, so it is the first that stands and shows somebody, and in
// it the rank that did not begin, else the one that sent least. Of custom collectives, which are sends and receives, it is the rank at an end
// of most transfers that are not complete. ok is false when nothing stands.
func Stop(j *record.Job) (v record.Vote, ok bool) {
	all := j.Standing()
	for _, s := range all {
		if s.P2P {
			continue
		}
		if got := stop(s); !ok || len(got.Ranks) > 0 {
			v, ok = got, true
		}
		if len(v.Ranks) > 0 {
			return v, true
		}
	}
	if got, some := custom(all); some && (len(got.Ranks) > 0 || !ok) {
		return got, true
	}
	return v, ok
}

func stop(s *record.Standing) record.Vote {
	v := record.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}}
	samples := make([]Sample, 0, len(s.Group.Members)+len(s.Group.Silent))
	volumes := true
	for k := range s.Group.Members {
		m := &s.Group.Members[k]
		x := Sample{Rank: m.Rank.ID, Started: s.First.Number >= 0 && m.Last() > s.First.Number}
		if o := s.Has(m.Rank.ID); o != nil {
			x.Started, x.Volume = true, volume(o)
			volumes = volumes && len(o.Flows) > 0
		}
		samples = append(samples, x)
	}
	for _, r := range s.Group.Silent {
		samples = append(samples, Sample{Rank: r})
	}
	name := " on " + s.Group.Label()
	switch rank, kind := Locate(samples, 0); {
	case kind == StopCompute:
		v.Class, v.Ranks, v.Note = rca.NotEntered, []int{rank}, "has not begun the first operation that stands"+name
	case kind == StopNetwork && volumes && slices.ContainsFunc(samples, func(x Sample) bool { return x.Volume != samples[0].Volume }):
		v.Class, v.Ranks, v.Note = rca.Fault, []int{rank}, "has sent least in an operation that does not end"+name
	default:
		v.Note = "all have begun, and nobody is seen to have sent less" + name
	}
	return v
}

// volume is what a rank has sent, in bytes: a step of a flow carries an equal share of what the flow should carry, and ranks of a tree should
// carry different amounts (P3), so that it counts as a share of what is expected.
func volume(o *rca.Op) int64 {
	const whole = 1 << 20
	done, total := int64(0), int64(0)
	for i := range o.Flows {
		if f := &o.Flows[i]; f.Send {
			done, total = done+f.Done, total+f.Total
		}
	}
	if total <= 0 {
		return done
	}
	return whole * done / total
}

func custom(all []*record.Standing) (v record.Vote, ok bool) {
	v = record.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}}
	var transfers []Transfer
	for _, s := range all {
		if !s.P2P {
			continue
		}
		from, to := s.Parts[0].Rank.ID, -1
		if m := s.Group.At(s.Parts[0].Op.Peer); m != nil {
			to = m.Rank.ID
		} else if p := s.Parts[0].Op.Peer; p >= 0 && p < len(s.Group.Comm.Members) {
			to = s.Group.Comm.Members[p]
		}
		if to >= 0 {
			transfers = append(transfers, Transfer{Rank: from, Peer: to, Expected: 1}) // It stands, so it is not complete.
		}
	}
	if len(transfers) == 0 {
		return v, false
	}
	v.Note = fmt.Sprintf("at an end of most of %d transfers that are not complete", len(transfers))
	if rank := Unfinished(transfers); rank >= 0 {
		v.Class, v.Ranks = rca.Fault, []int{rank}
	}
	return v, true
}

// Slow is what Pulse says of a slow job. It looks at the iterations that are longer than delta times the mean of those before, at all where
// none is, and in each at the first operation in time order that is not normal; of custom collectives at rates over the last ten.
func Slow(j *record.Job, irregular []int) record.Vote {
	v := record.Vote{Method: "pulse", Class: rca.Unknown, Ranks: []int{}, Note: "normal starts, active times and durations"}
	type hit struct {
		rank  int
		kind  Kind
		group rca.CommID // Of what is held up inside: all members are as long in it, so it is the group (table 3).
	}
	count := map[hit]int{}
	usual := usualDurations(j, irregular)
	looked, total := map[int]bool{}, 0
	for _, r := range j.Rounds {
		it := r.Parts[0].Iteration
		if len(irregular) > 0 && !slices.Contains(irregular, it) || looked[it] && it >= 0 || r.Barrier {
			continue
		}
		if it < 0 {
			total++
		}
		if rank, k := Locate(samplesOf(r), usual[kindOf(r)]); k != Normal {
			h := hit{rank, k, ""}
			if k == SlowInside {
				h.rank, h.group = -1, r.Group.ID
			}
			count[h]++
			looked[it] = true
		}
	}
	if delete(looked, -1); len(looked) > 0 {
		total = len(looked)
	}
	best, n := hit{}, 0
	for h, c := range count {
		if c > n || c == n && cmp.Or(cmp.Compare(h.rank, best.rank), cmp.Compare(h.kind, best.kind), cmp.Compare(h.group, best.group)) < 0 {
			best, n = h, c
		}
	}
	if n == 0 || 2*n <= total {
		if rank := SlowestRate(exchanges(j)); rank >= 0 {
			v.Class, v.Ranks, v.Note = rca.SlowComm, []int{rank}, "lowest rate over its last ten exchanges"
		}
		return v
	}
	in := fmt.Sprintf("in %d of %d slow iterations", n, total)
	if v.Ranks = []int{best.rank}; best.group != "" {
		v.Ranks = slices.Clone(j.Group(best.group).Comm.Members)
	}
	switch best.kind {
	case SlowCompute:
		v.Class, v.Note = rca.SlowCompute, "the first to start late, "+in
	case SlowNetwork:
		v.Class, v.Note = rca.SlowComm, "longest active time, "+in
	case SlowInside:
		v.Class, v.Note = rca.SlowComm, "long in operations that began in time, with normal active times: not the network, "+in
	case Normal, StopNetwork, StopCompute: // Of work that has not ended.
	}
	return v
}

func samplesOf(r *record.Round) []Sample {
	out := make([]Sample, 0, len(r.Parts))
	for _, p := range r.Parts {
		out = append(out, Sample{Rank: p.Rank, Started: true, Complete: true, Start: p.Begin, Duration: p.Stay(), Active: p.Active(), Volume: max(p.SendBytes, p.Bytes)})
	}
	return out
}

type roundKind struct {
	comm  rca.CommID
	fn    string
	bytes int64
}

func kindOf(r *record.Round) roundKind { return roundKind{r.Group.ID, r.Func, r.Bytes} }

// usualDurations gives how long collectives of a kind take in iterations that are not too long.
func usualDurations(j *record.Job, irregular []int) map[roundKind]time.Duration {
	all := map[roundKind][]time.Duration{}
	for _, r := range j.Rounds {
		if slices.Contains(irregular, r.Parts[0].Iteration) {
			continue
		}
		longest := time.Duration(0)
		for _, p := range r.Parts {
			longest = max(longest, p.Stay())
		}
		all[kindOf(r)] = append(all[kindOf(r)], longest)
	}
	out := map[roundKind]time.Duration{}
	for k, v := range all {
		out[k] = median(v)
	}
	return out
}

// exchanges gives, by rank, its custom collectives in time order: sends with no other operation between them, on communicators whose members
// send to more than one peer.
func exchanges(j *record.Job) map[int][]Exchange {
	out := map[int][]Exchange{}
	for rank, list := range j.ByRank {
		peers := map[rca.CommID][]int{}
		for _, p := range list {
			if p.Func == "Send" && !slices.Contains(peers[p.Comm], p.Peer) {
				peers[p.Comm] = append(peers[p.Comm], p.Peer)
			}
		}
		at, group, end := -1, rca.CommID(""), time.Duration(0)
		for _, p := range list {
			if p.Peer < 0 {
				at = -1
			}
			if p.Func != "Send" || len(peers[p.Comm]) < 2 {
				continue
			}
			if at < 0 || p.Comm != group || p.Begin > end {
				out[rank], at, group, end = append(out[rank], Exchange{}), len(out[rank]), p.Comm, p.Left
			}
			e := &out[rank][at]
			e.Bytes, e.Active, end = e.Bytes+p.Bytes, max(e.Active, p.Active()), max(end, p.Left)
		}
	}
	return out
}

// Serves says which parallelism each communicator serves, by what it carries in an iteration (P8): NCCL names none of them. Communicators that
// carry little are left out.
func Serves(j *record.Job) map[rca.CommID]Parallelism {
	iters := len(j.Iterations) - 1
	if iters < 1 {
		return nil
	}
	type pair struct{ from, to int }
	traffic, pairs := map[rca.CommID]Traffic{}, map[rca.CommID]map[pair]bool{}
	for rank, list := range j.ByRank {
		for _, p := range list {
			g := j.Group(p.Comm)
			if p.Iteration < 0 || g == nil || g.Size < 2 {
				continue
			}
			t := traffic[p.Comm]
			t.Size = g.Size
			switch me := g.CommRank(rank); {
			case me < 0:
				continue
			case p.Func == "Send":
				t.P2P, t.P2PBytes = t.P2P+1, t.P2PBytes+p.Bytes
				if pairs[p.Comm] == nil {
					pairs[p.Comm] = map[pair]bool{}
				}
				pairs[p.Comm][pair{rank, p.Peer}] = true
				t.Around = t.Around || me == g.Size-1 && g.CommRank(p.Peer) == 0
			case p.Peer < 0 && me == 0:
				t.Collectives, t.CollectiveBytes = t.Collectives+1, t.CollectiveBytes+p.Bytes
			}
			traffic[p.Comm] = t
		}
	}
	out := map[rca.CommID]Parallelism{}
	for id, t := range traffic {
		t.Collectives, t.CollectiveBytes = t.Collectives/iters, t.CollectiveBytes/int64(iters)
		t.P2P, t.P2PBytes, t.Pairs = t.P2P/iters, t.P2PBytes/int64(iters), len(pairs[id])
		if kind := Infer(t); kind != None {
			out[id] = kind
		}
	}
	return out
}

// SaysServes is Serves in words, "" nothing.
func SaysServes(j *record.Job) string {
	type kind struct {
		what Parallelism
		size int
	}
	count := map[kind]int{}
	for id, p := range Serves(j) {
		count[kind{p, j.Group(id).Size}]++
	}
	var parts []string
	for k, n := range count {
		parts = append(parts, fmt.Sprintf("%s parallelism: %d of %d ranks", k.what, n, k.size))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
