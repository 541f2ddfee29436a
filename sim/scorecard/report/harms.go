// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"

	"github.com/culprit-project/culprit/sim/scorecard/harm"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// HarmScore is how verdicts fare under one harm.
type HarmScore struct {
	Harm     string `json:"harm"`
	Clean    Share  `json:"clean_right"` // The same runs without the harm.
	Right    Share  `json:"right"`
	Wider    Share  `json:"wider"`
	Unknown  Share  `json:"unknown"`
	Missed   Share  `json:"missed"`
	Liar     Share  `json:"liar"`
	Innocent Share  `json:"innocent"`
	Paged    Share  `json:"innocent_paged"` // Somebody is woken for an innocent.
	// Said is the mean confidence of the verdicts that are not unknown, Was how many of those are right.
	Said float64 `json:"said"`
	Was  Share   `json:"was"`
}

// allTogether is the name of the sum of all harms.
const allTogether = "all together"

// scoreHarms counts fates, harm by harm and then all together; nothing when nothing was harmed.
func scoreHarms(effective []judge.Outcome) []HarmScore {
	var out []HarmScore
	for _, name := range append(harm.Names(), allTogether) {
		if s := scoreHarm(effective, name); s.Right.Of > 0 {
			out = append(out, s)
		}
	}
	return out
}

func scoreHarm(effective []judge.Outcome, name string) HarmScore {
	s := HarmScore{Harm: name}
	fates := map[string]int{}
	n, clean, paged, said := 0, 0, 0, 0
	for i := range effective {
		o := &effective[i]
		for k := range o.Harmed {
			h := &o.Harmed[k]
			if h.Harm != name && name != allTogether {
				continue
			}
			n++
			fate := h.Fate()
			fates[fate]++
			if o.Right && !o.False {
				clean++
			}
			if fate == judge.FateInnocent && h.Page {
				paged++
			}
			if !h.Unknown {
				said++
				s.Said += h.Confidence
				if fate == judge.FateRight {
					s.Was.Hits++
				}
			}
		}
	}
	of := func(hits, n int) Share {
		low, high := wilson(hits, n)
		return Share{Hits: hits, Of: n, Low: low, High: high}
	}
	s.Clean, s.Paged = of(clean, n), of(paged, n)
	s.Right, s.Wider, s.Unknown = of(fates[judge.FateRight], n), of(fates[judge.FateWider], n), of(fates[judge.FateUnknown], n)
	s.Missed, s.Liar, s.Innocent = of(fates[judge.FateMissed], n), of(fates[judge.FateLiar], n), of(fates[judge.FateInnocent], n)
	s.Was = of(s.Was.Hits, said)
	s.Said /= float64(max(1, said))
	return s
}

// harmedAll is the sum of all harms.
func harmedAll(s *Summary) HarmScore {
	for i := range s.Harms {
		if s.Harms[i].Harm == allTogether {
			return s.Harms[i]
		}
	}
	return HarmScore{}
}

// asOutcomes gives the verdicts under harm as outcomes of their own.
func asOutcomes(list []judge.Outcome) []judge.Outcome {
	var out []judge.Outcome
	for i := range list {
		for k := range list[i].Harmed {
			h := &list[i].Harmed[k]
			o := list[i]
			o.Name, o.Harmed, o.Methods = list[i].Name+" "+h.Harm, nil, nil
			o.Said, o.Judgement = h.Said, h.Judgement
			out = append(out, o)
		}
	}
	return out
}

func (r *Report) harmTable() table {
	t := table{
		title: "Under harm",
		note: "The same moments with worse evidence, drawn by the run's name. *Wider*: a group or host with the culprit in it, both sides of a disagreement, or the culprit with the wrong class. *Missed*: nobody named, without saying unknown. " +
			"*The liar*: whoever is accused is on the host that lies, whose word is all there is of it. *Said* is the mean confidence of verdicts that are not unknown, beside how many of those are right.",
		head: []string{"harm", "what", "runs", "right without it", "right", "wider", "unknown", "missed", "the liar", "an innocent", "said", "was right"},
	}
	for i := range r.Summary.Harms {
		s := &r.Summary.Harms[i]
		what := ""
		if h := harm.Named(s.Harm); h != nil {
			what = h.What
		}
		t.rows = append(t.rows, []string{
			s.Harm, what, strconv.Itoa(s.Right.Of), pct(s.Clean), pct(s.Right), pct(s.Wider), pct(s.Unknown), pct(s.Missed), pct(s.Liar),
			s.Innocent.String(), fmt.Sprintf("%.2f", s.Said), fmt.Sprintf("%.2f", s.Was.Value()),
		})
	}
	return t
}

func (r *Report) harmedReliabilityTable() table {
	t := table{
		title: "Reliability under harm",
		note:  fmt.Sprintf("As above, of the verdicts on spoiled evidence. Expected calibration error %.3f, before calibration %.3f.", r.Summary.HarmedCalibration, r.Summary.HarmedUncalibrated),
		head:  []string{"confidence", "mean", "right"},
	}
	for _, b := range r.Summary.HarmedReliability {
		t.rows = append(t.rows, b.row())
	}
	return t
}

func (b *Bin) row() []string {
	return []string{fmt.Sprintf("%.1f–%.1f", b.From, b.To), fmt.Sprintf("%.2f", b.Confidence), b.Right.String()}
}

func (r *Report) harmFailures() table {
	t := table{
		title: "Innocents accused under harm",
		head:  []string{"run and harm", "truth", "verdict", "confidence", "pages"},
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		for k := range o.Harmed {
			h := &o.Harmed[k]
			if h.Fate() != judge.FateInnocent {
				continue
			}
			if len(t.rows) == maxFailures {
				t.rows = append(t.rows, []string{"and more: see the JSON", "", "", "", ""})
				return t
			}
			t.rows = append(t.rows, []string{
				o.Name + " " + h.Harm, fmt.Sprintf("%s %v", o.TruthClass, judge.Short(o.TruthRanks)),
				fmt.Sprintf("%s/%s %v%v", h.Class, h.Cause, judge.Short(h.Culprits), h.Groups[:min(1, len(h.Groups))]),
				fmt.Sprintf("%.2f", h.Confidence), strconv.FormatBool(h.Page),
			})
		}
	}
	return t
}
