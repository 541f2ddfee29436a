// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import "testing"

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"llama-7b/3": "llama-7b/3", "sizes <=1MiB and < 4": "sizes <=1MiB and < 4", "<b>": "<b>", "user@host": "user@host", "a@heretic": "a@heretic",
		"<!channel>": "\u2039!channel>", "x<!here|now>": "x\u2039!here|now>", "<@U123>": "\u2039@U123>", "<#C1>": "\u2039#C1>",
		"<!subteam^S1>": "\u2039!subteam^S1>", "<https://evil.example|Runbook>": "\u2039https://evil.example|Runbook>", "<mailto:a@b|c>": "\u2039mailto:a@b|c>",
		"@channel": "\uff20channel", "<<!channel>>": "<\u2039!channel>>", "<@here>": "\u2039\uff20here>", "@everyone @here": "\uff20everyone \uff20here",
	} {
		got := Plain(text)
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if again := Plain(got); again != got {
			t.Errorf("%q becomes %q in turn", got, again)
		}
	}
}
