// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import (
	"cmp"
	"slices"
	"time"
)

// What the parts of SendWait and RecvWait mean.
const (
	sendGPU   = 0 // Not given by the GPU yet.
	sendNet   = 2 // Sent, not acknowledged: the time a transfer was outstanding.
	recvFlush = 1 // Arrived, not given to the GPU.
	recvGPU   = 2 // Given to the GPU, not consumed.
)

// waitsSeen reports whether the source told what an operation's flows waited for.
func (s *seg) waitsSeen() bool {
	return s.record.SendWait != [3]time.Duration{} || s.record.RecvWait != [3]time.Duration{}
}

// slowEnd is a rank whose transfers of one class take longer than its peers'.
type slowEnd struct {
	node  int32
	segs  []int32 // Its segments of the class.
	times float64 // How many times longer than its peers'.
	ref   int64   // What its peers take, ns.
	total int64   // Beyond that, over the window, ns.
	flush bool    // It is what arrives that is late, not what is sent.
}

// transfers are those that take longer than they should. What decides whose NIC, PCIe, proxy or path that is is the time a transfer was
// outstanding: waiting does not pollute it (Pulse's actual communication time, P5).
type transfers struct {
	net    []slowEnd // Sent late,
	flush  []slowEnd // handed on late.
	gain   float64   // If all took what they take elsewhere.
	ofEnds float64   // If those of the slow ends did.
	// explained: by the slow ends, or these plainly dominate where their delays add up in a pipeline of steps.
	explained bool
}

// longTransfers finds them.
func (a *analysis) longTransfers() *transfers {
	t := &transfers{net: a.slowSends(a.flows()), flush: a.lateFlushes()}
	if t.gain = a.gainOfTransfers(a.idealTransfers(true, t.net, t.flush)); t.gain < leastGain {
		return t
	}
	t.ofEnds = a.gainOfTransfers(a.idealTransfers(false, t.net, t.flush))
	t.explained = t.ofEnds >= leastGain && t.ofEnds-1 >= mattersFrom*(t.gain-1) || a.dominate(t.net) || a.dominate(t.flush)
	return t
}

// slowPlace names the place that explains which flows are slow: where the slow ends account for the delay, or, if it is certain, where
// the delays of its steps add up to more than its flows show.
func (a *analysis) slowPlace() (finding, bool) {
	t := a.transfers()
	f, ok := a.locateNet(a.flows(), t.flush, t.gain)
	if !ok {
		return f, false
	}
	if t.explained && len(t.net) > 0 && (f.certain || sumTotal(t.net) >= sumTotal(t.flush)) {
		return f, true
	}
	return f, f.certain && t.ofEnds-1 >= leastPart*(t.gain-1) && !(t.explained && len(t.flush) > 0)
}

// lateHandingOn finds ranks that hand on late what has arrived, if that accounts for the delay or is in all communicators that are slow.
func (a *analysis) lateHandingOn() (finding, bool) {
	t := a.transfers()
	if !t.explained && !a.inAllSlow(t.flush) {
		return finding{}, false
	}
	return a.locateProxy(t.flush, t.gain)
}

// inAllSlow reports whether one rank hands on late and is in every communicator that is noticeably slow: a thread that sleeps
// now and then delays all that it does, and only a part of that shows as late handing on.
func (a *analysis) inAllSlow(flush []slowEnd) bool {
	slow := a.base.slowComm
	if len(flush) == 0 || len(slow) == 0 || slices.ContainsFunc(flush, func(e slowEnd) bool { return e.node != flush[0].node }) {
		return false
	}
	worst := 0.0
	for i := range slow {
		worst = max(worst, a.lostIn(&slow[i]))
	}
	return !slices.ContainsFunc(slow, func(s slowComm) bool {
		return a.lostIn(&s) >= mattersFrom*worst && !slices.Contains(s.nodes, flush[0].node)
	})
}

// slowSends gives the flow groups that are slow, those that matter most first.
func (a *analysis) slowSends(groups []flowGroup) []slowEnd {
	var out []slowEnd
	for i := range groups {
		g := &groups[i]
		total := int64((g.now - g.ref) * float64(len(g.segs)))
		if !g.slow || float64(total) < noticeable*a.replay.base {
			continue
		}
		out = append(out, slowEnd{node: g.node, segs: g.segs, times: g.ratio, ref: int64(g.ref), total: total})
	}
	return heaviest(out)
}

func sumTotal(es []slowEnd) int64 {
	var sum int64
	for i := range es {
		sum += es[i].total
	}
	return sum
}

// dominate reports whether the worst of the slow ends takes several times what its peers take, and a good part of the window.
func (a *analysis) dominate(es []slowEnd) bool {
	return len(es) > 0 && es[0].times >= dominantTimes && float64(es[0].total) >= dominantShare*a.replay.base
}

