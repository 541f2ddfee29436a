// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

// speaker is whose message it is.
type speaker struct {
	rank      int    // Global.
	group     string // The process group's unique name, else its number; empty unknown.
	desc      string
	groupRank int // -1 unknown.
}

var (
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
	if m := last(grammar.RankLabel, head); m != nil {
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
	case who.groupRank < 0:
		return who, false
	case p.named && !p.begins(start, at):
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

// cutLine is a line of PyTorch's logger that a terminal broke before its message.
var cutLine = regexp.MustCompile(`\.cpp:\d+\]\s*$`)

// begins says that a message begins its line with its speaker, as it does where a paste lacks the beginning of the line.
func (p *parser) begins(start, at int) bool {
	line := p.text[start:at]
	before := []byte(nil)
	if i := bytes.LastIndexByte(line, '\n'); i >= 0 {
		line, before = line[i+1:], line[:i]
	}
	return placeOnly.MatchString(strings.TrimSpace(string(line))) && !cutLine.Match(before) && !repeats.Match(before)
}

var (
	placeOnly = regexp.MustCompile(`^(?:\[[EWI][\w .:]*\.cpp:\d+\] ?)?(?:\[(?:PG [^\]]*|)Rank \d+\]) ?$`)
	// repeats ends the line before a message that is said again.
	repeats = regexp.MustCompile(`(?:with exception|what\(\)|Error|Exception):\s*$`)
)

// defaultGroup is how PyTorch describes the group of all ranks.
const defaultGroup = "default_pg"

func last(re *regexp.Regexp, text []byte) [][]byte {
	all := re.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// unlabelled gives a host's name without labels of launchers, which stand before it without a blank.
func unlabelled(host string) string {
	return host[strings.LastIndexAny(host, ":]>")+1:]
}
