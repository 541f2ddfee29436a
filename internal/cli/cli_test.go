// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
)

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	ended := false
	app := New("culprit-test", "Tests.").UsageWriter(&out).Terminate(func(int) { ended = true })
	if _, err := app.Parse([]string{"--version"}); err != nil || !ended || !strings.HasPrefix(out.String(), "culprit-test, version ") {
		t.Errorf("%v, ended %v: %s", err, ended, out.String())
	}
}

// The title of a man page is one line of three arguments.
func TestManPage(t *testing.T) {
	var out bytes.Buffer
	app := New("culprit-test", "Tests.").UsageWriter(&out)
	ctx, err := app.ParseContext(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.UsageForContextWithTemplate(ctx, 2, kingpin.ManPageTemplate); err != nil {
		t.Fatal(err)
	}
	title, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if !strings.HasPrefix(title, `.TH culprit-test 1 "`) || !strings.HasSuffix(title, `" ""`) {
		t.Errorf("title is %q", title)
	}
}

func TestQuoted(t *testing.T) {
	if got, want := quoted("1.0 \"{{x\\\ny"), `"1.0 x y"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
