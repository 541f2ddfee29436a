// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package optable

import (
	"regexp"
	"strings"
)

// notation is how a table writes numbers: spreadsheets write them as their country does.
type notation int

const (
	plain        notation = iota // 1234.5
	decimalComma                 // 1.234,5
	groupedComma                 // 1,234.5
)

var (
	withComma = regexp.MustCompile(`^-?\d+,\d+$|^-?\d{1,3}(?:\.\d{3})+,\d+$`)
	inGroups  = regexp.MustCompile(`^-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?$`)
)

// notationOf tells it from some of a table's cells. What can only be a fraction decides; otherwise groups of three digits
// are groups.
func notationOf(cells []string) notation {
	n := plain
	for _, s := range cells {
		s = strings.TrimSpace(s)
		switch {
		case inGroups.MatchString(s):
			n = groupedComma
		case withComma.MatchString(s):
			return decimalComma
		}
	}
	return n
}

// plain gives a number as Go reads it; what is no number in the notation comes back as it is.
func (n notation) plain(s string) string {
	t := strings.TrimSpace(s)
	switch {
	case n == decimalComma && withComma.MatchString(t):
		return strings.Replace(strings.ReplaceAll(t, ".", ""), ",", ".", 1)
	case n == groupedComma && inGroups.MatchString(t):
		return strings.ReplaceAll(t, ",", "")
	}
	return s
}
