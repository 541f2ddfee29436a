// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import "testing"

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"llama-7b/3": "llama-7b/3", "sizes <=1MiB and < 4": "sizes <=1MiB and < 4", "<b>": "<b>", "user@host": "user@host", "a@heretic": "a@heretic",
		"<!channel>": "\u2039!channel>", "x<!here|now>": "x\u2039!here|now>", "<@U123>": "\u2039\uff20U123>", "<#C1>": "\u2039#C1>",
		"<!subteam^S1>": "\u2039!subteam^S1>", "<https://evil.example|Runbook>": "\u2039https:\u2044\u2044evil.example|Runbook>", "<mailto:a@b|c>": "\u2039mailto:a@b|c>",
		"@all": "\uff20all", "ask @bob.": "ask \uff20bob.", "(@bob)": "(\uff20bob)", "<at>Bob</at>": "\u2039at>Bob\u2039/at>", "<@&7>": "\u2039@&7>",
		"[Runbook](https://evil.example)": "[Runbook]\uff08https:\u2044\u2044evil.example)", "[x](//evil.example)": "[x]\uff08//evil.example)",
		"see https://evil.example/x": "see https:\u2044\u2044evil.example/x", "slack://channel?id=1": "slack:\u2044\u2044channel?id=1", "a//b": "a//b",
		"at https://own.example/incidents/1 now": "at https://own.example/incidents/1 now", "https://own.example.evil": "https:\u2044\u2044own.example.evil",
		"@channel": "\uff20channel", "<<!channel>>": "<\u2039!channel>>", "<@here>": "\u2039\uff20here>", "@everyone @here": "\uff20everyone \uff20here",
	} {
		got := Plain(text, "https://own.example/")
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if again := Plain(got, "https://own.example/"); again != got {
			t.Errorf("%q becomes %q in turn", got, again)
		}
	}
}
