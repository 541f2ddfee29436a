// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

const (
	treeChunk       = 512 << 10          // Bytes, at most, of what fits in mostTreeSteps.
	mostTreeSteps   = 1024               // What gigabytes do in more is the same again.
	maxCoarseChunks = 4 * maxCoarseLoops // Of a channel, in a coarse evaluation.
)

// tree is one channel of a tree AllReduce: chunks are summed up on the way to the root, and the sums come back down.
type tree struct {
	e        *evaluation
	parent   []int32
	children [][]int32
	order    []int32 // Parents before their children.
	up, down []*link // Between a member and its parent; nil at the root.
	u, d     []Time  // When each member has passed the last chunk on, up and down.
	limit    []int   // Steps of each member's own call.
	steps    int
	chunk    int64
}

func (e *evaluation) treeChannel(ch int) {
	t := e.newTree(ch)
	for k := range t.steps {
		t.climb(k)
		if !t.descend(k) {
			break
		}
	}
	for m := range t.d {
		if t.limit[m] > t.steps || t.limit[m] == 0 {
			t.d[m] = Never
		}
		e.left[m] = max(e.left[m], t.d[m], t.u[m])
	}
}

func (e *evaluation) newTree(ch int) *tree {
	o := e.op
	n := len(o.mem)
	t := &tree{e: e, parent: e.comm.tree(e.sim, ch), children: make([][]int32, n), u: make([]Time, n), d: make([]Time, n)}
	for m, p := range t.parent {
		if p >= 0 {
			t.children[p] = append(t.children[p], int32(m))
		}
	}
	t.order = topDown(t.parent, t.children)
	per := max(1, o.bytes()/int64(len(e.comm.rings)))
	t.steps = int(min(mostTreeSteps, max(1, (per+treeChunk-1)/treeChunk)))
	scale := 1
	if e.coarse && t.steps > maxCoarseChunks {
		scale = (t.steps + maxCoarseChunks - 1) / maxCoarseChunks
		t.steps = (t.steps + scale - 1) / scale
	}
	t.chunk = max(1, per/int64(t.steps))
	t.connect(ch, scale)
	for m := range n {
		t.u[m], t.d[m] = o.mem[m].entered, o.mem[m].entered
	}
	t.limit = t.limits()
	return t
}

// connect makes the links of the channel; one chunk on them stands for so many.
func (t *tree) connect(ch, scale int) {
	e, o := t.e, t.e.op
	nic, nv := e.shares()
	proto := efficiency(e.sim.cfg.Job.Proto)
	nic, nv = nic*proto, nv*proto
	t.up, t.down = make([]*link, len(t.parent)), make([]*link, len(t.parent))
	for m, p := range t.parent {
		if p < 0 {
			continue
		}
		a, b := int32(m), p
		t.up[m], t.down[m] = e.newLink(a, b, ch, nic/2, nv/2), e.newLink(b, a, ch, nic/2, nv/2)
		for _, l := range []*link{t.up[m], t.down[m]} {
			l.win = smallWindow
			l.flagged(e.sim.cfg.Job.Proto)
			e.begin(l, t.steps, scale, t.chunk, &o.mem[l.peerSrc], &o.mem[l.peerDst])
			e.serve(l, 4*float64(len(e.comm.rings)))
			e.links = append(e.links, l)
		}
	}
}

// limits gives how many steps each member's own call has.
func (t *tree) limits() []int {
	o := t.e.op
	out := make([]int, len(o.mem))
	for m := range out {
		out[m] = t.steps
		switch in := o.mem[m].in; {
		case in == nil:
		case in.fn != o.fn(): // Runs another algorithm's kernel: takes no part, and never ends.
			out[m] = 0
		case in.bytes != o.bytes():
			out[m] = int(max(1, in.bytes*int64(t.steps)/max(1, o.bytes())))
		}
	}
	return out
}

// climb takes chunk k from the leaves to the root.
func (t *tree) climb(k int) {
	for _, m := range slices.Backward(t.order) {
		if k >= t.limit[m] {
			continue
		}
		g := t.u[m]
		for _, c := range t.children[m] {
			g = max(g, t.up[c].arrived(k))
		}
		if t.up[m] != nil {
			g = max(g, t.up[m].credit(k))
		}
		t.u[m] = t.e.kernel(t.e.comm.members[m], g, t.chunk)
		for _, c := range t.children[m] {
			t.up[c].consume(k, t.u[m])
		}
		if t.up[m] != nil {
			t.up[m].push(k, t.u[m])
		}
	}
}

// descend takes the sum of chunk k from the root to the leaves; false: nothing moves any more that is asked for.
func (t *tree) descend(k int) (moving bool) {
	e := t.e
	for _, m := range t.order {
		if k >= t.limit[m] {
			continue
		}
		g := t.d[m]
		if t.down[m] != nil {
			g = max(g, t.down[m].arrived(k))
		} else {
			g = max(g, t.u[m])
		}
		for _, c := range t.children[m] {
			g = max(g, t.down[c].credit(k))
		}
		t.d[m] = e.kernel(e.comm.members[m], g, t.chunk)
		if t.down[m] != nil {
			t.down[m].consume(k, t.d[m])
		}
		for _, c := range t.children[m] {
			t.down[c].push(k, t.d[m])
		}
		moving = moving || min(t.u[m], t.d[m]) < Never && (!e.stop || min(t.u[m], t.d[m]) <= e.until)
	}
	return moving
}

// topDown lists the members so that parents come before their children.
func topDown(parent []int32, children [][]int32) []int32 {
	var order []int32
	for m, p := range parent {
		if p < 0 {
			order = append(order, int32(m))
		}
	}
	for i := 0; i < len(order); i++ {
		order = append(order, children[order[i]]...)
	}
	return order
}
