// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/stack"
)

// Said is what a page or a verdict says.
type Said struct {
	// Seconds since the fault; negative: before it. Without a fault: since the job trained.
	Seconds    float64   `json:"seconds"`
	Ranks      []int     `json:"ranks,omitempty"`
	Groups     []string  `json:"groups,omitempty"` // Of a verdict, where no single rank is meant.
	Host       string    `json:"host,omitempty"`
	GPU        string    `json:"gpu,omitempty"` // Of one rank.
	Class      rca.Class `json:"class"`
	Cause      rca.Cause `json:"cause"`
	Confidence float64   `json:"confidence,omitempty"`
	Page       bool      `json:"page,omitempty"` // A verdict that pages.
	// Over: the incident has ended. A verdict that never paged and is over was a warning about a pause that ended by itself.
	Over    bool   `json:"over,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// Seen is what came of a case.
type Seen struct {
	Fault stack.Fault
	Duty  Duty
	Rank  int    // Where the fault is,
	With  []int  // ranks that it befalls with it,
	Host  string // their host,
	GPU   string // and the GPU of the first.
	Stage int    // Of a drawn job's pipeline: the rank's.
	// Triggers are the names of the triggers that fired.
	Triggers []string
	Pages    []Said // In the order in which they came.
	Verdicts []Said // The incidents' last ones.
}

// Status says how a case ended.
type Status string

// Statuses.
const (
	Right   Status = "right"
	Unknown Status = "unknown" // Nobody was named, which the case allows.
	Wrong   Status = "wrong"
	Broken  Status = "broken" // It could not be run.
)

// Judgement is what is thought of a case.
type Judgement struct {
	Status Status `json:"status"`
	// PageSeconds is when the first right page came; 0: none was due.
	PageSeconds float64 `json:"page_seconds,omitempty"`
	Why         string  `json:"why,omitempty"` // What is wrong.
}

// Judge holds what was said against what is right.
func Judge(s *Seen) Judgement {
	if why := s.accusesInnocent(); why != "" {
		return Judgement{Status: Wrong, Why: why}
	}
	if s.Duty == Nobody {
		return Judgement{Status: Right}
	}
	page, named := s.firstPage()
	if !named {
		return s.unnamed()
	}
	if why := s.mistaken(page); why != "" {
		return Judgement{Status: Wrong, PageSeconds: page.Seconds, Why: why}
	}
	for i := range s.Verdicts {
		if v := &s.Verdicts[i]; v.Page {
			if why := s.mistaken(v); why != "" {
				return Judgement{Status: Wrong, PageSeconds: page.Seconds, Why: "the page is right, the verdict behind it is not: " + why}
			}
		}
	}
	return Judgement{Status: Right, PageSeconds: page.Seconds}
}

// accusesInnocent says which page should not have been sent, or which verdict names somebody else.
func (s *Seen) accusesInnocent() string {
	for i := range s.Pages {
		p := &s.Pages[i]
		switch {
		case s.Duty == Nobody:
			return "paged for nothing: " + p.Summary
		case p.Seconds < 0:
			return fmt.Sprintf("paged %.1f s before the fault: %s", -p.Seconds, p.Summary)
		case !s.onlyNames(p.Ranks):
			return fmt.Sprintf("paged for rank %v, who is innocent: %s", p.Ranks, p.Summary)
		case len(p.Ranks) == 0 && p.Host != "" && p.Host != s.Host:
			return fmt.Sprintf("paged for host %s, which is innocent: %s", p.Host, p.Summary)
		}
	}
	for i := range s.Verdicts {
		// A pause that is not paged for may well be told of the rank that makes it.
		v := &s.Verdicts[i]
		if v.Over && !v.Page {
			continue
		}
		if !s.onlyNames(v.Ranks) || s.Fault.Kind() == "none" && len(v.Ranks) > 0 {
			return fmt.Sprintf("a verdict names rank %v, who is innocent: %s", v.Ranks, v.Summary)
		}
	}
	return ""
}

// onlyNames says whether ranks are none but those with the fault.
func (s *Seen) onlyNames(ranks []int) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool { return r != s.Rank && !slices.Contains(s.With, r) })
}

// firstPage gives the first page that names somebody.
func (s *Seen) firstPage() (*Said, bool) {
	for i := range s.Pages {
		if len(s.Pages[i].Ranks) > 0 {
			return &s.Pages[i], true
		}
	}
	return nil, false
}

// unnamed judges that nobody was named.
func (s *Seen) unnamed() Judgement {
	switch {
	case s.Duty == MustName && len(s.Pages) > 0:
		return Judgement{Status: Wrong, Why: "the page names nobody: " + s.Pages[0].Summary}
	case s.Duty == MustName && len(s.Verdicts) > 0:
		v := s.Verdicts[len(s.Verdicts)-1]
		return Judgement{Status: Wrong, Why: fmt.Sprintf("nobody was paged; the verdict: %s, %s: %s", v.Class, v.Cause, v.Summary)}
	case s.Duty == MustName:
		return Judgement{Status: Wrong, Why: fmt.Sprintf("nobody was paged; triggers: %v", s.Triggers)}
	case s.Duty == MayBeUnknown && len(s.Triggers) == 0:
		return Judgement{Status: Wrong, Why: "the job stands still and no trigger fired"}
	}
	return Judgement{Status: Unknown}
}

// mistaken says what is wrong with what names the right rank.
func (s *Seen) mistaken(said *Said) string {
	v := rca.Verdict{Class: said.Class, Cause: said.Cause, Culprits: []rca.Culprit{{Rank: s.Rank}}}
	switch {
	case !s.Fault.Named(&v, s.Rank):
		return fmt.Sprintf("class %s, cause %s; want one of %v, %v: %s", said.Class, said.Cause, s.Fault.Classes, s.Fault.Causes, said.Summary)
	case said.Host != s.Host:
		return fmt.Sprintf("host %q, want %q: %s", said.Host, s.Host, said.Summary)
	case said.GPU == "" && s.Fault.Kind() == "init-hang": // NCCL tells of a GPU when a communicator is made.
	case len(said.Ranks) == 1 && said.GPU != s.GPU:
		return fmt.Sprintf("GPU %q, want %q: %s", said.GPU, s.GPU, said.Summary)
	}
	return ""
}

// pageSaid gives what an alert that paged somebody says; zero is the moment of the fault.
func pageSaid(labels, annotations map[string]string, at, zero time.Time) Said {
	s := Said{
		Seconds: at.Sub(zero).Seconds(), Host: labels["host"], GPU: labels["gpu"], Page: true,
		Class: rca.Class(labels["class"]), Cause: rca.Cause(labels["cause"]), Summary: annotations["summary"],
	}
	s.Ranks = ranksOf(labels["rank"])
	return s
}

// ranksOf reads an alert's label rank: one rank, or those of a process in short, as in 0,4-7.
func ranksOf(label string) []int {
	var ranks []int
	for part := range strings.SplitSeq(label, ",") {
		low, high, several := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil
		}
		last := first
		if several {
			if last, err = strconv.Atoi(high); err != nil {
				return nil
			}
		}
		for r := first; r <= last; r++ {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// verdictSaid gives what an incident's verdict says.
func verdictSaid(v *rca.Verdict, over bool) Said {
	s := Said{Over: over, Class: v.Class, Cause: v.Cause, Confidence: v.Confidence, Page: v.Page, Summary: v.Summary}
	for i := range v.Culprits {
		if c := &v.Culprits[i]; c.Rank >= 0 {
			s.Ranks = append(s.Ranks, c.Rank)
			s.Host, s.GPU = c.Host, c.GPU
		} else if v.Class != rca.Unknown && c.Group+c.Host != "" {
			s.Groups = append(s.Groups, cmp.Or(c.Group, c.Host))
		}
	}
	return s
}
