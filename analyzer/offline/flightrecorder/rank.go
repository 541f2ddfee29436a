// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
)

// A dump does not say whose it is: the file's name does by convention, and the groups confine it.

var (
	rankWord     = regexp.MustCompile(`(?i)(?:^|[^a-z])rank[_-]?0*(\d{1,7})(?:\D|$)`)
	rankTrailing = regexp.MustCompile(`0*?(\d{1,7})(?:\.[A-Za-z][A-Za-z0-9]*)*$`)
)

// RankInName reads the rank out of a dump's file name: PyTorch appends it to a prefix; people add extensions. -1: none.
func RankInName(name string) int {
	return inName(name, rankWord, rankTrailing)
}

// RankWordInName reads the rank out of a file name that says "rank" before it: -1 where a number means anything else.
func RankWordInName(name string) int { return inName(name, rankWord) }

func inName(name string, forms ...*regexp.Regexp) int {
	base := path.Base(name)
	for _, re := range forms {
		if m := re.FindAllStringSubmatch(base, -1); m != nil {
			if n, err := strconv.Atoi(m[len(m)-1][1]); err == nil && n < maxRanks {
				return n
			}
		}
	}
	return -1
}

// candidates gives the ranks that the dump's content allows: the members common to all its groups, narrowed by the
// rank's own place in send/recv. nil: anything.
func (d *Dump) candidates() []int {
	var common []int
	known := false
	narrow := func(members []int) {
		if !known {
			common, known = slices.Clone(members), true
			return
		}
		common = slices.DeleteFunc(common, func(r int) bool { return !slices.Contains(members, r) })
	}
	// The smallest groups first: the intersection is then small at once.
	groups := slices.Clone(d.Groups)
	slices.SortStableFunc(groups, func(a, b Group) int { return len(a.Ranks) - len(b.Ranks) })
	members := map[string][]int{}
	for _, g := range groups {
		if len(g.Ranks) > 0 {
			narrow(g.Ranks)
			members[g.Name] = g.Ranks
		}
	}
	for i := range d.Entries {
		e := &d.Entries[i]
		own := -1
		switch e.Name {
		case "send":
			own = e.Src
		case "recv":
			own = e.Dst
		}
		if m := members[e.Group]; own >= 0 && own < len(m) {
			narrow(m[own : own+1])
		}
	}
	if !known {
		return nil
	}
	return common
}

// Assigned is a dump whose rank is known.
type Assigned struct {
	*Dump
	Rank int
	// Doubt says how the rank was found where the file's name alone did not do.
	Doubt string
}

// Assign finds out whose dump each is. What cannot be told, or is told twice, comes back in rest with the reason.
func Assign(dumps []*Dump) (assigned []Assigned, rest map[*Dump]string) {
	a := assignment{taken: map[int]bool{}, open: map[*Dump][]int{}, rest: map[*Dump]string{}}
	dumps = slices.Clone(dumps)
	slices.SortStableFunc(dumps, func(a, b *Dump) int { return newest(b) - newest(a) })
	// Content that allows a single rank is stronger than any name; names come next, and then what is left over.
	a.byName(a.byContent(dumps))
	for a.byElimination(dumps) {
	}
	for d, allowed := range a.open {
		a.rest[d] = fmt.Sprintf("its groups allow ranks %v and its name does not decide", allowed)
	}
	slices.SortFunc(a.done, func(a, b Assigned) int { return a.Rank - b.Rank })
	return a.done, a.rest
}

// assignment is how far Assign has come.
type assignment struct {
	taken map[int]bool
	done  []Assigned
	open  map[*Dump][]int // Dumps of which only the ranks are known that they can be of.
	rest  map[*Dump]string
}

// onlyRank is the doubt about a dump that no name gives to its rank.
const onlyRank = "its groups allow only this rank"

func (a *assignment) take(d *Dump, rank int, doubt string) {
	a.taken[rank] = true
	a.done = append(a.done, Assigned{Dump: d, Rank: rank, Doubt: doubt})
}

// byContent assigns the dumps that can be of one rank only, and gives the others.
func (a *assignment) byContent(dumps []*Dump) (unsure []*Dump) {
	for _, d := range dumps {
		allowed := d.candidates()
		switch {
		case len(allowed) != 1:
			unsure = append(unsure, d)
		case a.taken[allowed[0]]:
			a.rest[d] = fmt.Sprintf("another dump of rank %d is newer", allowed[0])
		case d.named() == allowed[0]:
			a.take(d, allowed[0], "")
		default:
			a.take(d, allowed[0], onlyRank)
		}
	}
	return unsure
}

// byName assigns the dumps whose names say a rank that their content allows.
func (a *assignment) byName(dumps []*Dump) {
	for _, d := range dumps {
		named, allowed := d.named(), d.candidates()
		switch {
		case named >= 0 && (allowed == nil || slices.Contains(allowed, named)):
			if a.taken[named] {
				a.rest[d] = fmt.Sprintf("another dump of rank %d is newer or fits better", named)
			} else {
				a.take(d, named, "")
			}
		case len(allowed) > 0:
			a.open[d] = allowed
		default:
			a.rest[d] = "nothing in its name or content says which rank it is of"
		}
	}
}

// byElimination assigns the open dumps for which the taken ranks leave one; it reports whether there were any.
func (a *assignment) byElimination(dumps []*Dump) (changed bool) {
	for _, d := range dumps {
		allowed, ok := a.open[d]
		if !ok {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(allowed), func(r int) bool { return a.taken[r] })
		switch len(left) {
		case 1:
			a.take(d, left[0], onlyRank)
			delete(a.open, d)
			changed = true
		case 0:
			a.rest[d] = fmt.Sprintf("its groups allow only ranks %v, which have dumps already", allowed)
			delete(a.open, d)
		}
	}
	return changed
}

// named is the rank that the dump's writer or its file's name claims, -1 none.
func (d *Dump) named() int {
	if d.RankClaim >= 0 {
		return d.RankClaim
	}
	return RankInName(d.File)
}

// newest orders dumps of one rank: the one that recorded more is the later one.
func newest(d *Dump) int {
	var id int64
	for i := range d.Entries {
		id = max(id, d.Entries[i].RecordID)
	}
	return int(min(id, 1<<40))
}
