// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"math/rand/v2"
	"testing"
)

// TestGraphAgainstClosure: on random graphs, what the graph says of ways, distances and components is what the closure of its
// edges says.
func TestGraphAgainstClosure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + rng.IntN(12)
		var edges []edge
		for range rng.IntN(3 * n) {
			edges = append(edges, edge{from: int32(rng.IntN(n)), to: int32(rng.IntN(n)), sure: rng.IntN(2) == 0})
		}
		g := newGraph(n, edges)
		way := closure(n, edges)
		start := int32(rng.IntN(n))
		reached, dist := g.reach([]int32{start}), g.distances([]int32{start})
		marked := make([]bool, n)
		for v := range n {
			marked[v] = true
			if reached[v] != (way[start][v] >= 0) {
				t.Fatalf("%v: reach(%d)[%d] = %v", edges, start, v, reached[v])
			}
			if int(dist[v]) != way[v][start] {
				t.Fatalf("%v: from %d to %d in %d, want %d", edges, v, start, dist[v], way[v][start])
			}
		}
		of, sink := g.components(marked, false)
		left := make([]bool, len(sink))
		for v := range n {
			for u := range n {
				if same := way[v][u] >= 0 && way[u][v] >= 0; same != (of[v] == of[u]) {
					t.Fatalf("%v: %d and %d in components %d and %d", edges, v, u, of[v], of[u])
				}
				left[of[v]] = left[of[v]] || way[v][u] >= 0 && way[u][v] < 0
			}
		}
		for c := range sink {
			if sink[c] == left[c] {
				t.Fatalf("%v: component %d sink %v", edges, c, sink[c])
			}
		}
	}
}

// TestComponentsOfSureEdges: a way that is not certain joins nothing.
func TestComponentsOfSureEdges(t *testing.T) {
	g := newGraph(3, []edge{{from: 0, to: 1, sure: true}, {from: 1, to: 0}, {from: 1, to: 2, sure: true}, {from: 2, to: 1, sure: true}})
	of, sink := g.components([]bool{true, true, true}, true)
	if of[0] == of[1] || of[1] != of[2] || sink[of[0]] || !sink[of[1]] {
		t.Errorf("components %v, sinks %v", of, sink)
	}
}

// closure gives the least number of edges from each vertex to each, -1 where there is no way.
func closure(n int, edges []edge) [][]int {
	way := make([][]int, n)
	for v := range way {
		way[v] = make([]int, n)
		for u := range way[v] {
			way[v][u] = -1
		}
		way[v][v] = 0
	}
	for _, e := range edges {
		if e.from != e.to {
			way[e.from][e.to] = 1
		}
	}
	for k := range n {
		for v := range n {
			for u := range n {
				if way[v][k] >= 0 && way[k][u] >= 0 && (way[v][u] < 0 || way[v][k]+way[k][u] < way[v][u]) {
					way[v][u] = way[v][k] + way[k][u]
				}
			}
		}
	}
	return way
}
