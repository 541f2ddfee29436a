// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fate is what became of a drawn job.
type Fate string

// Fates.
const (
	FateRight    Fate = "right"   // The rank is named with class and cause; or rightly nobody.
	FateWider    Fate = "wider"   // A host, link or group is named that the rank is in.
	FateUnknown  Fate = "unknown" // Somebody is paged and nobody named, where the source can tell.
	FateMissed   Fate = "missed"  // Nobody is paged, where the source can tell.
	FateUnnamed  Fate = "unnamed" // Nobody is named, and the source cannot always tell.
	FateWrong    Fate = "wrong"   // The rank is named, and a wrong class, cause, host or GPU.
	FateInnocent Fate = "innocent"
	FateNone     Fate = "no effect" // The fault changed nothing, and nobody is named.
	FateBroken   Fate = "broken"    // It could not be run.
)

// Fates are all of them, in the order of reports.
var Fates = []Fate{FateRight, FateWider, FateUnknown, FateMissed, FateUnnamed, FateWrong, FateInnocent, FateNone, FateBroken}

// Failed says whether something has to be done about it: its evidence is kept.
func (f Fate) Failed() bool { return f.Breaks() || f == FateUnknown }

// Breaks says whether a run with such a job is wrong. That nobody is named is honest.
func (f Fate) Breaks() bool {
	return f == FateInnocent || f == FateWrong || f == FateMissed || f == FateBroken
}

// fate judges what was said of a drawn job. The seconds are those to the first page that names the rank.
func (s *Seen) fate(effect bool) (Fate, float64, string) {
	if why := s.accusesInnocent(); why != "" {
		return FateInnocent, 0, why
	}
	if why := s.accusesInnocentGroup(); why != "" {
		return FateInnocent, 0, why
	}
	if s.Duty == Nobody {
		return FateRight, 0, ""
	}
	page, named := s.firstPage()
	if !named {
		fate, why := s.unnamedFate(effect)
		return fate, 0, why
	}
	if why := s.mistaken(page); why != "" {
		return FateWrong, page.Seconds, why
	}
	for i := range s.Verdicts {
		if v := &s.Verdicts[i]; v.Page && len(v.Ranks) > 0 {
			if why := s.mistaken(v); why != "" {
				return FateWrong, page.Seconds, "the page is right, the verdict behind it is not: " + why
			}
		}
	}
	return FateRight, page.Seconds, ""
}

// accusesInnocentGroup says which verdict that pages names a group without the faulty rank.
func (s *Seen) accusesInnocentGroup() string {
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		if j := slices.IndexFunc(v.Groups, func(g string) bool { return !s.inGroup(g) }); v.Page && j >= 0 {
			return fmt.Sprintf("a verdict names %s, which is innocent: %s", v.Groups[j], v.Summary)
		}
	}
	return ""
}

var (
	groupOfRanks = regexp.MustCompile(`\branks? \d+|^link \d+`)
	groupNumbers = regexp.MustCompile(`\d+`)
	groupStage   = regexp.MustCompile(`\bstage (\d+)`)
	groupHost    = regexp.MustCompile(`\bnode\d+\b`)
)

// inGroup says whether the faulty rank is in a group that a verdict names, as far as the group's name says of whom it is.
func (s *Seen) inGroup(group string) bool {
	switch {
	case groupHost.MatchString(group) && slices.Contains(groupHost.FindAllString(group, -1), s.Host):
		return true
	case groupOfRanks.MatchString(group):
		return slices.Contains(groupNumbers.FindAllString(group, -1), strconv.Itoa(s.Rank))
	case groupStage.MatchString(group):
		return groupStage.FindStringSubmatch(group)[1] == strconv.Itoa(s.Stage)
	}
	return !groupHost.MatchString(group)
}

// unnamedFate judges that no page names a rank.
func (s *Seen) unnamedFate(effect bool) (Fate, string) {
	last := ""
	wider := slices.ContainsFunc(s.Pages, func(p Said) bool { return p.Host != "" })
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		last = fmt.Sprintf("; the verdict: %s, %s: %s", v.Class, v.Cause, v.Summary)
		wider = wider || v.Page && len(v.Groups) > 0
	}
	switch {
	case wider:
		return FateWider, strings.TrimPrefix(last, "; ")
	case !effect:
		return FateNone, ""
	case s.Duty == MustName && len(s.Pages) > 0:
		return FateUnknown, "the page names nobody: " + s.Pages[0].Summary + last
	case s.Duty == MustName, s.Duty == MayBeUnknown && len(s.Triggers) == 0:
		return FateMissed, fmt.Sprintf("nobody was paged; triggers: %v%s", s.Triggers, last)
	}
	return FateUnnamed, ""
}
