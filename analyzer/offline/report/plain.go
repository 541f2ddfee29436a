// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/culprit-project/culprit/internal/terminal"
)

// Plain gives a text on one line, without what a terminal would obey.
func Plain(text string) string { return terminal.Line(text) }

// painting finds the sequences that Style.paint makes.
var painting = regexp.MustCompile("\x1b\\[(?:0|2|1|1;3[123])m")

// plain gives a printed report without what a terminal would obey, but for colours where they are wanted.
func plain(text []byte, color bool) []byte {
	clean := func(part []byte) []byte {
		return bytes.Map(func(r rune) rune { return terminal.Visible(r, '\n') }, part)
	}
	if !color {
		return clean(text)
	}
	var out []byte
	for {
		at := painting.FindIndex(text)
		if at == nil {
			return append(out, clean(text)...)
		}
		out = append(append(out, clean(text[:at[0]])...), text[at[0]:at[1]]...)
		text = text[at[1]:]
	}
}

// oneLine gives arguments of a printed line, of which a text with lines of its own could pass for others of the report.
func oneLine(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if text, ok := a.(string); ok {
			a = strings.ReplaceAll(text, "\n", " ")
		}
		out[i] = a
	}
	return out
}
