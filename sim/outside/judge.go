// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
)

// truth is what was wrong, as the file beside a case says.
type truth struct {
	Ranks []int  // Whoever is at fault; none: nobody, or the files do not tell.
	Cause string // A pattern that an answer must match; none: whom to blame is all there is to say.
}

// answer is what a tool says.
type answer struct {
	read  bool // It took the files for something that it knows.
	ranks []int
	text  string // Its headline: what a person sees first.
}

// Judgements, the best first.
const (
	right   = "right"
	wider   = "wider" // It names others as well, or some of several, or the cause and not whose it is.
	unknown = "unknown"
	wrong   = "wrong" // It names an innocent.
	notRead = "not read"
)

var judgements = []string{right, wider, unknown, wrong, notRead}

func (t truth) judge(a answer) string {
	innocent := slices.ContainsFunc(a.ranks, func(r int) bool { return !slices.Contains(t.Ranks, r) })
	missed := slices.ContainsFunc(t.Ranks, func(r int) bool { return !slices.Contains(a.ranks, r) })
	says := regexp.MustCompile(t.Cause).MatchString(a.text)
	switch {
	case !a.read:
		return notRead
	case innocent && (missed || len(t.Ranks) == 0):
		return wrong
	case innocent, missed && len(a.ranks) > 0, missed && says && t.Cause != "", !missed && !says && len(t.Ranks) > 0:
		return wider
	case missed, !says:
		return unknown
	}
	return right
}
