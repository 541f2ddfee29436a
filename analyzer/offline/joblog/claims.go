// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

// Claim is what a rank's log says of others: that they did not come to where it waited for them.
type Claim struct {
	By     int // -1 unknown.
	Absent []int
	What   string // What they did not come to: "monitored_barrier", "the store's key index_built/rank_1".
}

// Print is what the log says that a rank called, from the comparison of collectives that TORCH_DISTRIBUTED_DEBUG=DETAIL makes.
type Print struct {
	Rank  int
	Own   bool // It says so itself.
	Seq   int64
	Type  string
	Shape string
	Dtype string
}

var (
	rankInKey = regexp.MustCompile(`(?:^|/)rank[_-]?(\d+)(?:$|/)`)
	glooKey   = regexp.MustCompile(`(?:^|/)(?:cpu|cuda|gpu)//\d+/(\d+)$`) // Where gloo's rank leaves its address.
)

// listed gives the ranks of the further lines of a list like Horovod's: "1: [allreduce.a, allreduce.b]", which a message begins.
func (p *parser) listed(e *grammar.Event) (out []int) {
	const lines = 1024
	n := 0
	for line := range bytes.Lines(p.text[e.At:]) {
		n++
		m := listEntry.FindSubmatch(line)
		if n == 1 && !bytes.HasSuffix(bytes.TrimSpace(line), []byte(" ranks:")) || n > 2 && m == nil || n > lines {
			break
		}
		if n > 2 { // The message itself has the first.
			out = append(out, int(number(m[1])))
		}
	}
	return out
}

var listEntry = regexp.MustCompile(`^(?:\S* ?\D)??(\d{1,6}): \[`)

// claimed takes that one waits for others. What nobody known says of others makes no comparison, but is told.
func (p *parser) claimed(e *grammar.Event) {
	const mostSets = 64
	if came := told.Set(ranks(e.Get("came"))); len(came) > 0 {
		known := slices.ContainsFunc(p.came, func(a arrival) bool { return slices.Equal(a.ranks, came) })
		if !known && len(p.came) < mostSets {
			p.came = append(p.came, arrival{e, came})
		}
		return
	}
	c := p.claimOf(e)
	if c.By < 0 && e.Kind == grammar.WaitsFor {
		p.absent(e, c.Absent)
		return
	}
	if e.Kind == grammar.Key && len(c.Absent) == 0 && len(p.log.Findings) < mostFindings {
		f := told.New(grammar.LibraryWaits, "waited in vain for "+c.What)
		f.Rank, f.Order = c.By, e.At
		p.log.Findings = append(p.log.Findings, f)
	}
	p.claim(c)
}

// absent notes ranks that did not come, says nobody knows who.
func (p *parser) absent(e *grammar.Event, ranks []int) {
	for _, r := range ranks {
		f := told.New(grammar.Awaited, "did not come to "+e.Words()+": a process waited for it in vain")
		f.Plural = "did not come to " + e.Words() + ": a process waited for them in vain"
		f.Rank, f.Order = r, e.At
		p.log.Findings = append(p.log.Findings, f)
	}
}

// arrival is who came to an operation.
type arrival struct {
	*grammar.Event
	ranks []int
}

// arrivals says who did not come to where others wait; where ranks wait in different operations, that they disagree.
func (p *parser) arrivals() {
	highest := -1
	for i, a := range p.came {
		highest = max(highest, slices.Max(a.ranks))
		for _, b := range p.came[:i] {
			if !slices.ContainsFunc(a.ranks, func(r int) bool { return slices.Contains(b.ranks, r) }) {
				f := told.New(grammar.Disagree, "Ranks wait in different operations, each for the others: "+b.String()+", "+a.String())
				f.Whole, f.Order = true, b.At
				p.log.Findings = append(p.log.Findings, f)
				return
			}
		}
	}
	for _, a := range p.came {
		p.absent(a.Event, gaps(a.ranks, highest))
	}
}

