// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var evil = []string{
	"", "a", "/usr/lib/libx.so", "a b", "a'b", "$(touch x)", "`touch x`", "a; touch x", "a\ntouch x", "\x1b[2J\x1b]0;x\x07", "\x9b31m",
	"a\u202egnp", "a\u2028b", "\r ok", "-rf", "a\\", `a"b`, "~root", "*", "a&b|c>d", "!x", "#", "{a,b}", "é",
}

// TestQuote has a shell read what was quoted.
func TestQuote(t *testing.T) {
	for _, text := range evil {
		out, err := exec.Command("sh", "-c", "printf '%s|' "+Quote(text)).Output()
		if want := Line(text) + "|"; err != nil || string(out) != want {
			t.Errorf("%q becomes %q, %v", text, out, err)
		}
	}
}

// TestHidden has names that look like another one, and letters that do not.
func TestHidden(t *testing.T) {
	for _, r := range "\u200b\u200d\u00ad\ufeff\u2060\u180e\u3164\u115f\uffa0\u034f\ufe0f\u2800\u2028\u202e\u2066\U000e0041\U000e0100\x1b\u009b\x7f\x00" {
		if got := Line("llm" + string(r)); got == "llm"+string(r) {
			t.Errorf("%U stays", r)
		}
	}
	for _, text := range []string{"llm 7", "é", "日本", "job-ß", "модель"} {
		if got := Line(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestShort(t *testing.T) {
	for _, text := range append(evil, strings.Repeat("é", 100), strings.Repeat("\xff", 1000)) {
		if got := Short(text, 10); utf8.RuneCountInString(got) > 10 {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := Short("0123456789ab", 10); got != "012345678…" {
		t.Errorf("%q", got)
	}
}

func FuzzLine(f *testing.F) {
	for _, text := range evil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []string{Line(text), Short(text, 20), Quote(text)} {
			if strings.ContainsFunc(got, unicode.IsControl) || !utf8.ValidString(got) {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	})
}
