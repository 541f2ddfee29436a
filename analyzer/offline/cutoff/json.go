// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cutoff makes documents readable that end too early: of full disks, killed writers, copies that broke off.
package cutoff

import "slices"

// JSON ends a document that is cut off, after the last member that is surely whole. A whole document comes back as it is.
func JSON(data []byte) []byte {
	var open, closers []byte
	whole := 0
	inString, escaped := false, false
	for i, b := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		case b == '"':
			inString = true
		case b == '{':
			open = append(open, '}')
		case b == '[':
			open = append(open, ']')
		case (b == '}' || b == ']') && len(open) > 0:
			open = open[:len(open)-1]
			whole, closers = i+1, append(closers[:0], open...)
		case b == ',':
			whole, closers = i, append(closers[:0], open...)
		}
	}
	if len(open) == 0 && !inString {
		return data
	}
	slices.Reverse(closers)
	return append(slices.Clone(data[:whole]), closers...)
}
