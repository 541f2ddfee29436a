// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

import "strings"

// fromReference converts a time on the reference's clock back.
func (l *line) fromReference(ref int64) int64 {
	own := ref - int64(l.offset)
	return ref - int64(l.offset+l.slope*float64(own-l.at))
}

// opposite turns a send into the receive that matches it, and back.
func opposite(fn string) string {
	for _, p := range [][2]string{{"Send", "Recv"}, {"send", "recv"}} {
		switch {
		case strings.HasSuffix(fn, p[0]):
			return strings.TrimSuffix(fn, p[0]) + p[1]
		case strings.HasSuffix(fn, p[1]):
			return strings.TrimSuffix(fn, p[1]) + p[0]
		}
	}
	return fn
}
