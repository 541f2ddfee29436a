// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strings"
)

// Siblings reports whether two communicators are of one family: groups of the same kind, such as the data-parallel ones, side by
// side in a job whose ranks run one program. Names show it, as in "dp_0" and "dp_1". Without names the program's order does: its
// ranks make their communicators in one order, and those of one kind join ranks at the same distances.
func (x *Index) Siblings(a, b *Comm) bool {
	if a.Size != b.Size {
		return false
	}
	at := x.order(a)
	if at == 0 || at != x.order(b) {
		return at == 0 && x.order(b) == 0 && stem(a.Name) == stem(b.Name)
	}
	if len(a.At) != len(b.At) {
		return false
	}
	for i := range a.At {
		if a.At[i] < 0 || b.At[i] < 0 || slices.Contains(b.At, a.At[i]) {
			return false
		}
		if x.Nodes[a.At[i]].ID-x.Nodes[a.At[0]].ID != x.Nodes[b.At[i]].ID-x.Nodes[b.At[0]].ID {
			return false
		}
	}
	return true
}

// order gives the ordinal, from 1, of a communicator without a name among those of its first member; 0 where it is unknown or the
// communicator has a name.
func (x *Index) order(c *Comm) int {
	if !strings.HasPrefix(string(c.id), c.Name) || len(c.At) == 0 || c.At[0] < 0 {
		return 0
	}
	if m := c.Find(c.At[0]); m != nil && m.Membership != nil {
		return m.Membership.Order
	}
	return 0
}

// stem is a communicator's name without its number: "dp_1" and "dp_0" are of one family.
func stem(name string) string {
	end := len(name)
	for end > 0 && (name[end-1] >= '0' && name[end-1] <= '9') {
		end--
	}
	return name[:end]
}
