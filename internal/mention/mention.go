// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package mention keeps names that somebody else chose from doing something in a chat: a job called <!channel> must not wake everybody.
package mention

import (
	"regexp"
	"slices"
	"strings"
)

// What chats read as commands: in Slack and those that follow it <!channel>, <@user>, <#room> and <https://example.org|a text>, in Teams
// <at>user</at>, where names are linked @channel and @user, in Markdown [a text](https://example.org), and nearly everywhere an address.
var (
	command = regexp.MustCompile(`<([!@#]|/?at>|[A-Za-z][A-Za-z0-9+.-]*:)`)
	people  = regexp.MustCompile(`@(channel|everyone|here)\b`)
	person  = regexp.MustCompile(`(^|[^A-Za-z0-9_.+-])@([A-Za-z0-9_])`)
	address = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://`)
)

// Plain gives a text in which nothing is a command; it reads the same. Addresses that begin with one of own stay.
func Plain(text string, own ...string) string {
	text = command.ReplaceAllString(text, "\u2039$1")
	text = people.ReplaceAllString(text, "\uff20$1")
	text = person.ReplaceAllString(text, "$1\uff20$2")
	text = strings.ReplaceAll(text, "](", "]\uff08")
	var out strings.Builder
	done := 0
	for _, at := range address.FindAllStringIndex(text, -1) {
		if slices.ContainsFunc(own, func(begin string) bool { return begin != "" && strings.HasPrefix(text[at[0]:], begin) }) {
			continue
		}
		out.WriteString(text[done:at[1]-2] + "\u2044\u2044")
		done = at[1]
	}
	return out.String() + text[done:]
}
