// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxNames bounds how many names one expression may stand for.
const maxNames = 1 << 20

// expand gives the names that a Slurm host list stands for: "tux[0-3,12]-ib,login" is tux0-ib, tux1-ib and so on.
func expand(list string) ([]string, error) {
	var out []string
	for _, item := range splitList(list) {
		names, err := expandOne(item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if out = append(out, names...); len(out) > maxNames {
			return nil, errors.New("it stands for too many names")
		}
	}
	return out, nil
}

// splitList splits at commas outside brackets.
func splitList(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range list {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			out = append(out, list[from:i])
			from = i + 1
		}
	}
	out = append(out, list[from:])
	kept := out[:0]
	for _, item := range out {
		if item = strings.TrimSpace(item); item != "" {
			kept = append(kept, item)
		}
	}
	return kept
}

func expandOne(item string) ([]string, error) {
	open := strings.IndexByte(item, '[')
	if open < 0 {
		if strings.ContainsRune(item, ']') {
			return nil, errors.New("a bracket is closed that was not opened")
		}
		return []string{item}, nil
	}
	end := strings.IndexByte(item[open:], ']')
	if end < 0 {
		return nil, errors.New("a bracket is not closed")
	}
	end += open
	rest, err := expandOne(item[end+1:])
	if err != nil {
		return nil, err
	}
	var out []string
	for part := range strings.SplitSeq(item[open+1:end], ",") {
		numbers, err := expandRange(part)
		if err != nil {
			return nil, err
		}
		if (len(out)+len(numbers))*len(rest) > maxNames {
			return nil, errors.New("it stands for too many names")
		}
		for _, n := range numbers {
			for _, r := range rest {
				out = append(out, item[:open]+n+r)
			}
		}
	}
	return out, nil
}

// expandRange gives "03" to "12" for "03-12": it keeps the width of the first number.
func expandRange(part string) ([]string, error) {
	low, high, ranged := strings.Cut(strings.TrimSpace(part), "-")
	a, err := strconv.ParseUint(low, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%q is no number", low)
	}
	if !ranged {
		return []string{low}, nil
	}
	b, err := strconv.ParseUint(high, 10, 31)
	if err != nil || b < a || b-a >= maxNames {
		return nil, fmt.Errorf("%q is no range", part)
	}
	out := make([]string, 0, b-a+1)
	for n := a; n <= b; n++ {
		out = append(out, fmt.Sprintf("%0*d", len(low), n))
	}
	return out, nil
}
