// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is what the command lines of all programs share: --version, -h and the man page.
package cli

import (
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

// New makes the command line of a program.
func New(name, help string) *kingpin.Application {
	// The man page's title takes one word, and the text of --version is several lines.
	kingpin.ManPageTemplate = strings.Replace(kingpin.ManPageTemplate, "{{.App.Version}}", quoted(version.Version), 1)
	app := kingpin.New(name, help)
	app.Version(version.Print(name))
	app.HelpFlag.Short('h')
	return app
}

// quoted makes one argument of a man page's macro, whatever is in it.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`"`, "", `\`, "", "\n", " ", "{{", "").Replace(s) + `"`
}
