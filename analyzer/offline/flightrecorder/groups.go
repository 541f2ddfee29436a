// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"slices"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// localNames finds out which group each of the dump's local numbers is. Entries say it for theirs. The others are in
// the same order as the groups' names, as both count creations: exactly when a stretch between two known ones has as
// many numbers as names. Names that are no numbers have no order; then a peer's numbering of the same group helps.
func (d *Dump) localNames(peers map[rca.CommID]int64) map[int64]string {
	names := map[int64]string{}
	used := map[string]bool{}
	for i := range d.Entries {
		if e := &d.Entries[i]; e.GroupID >= 0 {
			names[e.GroupID] = e.Group
			used[e.Group] = true
		}
	}
	ids := make([]int64, 0, len(d.Status))
	for id := range d.Status {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	order, numeric := creationOrder(d.Groups)
	if numeric {
		byStretch(ids, order, names, used)
	}
	if peers == nil {
		return names
	}
	for _, g := range d.Groups {
		id, ok := peers[g.ID]
		if _, have := d.Status[id]; ok && have && !used[g.Name] && names[id] == "" {
			names[id] = g.Name
			used[g.Name] = true
		}
	}
	return names
}

// byStretch fills in names between known pairs where the counts agree.
func byStretch(ids []int64, order []string, names map[int64]string, used map[string]bool) {
	lastID, lastName := 0, 0
	for i := 0; i <= len(ids); i++ {
		at := len(order)
		if i < len(ids) {
			name, known := names[ids[i]]
			if !known {
				continue
			}
			if at = slices.Index(order, name); at < 0 {
				continue // The group's configuration is not in the dump.
			}
		}
		if at-lastName == i-lastID {
			for k := range i - lastID {
				names[ids[lastID+k]] = order[lastName+k]
				used[order[lastName+k]] = true
			}
		}
		lastID, lastName = i+1, at+1
	}
}

// creationOrder sorts names that are numbers.
func creationOrder(groups []Group) (names []string, numeric bool) {
	numbers := map[string]int64{}
	for _, g := range groups {
		n, err := strconv.ParseInt(g.Name, 10, 64)
		if err != nil {
			return nil, false
		}
		numbers[g.Name] = n
		names = append(names, g.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(numbers[a] - numbers[b]) })
	return names, len(names) > 0
}

// agreedNumbers gives local numbers of groups on which all dumps agree whose entries name the group.
func agreedNumbers(dumps []Assigned, ids func(a *Assigned, group string) rca.CommID) map[rca.CommID]int64 {
	agreed := map[rca.CommID]int64{}
	split := map[rca.CommID]bool{}
	for i := range dumps {
		seen := map[int64]bool{}
		for j := range dumps[i].Entries {
			e := &dumps[i].Entries[j]
			if e.GroupID < 0 || seen[e.GroupID] {
				continue
			}
			seen[e.GroupID] = true
			id := ids(&dumps[i], e.Group)
			if n, ok := agreed[id]; ok && n != e.GroupID {
				split[id] = true
			}
			agreed[id] = e.GroupID
		}
	}
	for id := range split {
		delete(agreed, id)
	}
	return agreed
}
