// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/tools/ci/plan"
)

// list prints every task in a line: those that the Makefile has as targets, then the others.
func list(out io.Writer, short map[string]string) {
	part := func(title string, wanted func(task) bool) {
		fmt.Fprintf(out, "%s\n\n", title)
		for _, t := range tasks {
			if wanted(t) {
				fmt.Fprintf(out, "  %-20s %s\n", t.name, t.about)
			}
		}
		fmt.Fprintln(out)
	}
	isTarget := func(t task) bool { return short[t.name] != "" }
	part("make NAME [SETTING=value...]", isTarget)
	part("go run ./tools/ci run NAME [SETTING=value...]", func(t task) bool { return !isTarget(t) })
	fmt.Fprintln(out, "go run ./tools/ci help NAME says what a task needs, how long it takes and what it runs.")
}

// help says what one task does.
func help(out io.Writer, names []string) error {
	if len(names) != 1 {
		return fmt.Errorf("%w: name a task", errUsage)
	}
	t, err := find(names[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n\n", t.name, t.about)
	for _, row := range [][2]string{{"settings", t.settings}, {"runs in", t.where.String()}, {"needs", t.needed()}, {"takes", t.time()}} {
		if row[1] != "" {
			fmt.Fprintf(out, "  %-10s %s\n", row[0], row[1])
		}
	}
	if t.script != "" {
		fmt.Fprintln(out, "\nIt runs, at the top of the repository:")
		fmt.Fprintln(out)
		for line := range strings.Lines(strings.TrimSpace(t.script)) {
			fmt.Fprintf(out, "    %s\n", strings.TrimRight(strings.TrimPrefix(line, "\t\t\t"), "\n"))
		}
	}
	return nil
}

// needed lists what people would notice: what is installed, and tools that take minutes to build.
func (t task) needed() string {
	var all []string
	for _, i := range t.needs.Installs {
		name := i.Name
		if i.Root {
			name += " (root installs it)"
		}
		all = append(all, name)
	}
	for _, tool := range t.needs.Tools {
		if !slices.Contains(stack.Tools, tool) {
			all = append(all, tool)
		}
	}
	return strings.Join(all, ", ")
}

func (t task) time() string {
	if t.took == 0 {
		return ""
	}
	text := plan.Words(t.took)
	if t.first != "" {
		text += "; the first time also " + t.first
	}
	return text
}

// targets reads the Makefile's targets with their help.
func targets(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the Makefile: %w", err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t.#$=?") || strings.HasPrefix(rest, "=") {
			continue
		}
		_, about, _ := strings.Cut(rest, "## ")
		all[name] = strings.TrimSpace(about)
	}
	return all, nil
}