func (a *arrival) String() string {
	return told.Ranks(a.ranks) + " in " + cut(cmp.Or(a.Get("what"), a.Words()))
}

// claimOf reads what one waits for.
func (p *parser) claimOf(e *grammar.Event) Claim {
	c := Claim{By: e.Int("by"), Absent: append(ranks(e.Get("ranks")), p.listed(e)...), What: e.Words()}
	switch {
	case e.Kind == grammar.Key:
		return p.key(e)
	case e.Get("value") != "" && e.Int("value") <= 0, // DeepEP: that rank has come.
		e.Get("group") != "": // A number in a group is no rank.
		c.Absent = nil
	case e.Kind == grammar.WaitsFor && strings.HasPrefix(c.What, "the start of"):
		// Both are places in a group. Where the speaker's is its rank, the other's is taken for one, too.
		if who, ok := p.speaker(e.At); !ok || who.rank != c.By || len(c.Absent) == 1 && c.Absent[0] == c.By {
			return Claim{By: maxRank}
		}
	case c.By < 0:
		if who, ok := p.speaker(e.At); ok {
			c.By = who.rank
		}
	}
	if slices.Contains(c.Absent, c.By) {
		c.By = -1 // It tells of all, and waits for nobody itself.
	}
	return c
}

// gaps are the numbers up to a highest that a list lacks.
func gaps(came []int, highest int) []int {
	var out []int
	const most = 4096
	for r := range min(len(came)+most, highest+1) {
		if !slices.Contains(came, r) {
			out = append(out, r)
		}
	}
	return out
}

// key reads a key of the store that nobody has set.
func (p *parser) key(e *grammar.Event) Claim {
	key := strings.TrimRight(e.Get("key"), `."')]`)
	// The store's clients put the group's name before the key.
	if _, rest, ok := strings.Cut(key, "//"); ok {
		key = rest
	}
	who, _ := p.speaker(e.At)
	c := Claim{By: who.rank, What: "the store's key " + key}
	if r := glooKey.FindStringSubmatch(key); r != nil {
		c.Absent, c.What = ranks(r[1]), "the making of a process group"
	} else if r := rankInKey.FindStringSubmatch(key); r != nil {
		c.Absent = ranks(r[1])
	}
	return c
}

type claimKey struct {
	by   int
	what string
}

func (p *parser) claim(c Claim) {
	const most = 4096
	if c.By >= maxRank {
		return
	}
	key := claimKey{c.By, c.What}
	i, ok := p.claims[key]
	switch {
	case ok:
		have := &p.log.Claims[i]
		if len(have.Absent) < most {
			have.Absent = told.Set(append(have.Absent, c.Absent...))
		}
	case len(p.log.Claims) < most:
		p.claims[key] = len(p.log.Claims)
		p.log.Claims = append(p.log.Claims, c)
	}
}

// print takes what the comparison of collectives shows of a rank; what a rank says of itself goes before what another says of it.
func (p *parser) print(e *grammar.Event) {
	const most = 4096
	f := Print{Own: e.Get("other") == "", Rank: e.Int("rank"), Seq: int64(e.Int("seq")), Type: e.Get("op"), Shape: e.Get("shape"), Dtype: e.Get("dtype")}
	if f.Rank < 0 || f.Rank >= maxRank {
		return
	}
	i, ok := p.prints[f.Rank]
	switch {
	case ok && f.Own && !p.log.Prints[i].Own:
		p.log.Prints[i] = f
	case !ok && len(p.log.Prints) < most:
		p.prints[f.Rank] = len(p.log.Prints)
		p.log.Prints = append(p.log.Prints, f)
	}
}

// elements is the number of a shape's elements; -1 unknown.
func (f *Print) elements() int64 {
	if f.Shape == "" {
		return -1
	}
	n := int64(1)
	for part := range strings.SplitSeq(f.Shape, ",") {
		d, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil || n > 1<<40 {
			return -1
		}
		n *= d
	}
	return n
}
