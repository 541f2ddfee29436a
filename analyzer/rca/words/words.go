// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package words phrases the engine's findings in English.
package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Opener turns the first letter of s into a capital, to begin a sentence.
func Opener(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Span formats a duration for people.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "unknown time"
	case d > 0 && d < 100*time.Millisecond:
		return strconv.FormatInt(max(1, d.Round(time.Millisecond).Milliseconds()), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Round(100*time.Millisecond))/1e9, 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.FormatFloat(d.Hours(), 'f', 1, 64) + " h"
	}
	return Count(int(d.Hours()/24)) + " days"
}

// Count writes a number with commas: 10,240.
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural says "1 rank" or "3 ranks".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}

// RankNumbers names ranks briefly: "ranks 1, 2, 3", cut after a few.
func RankNumbers(ids []int) string {
	const few = 8
	if len(ids) == 0 {
		return "unseen ranks"
	}
	s := "ranks "
	if len(ids) == 1 {
		s = "rank "
	}
	for i, id := range ids {
		if i == few {
			return s + fmt.Sprintf(" and %d more", len(ids)-few)
		}
		if i > 0 {
			s += ", "
		}
		s += strconv.Itoa(id)
	}
	return s
}

// waiting finds the sentence of a summary that says how long ranks have been waiting.
var waiting = regexp.MustCompile(` (?:At least )?[0-9,]+ ranks? (?:has|have) been waiting\b[^.]*(?: for [0-9.]+ (?:ms|s|min|h|days))?\.( |$)`)

// WithoutWait leaves out of a summary how long ranks had been waiting when it was written: what shows it later has the time of day.
func WithoutWait(summary string) string {
	return strings.TrimSpace(waiting.ReplaceAllString(summary, "$1"))
}