// idealTransfers gives transfers what they take without the slow ends' extra time, and, if elsewhere, what they take
// elsewhere.
func (a *analysis) idealTransfers(elsewhere bool, ends ...[]slowEnd) func(*joint, int64) int64 {
	best := make(map[*joint]int64)
	lower := func(j *joint, to int64) {
		if old, ok := best[j]; to < j.transfer && (!ok || to < old) {
			best[j] = to
		}
	}
	for j := range a.now.jobs {
		if elsewhere {
			lower(&a.now.jobs[j], a.base.transfer[j])
		}
	}
	for _, es := range ends {
		for i := range es {
			e := &es[i]
			for _, g := range e.segs {
				s := &a.now.segs[g]
				over := int64(s.overdue(float64(e.ref)))
				if e.flush {
					over = (int64(s.record.RecvWait[recvFlush]) - e.ref) / int64(max(1, s.record.SendFlows))
				}
				if j := &a.now.jobs[s.job]; over > 0 {
					lower(j, max(j.transfer/10, j.transfer-over))
				}
			}
		}
	}
	return func(j *joint, was int64) int64 {
		if i, ok := best[j]; ok {
			return min(was, i)
		}
		return was
	}
}

// receiversOfClass are the ranks that data of one class of transfer arrives at. The total of each is all that handing it on took.
type receiversOfClass []slowEnd

// usualFlush is how long what has arrived takes to be handed on, ns, on the third of them that hand on soonest; false where too few do.
func (r receiversOfClass) usualFlush() (int64, bool) {
	var means []int64
	for i := range r {
		if m := r[i].meanFlush(); m > 0 {
			means = append(means, m)
		}
	}
	if len(means) < 2 {
		return 0, false
	}
	slices.Sort(means)
	return means[(len(means)-1)/3], true
}

// meanFlush is the mean of a receiver's segments, ns.
func (e *slowEnd) meanFlush() int64 { return e.total / int64(len(e.segs)) }

// receiversByClass gives who receives, class by class.
func (a *analysis) receiversByClass() []receiversOfClass {
	type place struct{ class, at int }
	at := map[transferKey]place{}
	classes := map[transferClass]int{}
	var out []receiversOfClass
	for i := range a.now.segs {
		s := &a.now.segs[i]
		if s.compute || !s.waitsSeen() {
			continue
		}
		j := &a.now.jobs[s.job]
		k := transferKey{class: j.class, from: s.node, to: -1}
		if j.p2p {
			k.to = a.NodeOf(s.peer)
			k.class.fn = -2 + int32(s.dir) // Receives are compared with receives.
		}
		p, ok := at[k]
		if !ok {
			c, known := classes[k.class]
			if !known {
				c = len(out)
				classes[k.class] = c
				out = append(out, nil)
			}
			p = place{c, len(out[c])}
			at[k] = p
			out[c] = append(out[c], slowEnd{node: s.node, flush: true})
		}
		e := &out[p.class][p.at]
		e.total += int64(s.record.RecvWait[recvFlush])
		e.segs = append(e.segs, int32(i))
	}
	return out
}

// lateFlushes gives the ranks on which what has arrived is handed on later than on others in the same class of transfer.
func (a *analysis) lateFlushes() []slowEnd {
	var out []slowEnd
	for _, r := range a.receiversByClass() {
		out = append(out, a.lateOf(r)...)
	}
	return heaviest(out)
}

// heaviest drops what hardly matters beside the rest, and what is not of its kind: one cause slows all that it touches
// by a like factor. It sorts by what matters most.
func heaviest(es []slowEnd) []slowEnd {
	slices.SortStableFunc(es, func(x, y slowEnd) int { return cmp.Or(cmp.Compare(y.total, x.total), cmp.Compare(x.node, y.node)) })
	if len(es) == 0 {
		return es
	}
	top := es[0]
	return slices.DeleteFunc(es, func(e slowEnd) bool { return e.total < top.total/10 || e.times-1 < mattersFrom*(top.times-1) })
}

// lateOf gives the receivers whose mean is several times the others', and that take a noticeable part of the window. The total of those is
// what they take beyond the others.
func (a *analysis) lateOf(r receiversOfClass) []slowEnd {
	ref, ok := r.usualFlush()
	if !ok {
		return nil
	}
	var out []slowEnd
	for _, e := range r {
		m := e.meanFlush()
		e.ref, e.times, e.total = ref, float64(m)/float64(ref), e.total-ref*int64(len(e.segs))
		if m >= dominantTimes*ref && float64(e.total) >= noticeable*a.replay.base {
			out = append(out, e)
		}
	}
	return out
}
