// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// allowed are the licences under which code may be linked, by their SPDX identifiers.
var allowed = map[string]bool{"Apache-2.0": true, "MIT": true, "BSD-2-Clause": true, "BSD-3-Clause": true, "ISC": true}

// marks are words that only one licence has.
var marks = []struct{ kind, words string }{
	{"AGPL", "gnu affero general public license"},
	{"GPL or LGPL", "gnu general public license"},
	{"GPL or LGPL", "gnu lesser general public license"},
	{"MPL-2.0", "mozilla public license"},
	{"EPL", "eclipse public license"},
	{"BUSL", "business source license"},
	{"SSPL", "server side public license"},
	{"Apache-2.0", "apache license version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"BSD", "redistribution and use in source and binary forms, with or without modification, are permitted"},
}

// classify names the licences that a text holds, by their words; none when it holds none of those known.
func classify(text string) []string {
	words := strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(text, "Apache License,", "Apache License"))), " ")
	var kinds []string
	for _, m := range marks {
		kind := m.kind
		if !strings.Contains(words, m.words) {
			continue
		}
		if kind == "BSD" {
			kind = "BSD-2-Clause"
			if strings.Contains(words, "neither the name") || strings.Contains(words, "may not be used to endorse") ||
				strings.Contains(words, "may be used to endorse") {
				kind = "BSD-3-Clause"
			}
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// permitted tells whether all licences that a text holds are on the list. One that holds none is not known.
func permitted(kinds []string) bool {
	return len(kinds) > 0 && !slices.ContainsFunc(kinds, func(kind string) bool { return !allowed[kind] })
}
