// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"regexp"
)

// speaker is whose message it is.
type speaker struct {
	rank      int    // Global.
	group     string // The process group's unique name, else its number; empty unknown.
	desc      string
	groupRank int // -1 unknown.
}

var (
	// rankPrefix is what PyTorch puts before every message of a process, since 2.2.
	rankPrefix = regexp.MustCompile(`\[rank(\d+)[\]\[]`)
	// mpiPrefix is what mpirun puts there, with --tag-output.
	mpiPrefix = regexp.MustCompile(`^\s*\[\d+,(\d+)\]`)
	// groupParts are the forms of "[PG ID 0 PG GUID 0(default_pg) Rank 3]", newest first.
	groupParts = []*regexp.Regexp{
		regexp.MustCompile(`\[PG ID (\d+) PG GUID ([^\s(\]]+) ?(?:\(([^)]*)\))? ?Rank (\d+)\]`),
		regexp.MustCompile(`\[PG (\d+)()(?: \(([^)]*)\))? Rank (\d+)\]`),
		regexp.MustCompile(`\[PG ([^\s(\]]+)()(?: \(([^)]*)\))? Rank (\d+)\]`),
	}
	placePart = regexp.MustCompile(`\[Rank (\d+)\]`)
)

// speaker finds out who says what begins at an offset: from the beginning of its line, or, where lines were broken, of
// the one before.
func (p *parser) speaker(at int) (speaker, bool) {
	who := speaker{rank: -1, groupRank: -1}
	const before = 400
	start := max(0, at-before)
	head := p.text[start:at]
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		head = head[i+1:]
	}
	// A message may follow another on its line: what is nearest counts.
	if m := last(rankPrefix, head); m != nil {
		who.rank = int(number(m[1]))
	} else if m := mpiPrefix.FindSubmatch(head); m != nil {
		who.rank = int(number(m[1]))
	}
	for _, re := range groupParts {
		m := last(re, head)
		if m == nil {
			continue
		}
		who.group, who.desc, who.groupRank = string(m[2]), string(m[3]), int(number(m[4]))
		if who.group == "" {
			who.group = string(m[1])
		}
		break
	}
	if m := last(placePart, head); m != nil && who.groupRank < 0 {
		who.groupRank = int(number(m[1]))
	}
	switch {
	case who.rank >= 0:
	case p.rank >= 0 && !p.named:
		who.rank = p.rank
	case p.named || who.groupRank < 0:
		return who, false // A repetition in an exception's text.
	default:
		who.rank = who.groupRank
		p.log.Assumed = p.log.Assumed || who.desc != defaultGroup && who.group != "0"
	}
	if who.rank >= maxRank {
		return who, false
	}
	if who.desc == "undefined" {
		who.desc = ""
	}
	return who, true
}

// defaultGroup is how PyTorch describes the group of all ranks.
const defaultGroup = "default_pg"

func last(re *regexp.Regexp, text []byte) [][]byte {
	all := re.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}
