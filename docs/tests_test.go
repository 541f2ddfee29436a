// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`(?:go test [^`]*-run )?((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*|test_[a-z_]+|[a-z/]+/tests/[a-z_]+\\.yaml)`")
	aTest     = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Z]\w*)\(`)
)

// tests are the names of all tests of the repository: Go's functions, the shim's programs and the files of rule tests.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "build" || name == "results" || name == "node_modules"):
			return fs.SkipDir
		case strings.HasPrefix(name, "test_") && filepath.Ext(name) == ".c":
			found[strings.TrimSuffix(name, ".c")] = true
		case filepath.Ext(name) == ".yaml" && filepath.Base(filepath.Dir(path)) == "tests":
			found[filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))] = true
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range aTest.FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestNamedTests holds the pages to the names of tests: a boundary whose test was renamed or removed would be a claim without proof.
func TestNamedTests(t *testing.T) {
	all := tests(t)
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			if named++; !all[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("%d tests are named in all pages", named)
	}
}
