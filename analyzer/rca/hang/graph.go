// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import "github.com/culprit-project/culprit/analyzer/rca/words"

// edgeKind says why somebody waits for somebody.
type edgeKind uint8

const (
	edgeIn         edgeKind = iota // A rank is inside an operation that lacks members.
	edgeNotCalled                  // The operation lacks this member: it has not called it.
	edgeJustCalled                 // It called it a moment ago.
	edgeQueued                     // It called, but another operation runs before it.
	edgeNotStarted                 // It called, but its kernel does not run.
	edgeDead                       // Its process is gone or stopped.
	edgeUnseen                     // Nothing was seen of it.
	edgeOdd                        // It called something else.
	edgeReceiver                   // Its buffers are not posted.
	edgeNoData                     // It has not sent.
	edgeDelivery                   // It does not take what was sent.
	edgeLocal                      // It is a neighbour over NVLink or shared memory, where no flow is seen.
)

// reasons say so to people, of the one that is waited for.
var reasons = [...]string{
	edgeIn:         words.WaitLacksMembers,
	edgeNotCalled:  words.WaitNotCalled,
	edgeJustCalled: words.WaitJustCalled,
	edgeQueued:     words.WaitQueued,
	edgeNotStarted: words.WaitNotStarted,
	edgeDead:       words.WaitDead,
	edgeUnseen:     words.WaitUnrecorded,
	edgeOdd:        words.WaitOdd,
	edgeReceiver:   words.WaitNoBuffer,
	edgeNoData:     words.WaitNoData,
	edgeDelivery:   words.WaitNotTaken,
	edgeLocal:      words.WaitHandedOver,
}

// edge is one reason to wait. Nodes are numbered first, instances behind them.
type edge struct {
	from, to int32
	inst     int32 // Operation that it is about.
	channel  int16 // -1 none.
	kind     edgeKind
	sure     bool
}

// graph is the wait-for graph in compressed rows.
type graph struct {
	n     int // Vertices.
	edges []edge
	row   []int32 // First out-edge by vertex, in order; len n+1.
	out   []int32
	rrow  []int32
	in    []int32
}

func newGraph(n int, edges []edge) *graph {
	g := &graph{n: n, edges: edges}
	g.row, g.out = rows(n, edges, func(e *edge) int32 { return e.from })
	g.rrow, g.in = rows(n, edges, func(e *edge) int32 { return e.to })
	return g
}

// rows sorts things by vertex: those of a vertex are list[row[v]:row[v+1]].
func rows[T any](n int, things []T, of func(*T) int32) (row, list []int32) {
	row = make([]int32, n+1)
	for i := range things {
		row[of(&things[i])+1]++
	}
	for i := range n {
		row[i+1] += row[i]
	}
	list = make([]int32, len(things))
	next := append([]int32(nil), row[:n]...)
	for i := range things {
		v := of(&things[i])
		list[next[v]] = int32(i)
		next[v]++
	}
	return row, list
}

// outOf gives the edges that leave a vertex, into those that end at it.
func (g *graph) outOf(v int32) []int32 { return g.out[g.row[v]:g.row[v+1]] }
func (g *graph) into(v int32) []int32  { return g.in[g.rrow[v]:g.rrow[v+1]] }

// reach marks what can be reached from the starts.
func (g *graph) reach(starts []int32) []bool {
	seen := make([]bool, g.n)
	stack := make([]int32, 0, len(starts))
	for _, s := range starts {
		if !seen[s] {
			seen[s] = true
			stack = append(stack, s)
		}
	}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, e := range g.outOf(v) {
			if w := g.edges[e].to; !seen[w] {
				seen[w] = true
				stack = append(stack, w)
			}
		}
	}
	return seen
}

// distances gives the number of edges from every vertex to the nearest target, -1 where there is no way.
func (g *graph) distances(targets []int32) []int32 {
	dist := make([]int32, g.n)
	for i := range dist {
		dist[i] = -1
	}
	queue := make([]int32, 0, len(targets))
	for _, t := range targets {
		if dist[t] < 0 {
			dist[t] = 0
			queue = append(queue, t)
		}
	}
	for i := 0; i < len(queue); i++ {
		v := queue[i]
		for _, e := range g.into(v) {
			if u := g.edges[e].from; dist[u] < 0 {
				dist[u] = dist[v] + 1
				queue = append(queue, u)
			}
		}
	}
	return dist
}

// components numbers the strongly connected components among the marked vertices (Tarjan, without recursion); -1 for
// the others. sink says which components nobody leaves. With sureOnly, edges that are not certain do not count.
func (g *graph) components(marked []bool, sureOnly bool) (of []int32, sink []bool) {
	const none = -1
	of = make([]int32, g.n)
	low := make([]int32, g.n)
	num := make([]int32, g.n)
	for i := range of {
		of[i], num[i] = none, none
	}
	var count, comps int32
	var path []int32
	type frame struct{ v, next int32 }
	var calls []frame
	for root := range int32(g.n) {
		if !marked[root] || num[root] != none {
			continue
		}
		calls = append(calls[:0], frame{root, g.row[root]})
		num[root], low[root] = count, count
		count++
		path = append(path, root)
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			if f.next < g.row[f.v+1] {
				e := &g.edges[g.out[f.next]]
				w := e.to
				f.next++
				switch {
				case !marked[w] || sureOnly && !e.sure:
				case num[w] == none:
					num[w], low[w] = count, count
					count++
					path = append(path, w)
					calls = append(calls, frame{w, g.row[w]})
				case of[w] == none:
					low[f.v] = min(low[f.v], num[w])
				}
				continue
			}
			v := f.v
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				p := calls[len(calls)-1].v
				low[p] = min(low[p], low[v])
			}
			if low[v] != num[v] {
				continue
			}
			for {
				w := path[len(path)-1]
				path = path[:len(path)-1]
				of[w] = comps
				if w == v {
					break
				}
			}
			comps++
		}
	}
	sink = make([]bool, comps)
	for i := range sink {
		sink[i] = true
	}
	for i := range g.edges {
		a, b := of[g.edges[i].from], of[g.edges[i].to]
		if sureOnly && !g.edges[i].sure {
			continue
		}
		if a != none && b != none && a != b {
			sink[a] = false
		}
	}
	return of, sink
}
