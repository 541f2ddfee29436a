// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package mention keeps names that somebody else chose from doing something in a chat: a job called <!channel> must not wake everybody.
package mention

import "regexp"

// What Slack and those that follow it read as commands: <!channel>, <@user>, <#room>, <https://example.org|a text>, and where names are
// linked, @channel.
var (
	command = regexp.MustCompile(`<([!@#]|[A-Za-z][A-Za-z0-9+.-]*:)`)
	people  = regexp.MustCompile(`@(channel|everyone|here)\b`)
)

// Plain gives a text in which nothing is a command; it reads the same.
func Plain(text string) string {
	return people.ReplaceAllString(command.ReplaceAllString(text, "\u2039$1"), "\uff20$1")
}
