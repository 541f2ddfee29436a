// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	const bsd = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that"
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software"
	for _, tt := range []struct {
		text, want string
		permitted  bool
	}{
		{string(apache), "Apache-2.0", true},
		{bsd, "BSD-2-Clause", true},
		{bsd + "\n * Neither the name of the author", "BSD-3-Clause", true},
		{mit, "MIT", true},
		{string(apache) + mit, "Apache-2.0, MIT", true},
		{"GNU GENERAL PUBLIC LICENSE\nVersion 3", "GPL or LGPL", false},
		{mit + "\nGNU Affero General Public License", "AGPL, MIT", false},
		{"Mozilla Public License Version 2.0", "MPL-2.0", false},
		{"All rights reserved.", "", false},
		{"", "", false},
	} {
		kinds := classify(tt.text)
		if got := strings.Join(kinds, ", "); got != tt.want || permitted(kinds) != tt.permitted {
			t.Errorf("%.40q: %s, permitted %v", tt.text, got, permitted(kinds))
		}
	}
}

func TestRender(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy"
	one, two := notice{"example.org/a", "v1.0.0", "LICENSE", mit}, notice{"example.org/b", "v2.0.0", "LICENSE", mit}
	text, err := render([]notice{two, one, two})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.org/a v1.0.0 (LICENSE)", "example.org/b v2.0.0 (LICENSE)", mit} {
		if n := strings.Count(string(text), want); n != 1 {
			t.Errorf("%q is there %d times:\n%s", want, n, text)
		}
	}
	one.text = "Pay me."
	if _, err := render([]notice{two, one}); err == nil || !strings.Contains(err.Error(), "example.org/a v1.0.0") {
		t.Errorf("an unknown licence: %v", err)
	}
}

// TestNotices: the committed file is what the programs link.
func TestNotices(t *testing.T) {
	t.Chdir("../..")
	if err := run(true); err != nil {
		t.Error(err)
	}
}
