// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

// replay runs the recorded work again: every rank enters an operation gap after what came before, an operation ends a
// transfer time after its last arriver. What-if questions change gaps and transfers.
type replay struct {
	t     *timeline
	begin []int64 // Where each rank starts, on the reference's clock.
	leave []int64 // By segment.
	base  float64 // Length without changes, ns.
}

// change makes elements ideal: nil functions change nothing. For computations gap is asked with the segment's own
// length in place of the gap before it when body is true.
type change struct {
	gap      func(s *seg, was int64) int64
	body     func(s *seg, was int64) int64
	transfer func(j *joint, was int64) int64
}

func newReplay(t *timeline) *replay {
	r := &replay{t: t, begin: make([]int64, len(t.Nodes)), leave: make([]int64, len(t.segs))}
	least := map[int32]int64{}
	for n, list := range t.ranks {
		if len(list) == 0 {
			continue
		}
		r.begin[n] = t.clock[n].toReference(t.segs[list[0]].enter)
		if l, ok := least[t.clock[n].root]; !ok || r.begin[n] < l {
			least[t.clock[n].root] = r.begin[n]
		}
	}
	for n := range r.begin {
		r.begin[n] -= least[t.clock[n].root]
	}
	r.base = r.run(change{})
	return r
}

// run gives the length of the whole in ns under the change.
func (r *replay) run(c change) float64 {
	t := r.t
	end := int64(0)
	for _, id := range t.order {
		j := &t.jobs[id]
		transfer := j.transfer
		if c.transfer != nil && !j.compute {
			transfer = c.transfer(j, transfer)
		}
		if j.compute {
			i := j.parts[0]
			s := &t.segs[i]
			stay := s.stay
			if c.body != nil {
				stay = c.body(s, stay)
			}
			r.leave[i] = r.enter(i, &c) + stay
			end = max(end, r.leave[i])
			continue
		}
		all := int64(-1 << 62)
		for _, i := range j.parts {
			e := r.enter(i, &c)
			r.leave[i] = e // For now the time of entering.
			if !j.buffered || t.segs[i].dir > 0 {
				all = max(all, e)
			}
		}
		for _, i := range j.parts {
			s := &t.segs[i]
			switch {
			case j.buffered && s.dir > 0:
				r.leave[i] += pick(transfer < j.transfer, min(s.stay, transfer), s.stay)
			case j.buffered:
				r.leave[i] = max(r.leave[i], all) + transfer
			default:
				r.leave[i] = all + transfer
			}
			end = max(end, r.leave[i])
		}
	}
	return float64(end)
}

func (r *replay) enter(i int32, c *change) int64 {
	s := &r.t.segs[i]
	if s.pred < 0 {
		if r.t.ranks[s.node][0] == i {
			return r.begin[s.node]
		}
		return r.begin[s.node] + s.enter - r.t.segs[r.t.ranks[s.node][0]].enter
	}
	gap := s.gap
	if c.gap != nil {
		gap = c.gap(s, gap)
	}
	return r.leave[s.pred] + gap
}

// gain says how much faster the whole would be under the change: length now over length then.
func (r *replay) gain(c change) float64 {
	l := r.run(c)
	if l <= 0 || r.base <= 0 {
		return 1
	}
	return r.base / l
}
