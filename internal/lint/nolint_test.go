// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package lint holds exceptions from the linters to linters that run. nolintlint finds an exception that its linter does not need, but says
// nothing about one from a linter that is not switched on.
package lint

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

const root = "../.."

// standard are the linters that golangci-lint runs by itself.
var standard = []string{"errcheck", "govet", "ineffassign", "staticcheck", "unused"}

var exception = regexp.MustCompile(`//nolint:([\w,]+)`)

func TestExceptionsAreFromLintersThatRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Enable []string `yaml:"enable"`
		} `yaml:"linters"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	running := slices.Concat(standard, config.Linters.Enable)
	if !slices.Contains(running, "nolintlint") {
		t.Error("nolintlint is off")
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(root, "build")) { // test-upgrade builds an old tree there.
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || !d.Type().IsRegular() {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			for _, m := range exception.FindAllStringSubmatch(lines.Text(), -1) {
				for name := range strings.SplitSeq(m[1], ",") {
					if !slices.Contains(running, name) {
						t.Errorf("%s:%d: an exception from %s, which does not run", path, n, name)
					}
				}
			}
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
