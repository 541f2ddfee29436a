// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import "fmt"

// checkOrder refuses switches that are above themselves.
func (t *Topology) checkOrder() error {
	const (
		open = 1
		done = 2
	)
	state := map[string]int{}
	type frame struct {
		name string
		next int
	}
	for start := range t.parents {
		if state[start] != 0 {
			continue
		}
		stack := []frame{{start, 0}}
		state[start] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(t.parents[f.name]) {
				state[f.name] = done
				stack = stack[:len(stack)-1]
				continue
			}
			up := t.parents[f.name][f.next]
			f.next++
			switch state[up] {
			case open:
				return fmt.Errorf("switch %q stands above itself", up)
			case done:
			default:
				state[up] = open
				stack = append(stack, frame{up, 0})
			}
		}
	}
	return nil
}
