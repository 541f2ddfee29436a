// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"
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
	dumps = oneJob(dumps, a.rest)
	slices.SortStableFunc(dumps, func(a, b *Dump) int {
		return cmp.Or(cmp.Compare(b.NewestNS, a.NewestNS), cmp.Compare(b.recorded(), a.recorded()))
	})
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

// recorded is the number of the last operation that is in the dump: of two of a rank the one that recorded more is later.
func (d *Dump) recorded() int64 {
	var id int64
	for i := range d.Entries {
		id = max(id, d.Entries[i].RecordID)
	}
	return id
}

// oneJob keeps the dumps of one job: directories keep those of jobs before it. Groups of all ranks that have different
// members are of different jobs; the one that wrote last counts. A dump that does not know that group can be of any. So do
// they keep what hung before, of ranks that died this time.
func oneJob(dumps []*Dump, rest map[*Dump]string) []*Dump {
	var latest *Dump
	worlds := map[*Dump]Group{}
	for _, d := range dumps {
		i := slices.IndexFunc(d.Groups, func(g Group) bool { return g.Desc == "default_pg" && len(g.Ranks) > 0 })
		if i < 0 {
			continue
		}
		worlds[d] = d.Groups[i]
		if latest == nil || d.NewestNS > latest.NewestNS {
			latest = d
		}
	}
	newest, patience := int64(0), int64(0)
	for _, d := range dumps {
		newest = max(newest, d.NewestNS)
		for i := range d.Entries {
			patience = max(patience, d.Entries[i].TimeoutMS*int64(time.Millisecond))
		}
	}
	return slices.DeleteFunc(slices.Clone(dumps), func(d *Dump) bool {
		w, ok := worlds[d]
		if !ok || w.ID == worlds[latest].ID {
			// Whoever stops makes the others stop, and after a timeout all of them dump: more than two apart is not one hang.
			stale := patience > 0 && patience < math.MaxInt64/4 && d.NewestNS > 0 && newest-d.NewestNS > 2*patience+int64(time.Minute)
			if stale {
				rest[d] = fmt.Sprintf("its last operation is %s older than the newest of all: it is of an earlier hang", time.Duration(newest-d.NewestNS).Round(time.Minute))
			}
			return stale
		}
		rest[d] = fmt.Sprintf("of another job, which wrote earlier: its group of all ranks has %d members, not %d", len(w.Ranks), len(worlds[latest].Ranks))
		return true
	})
}
