// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

// pathKind is a use of time on the critical path.
type pathKind uint8

const (
	pathCompute pathKind = iota
	pathHost             // The call came late while the GPU had nothing to do.
	pathTransfer
	pathKinds
)

// walk is the critical path: from the end of the window back, at a synchronising operation to its last arriver, along
// computation on the rank. What it visits is what the window's length was made of; everything else waited.
type walk struct {
	time  []([pathKinds]int64) // By node.
	total int64
}

func (t *timeline) walkBack() *walk {
	w := &walk{time: make([][pathKinds]int64, len(t.Nodes))}
	at := int32(-1)
	var latest int64
	for n, list := range t.ranks {
		for _, i := range list {
			if e := t.clock[n].toReference(t.segs[i].end); at < 0 || e > latest {
				at, latest = i, e
			}
		}
	}
	for n := 0; at >= 0 && n <= len(t.segs); n++ {
		s := &t.segs[at]
		j := &t.jobs[s.job]
		if j.compute {
			w.add(s, pathCompute, s.stay)
		} else {
			if j.last >= 0 && t.wait(at) > 0 && !(j.buffered && s.dir > 0) {
				at = j.last
				s = &t.segs[at]
			}
			w.add(s, pathTransfer, j.transfer)
		}
		w.add(s, pathHost, s.host)
		w.add(s, pathCompute, s.gap-s.host)
		at = s.pred
	}
	return w
}

func (w *walk) add(s *seg, k pathKind, d int64) {
	w.time[s.node][k] += max(0, d)
	w.total += max(0, d)
}
