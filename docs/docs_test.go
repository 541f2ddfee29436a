// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the repository's pages to their links and their size.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// most is how many bytes of text the pages may have together, without the runbooks, of which each alert has one. What a program writes
// belongs elsewhere.
const most = 250_000

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// pages lists the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "build" || name == "results" || name == "node_modules" || name == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".md" {
			found = append(found, path)
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	return found
}

// anchors are what links to a page's headings end with.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		found[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(text), ""), " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			there, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(there))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

func TestSize(t *testing.T) {
	total := 0
	for _, page := range pages(t) {
		if filepath.Dir(page) == filepath.Join(root, "docs") {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			total += len(text)
		}
	}
	if total > most {
		t.Errorf("the pages in docs/ have %d bytes, at most %d are meant: what restates code or results belongs beside the code or into results/", total, most)
	}
}
