// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/tools/ci/setup"
)

const root = "../.."

// TestMakefile holds the Makefile to the tasks: few targets, each with the help of its task.
func TestMakefile(t *testing.T) {
	all, err := targets(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 || len(all) > 25 {
		t.Errorf("the Makefile has %d targets", len(all))
	}
	for name, about := range all {
		if name == "help" || name == "clean" {
			continue
		}
		if task, err := find(name); err != nil || task.about != about {
			t.Errorf("make %s: %q, the task is %q, %v", name, about, task.about, err)
		}
	}
}

func TestTasks(t *testing.T) {
	seen := map[string]bool{}
	for _, task := range tasks {
		if seen[task.name] {
			t.Errorf("%s is there twice", task.name)
		}
		seen[task.name] = true
		if task.about == "" || !strings.HasSuffix(task.about, ".") {
			t.Errorf("%s: %q is no sentence", task.name, task.about)
		}
		if task.where != byHand && (task.took == 0 || task.script == "") {
			t.Errorf("%s runs in %s and does not say how long it takes or what it runs", task.name, task.where)
		}
		needs := task.allNeeds()
		for _, name := range needs.Programs {
			if !slices.Contains(setup.AllPrograms(), name) {
				t.Errorf("%s needs the program %s, which nothing builds", task.name, name)
			}
		}
		for _, name := range needs.Tools {
			if !slices.Contains(setup.AllTools(), name) {
				t.Errorf("%s needs the tool %s, which is not pinned", task.name, name)
			}
		}
		if out, err := exec.Command("bash", "-n", "-c", task.script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", task.name, err, out)
		}
	}
	for name := range plans {
		if !seen[name] {
			t.Errorf("there is a plan, but no task %s", name)
		}
	}
}

// TestSettings finds each setting that a script takes in the task's help.
func TestSettings(t *testing.T) {
	taken := regexp.MustCompile(`\$\{([A-Z_]+):`)
	for _, task := range tasks {
		text := task.script
		for _, i := range task.needs.Installs {
			if i.Name == "PyTorch" {
				text += i.Get
			}
		}
		for _, m := range taken.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(" "+task.settings, " "+m[1]+"=") && m[1] != "NCCL" {
				t.Errorf("%s takes %s and does not say so", task.name, m[1])
			}
		}
	}
}

// TestNames finds the tasks that pages, scripts and messages of the repository send people to.
func TestNames(t *testing.T) {
	called := regexp.MustCompile("(?:`make|\\brun make|tools/ci run|tools/ci help) ([a-z][a-z0-9-]+)")
	all, err := targets(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	cmd := exec.Command("git", "grep", "--untracked", "-nE", "`make [a-z]|run make [a-z]|tools/ci (run|help) [a-z]", "--", ":!CHANGELOG.md", ":!THIRD_PARTY_NOTICES", ":!*_test.go", ":!sim/ringjob/README.md")
	cmd.Dir = root
	lines, err := cmd.Output()
	if err != nil {
		t.Fatalf("asking git for the names of targets in texts: %v", err)
	}
	for line := range strings.Lines(string(lines)) {
		for _, m := range called.FindAllStringSubmatch(line, -1) {
			found++
			name := m[1]
			if _, ok := all[name]; strings.Contains(m[0], "make") && !ok {
				t.Errorf("the Makefile has no target %s: %s", name, line)
			}
			if _, err := find(name); !strings.Contains(m[0], "make") && err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d mentions of tasks", found)
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // In the output; empty: the command line is refused.
	}{
		{[]string{"list"}, "go run ./tools/ci run NAME"},
		{[]string{"help", "demo"}, "FAULT=link-stall"},
		{[]string{"help", "test-slurm"}, "Slurm (root installs it)"},
		{nil, ""},
		{[]string{"run"}, ""},
		{[]string{"run", "A=b"}, ""},
		{[]string{"run", "no-such-task"}, ""},
		{[]string{"get"}, ""},
		{[]string{"dance"}, ""},
	} {
		var out bytes.Buffer
		err := command(t.Context(), &out, c.args)
		if c.want == "" && !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", c.args, err)
		}
		if c.want != "" && (err != nil || !strings.Contains(out.String(), c.want)) {
			t.Errorf("%q: %v, the output lacks %q:\n%s", c.args, err, c.want, out.String())
		}
	}
}

// TestSharedPins holds the modules that make test builds to the same versions of what they share: other versions are built again.
func TestSharedPins(t *testing.T) {
	require := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) (v\S+)`)
	pinned, by := map[string]string{}, map[string]string{}
	for _, module := range []string{".", "lab", "sim/scorecard", "sim/browser", "mixin/promtest"} {
		text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range require.FindAllStringSubmatch(string(text), -1) {
			if have := pinned[m[1]]; have != "" && have != m[2] {
				t.Errorf("%s is %s in %s and %s in %s", m[1], have, by[m[1]], m[2], module)
			}
			pinned[m[1]], by[m[1]] = m[2], module
		}
	}
}
