// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package terminal prints texts that other users chose: names of files, jobs and processes, variables, and what services answer. A terminal
// obeys what it is sent: a name could move the cursor and write another fact over the one that was found.
package terminal

import (
	"strings"
	"unicode"
)

// Line gives a text on one line, without what a terminal would obey.
func Line(text string) string {
	return strings.Map(func(r rune) rune { return Visible(r, ' ') }, text)
}

// Visible gives what is printed of a character: newline for a line's end, and a mark for others that cannot be seen.
func Visible(r, newline rune) rune {
	switch {
	case r == '\n':
		return newline
	case r == '\t':
		return ' '
	case Hidden(r):
		return unicode.ReplacementChar
	}
	return r
}

// Hidden reports whether a character is obeyed or left out where it is printed: with those that leave no trace, such as a space of no width, one
// name looks like another. The Braille pattern without dots is blank, and nothing of Unicode's says so.
func Hidden(r rune) bool {
	const blankBraille = '\u2800'
	return r == blankBraille || unicode.IsControl(r) ||
		unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Short gives a Line of n characters at most.
func Short(text string, n int) string {
	if len(text) > 4*n {
		text = text[:4*n] // A character has four bytes at most.
	}
	out := []rune(Line(text))
	if len(out) > n {
		return string(out[:n-1]) + "…"
	}
	return string(out)
}

// Quote gives a text as one word of a POSIX shell. A shell takes nothing in it for more than text.
func Quote(text string) string {
	text = Line(text)
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
