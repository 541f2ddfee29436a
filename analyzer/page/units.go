// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

func count(n int) string { return words.Count(n) }

// ranks says "1 rank" or "10,240 ranks".
func ranks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return count(n) + " ranks"
}

// size writes bytes for people, in powers of ten as disks and networks count.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	v, i := float64(n), 0
	for math.Round(v) >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	digits := 0
	if i > 0 && v < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + units[i]
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + "%" }

// seconds writes a duration given in seconds.
func seconds(s float64) string {
	if s < 1 {
		return strconv.FormatFloat(math.Round(s*1000), 'f', 0, 64) + " ms"
	}
	return words.Span(time.Duration(s * float64(time.Second)))
}

// short writes a duration given in seconds that may be far less than one.
func short(s float64) string {
	if s < 0.001 {
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " µs"
	}
	if s < 0.1 {
		return strconv.FormatFloat(s*1e3, 'f', 1, 64) + " ms"
	}
	return seconds(s)
}

// stamp is a moment in UTC; the page's script adds the reader's own time.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// took says how long an incident has been open, or lasted.
func took(inc *incident.Incident, now time.Time) string {
	if inc.ResolvedAt != nil {
		return "lasted " + words.Span(max(0, inc.ResolvedAt.Sub(inc.OpenedAt)))
	}
	return "open for " + words.Span(max(0, now.Sub(inc.OpenedAt)))
}

// listParts is how many numbers or stretches of numbers a list of ranks shows.
const listParts = 8

// list writes rank numbers in short, "0–3, 7", and how many more there are of a total.
func list(numbers []int, total int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	shown := 0
	for i := 0; i < len(sorted) && len(parts) < listParts; {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, strconv.Itoa(sorted[i]))
		case j == i+1:
			parts = append(parts, strconv.Itoa(sorted[i]), strconv.Itoa(sorted[j]))
		default:
			parts = append(parts, strconv.Itoa(sorted[i])+"–"+strconv.Itoa(sorted[j]))
		}
		shown += j - i + 1
		i = j + 1
	}
	s := strings.Join(parts, ", ")
	if more := max(total, len(sorted)) - shown; more > 0 {
		s += cmp.Or(map[bool]string{true: " and "}[s != ""], "") + count(more) + " more"
	}
	return s
}

// named says "rank 5" or "ranks 0–3".
func named(numbers []int, total int) string {
	switch {
	case max(total, len(numbers)) == 1 && len(numbers) == 1:
		return "rank " + strconv.Itoa(numbers[0])
	case len(numbers) == 0:
		return ranks(total)
	}
	return "ranks " + list(numbers, total)
}

// cut shortens a text to so many characters.
func cut(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}
