// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/tools/release/build"
)

// TestTarballHoldsWhatGitLinks: the chart's rules and dashboards are links in the repository and files in a release, which also has the
// rules for rarer scrapes.
func TestTarballHoldsWhatGitLinks(t *testing.T) {
	out := t.TempDir()
	r := &release{source: build.Source{Root: "../..", Version: "1", Date: time.Unix(0, 0)}, out: out}
	for _, program := range []string{"stage/amd64/bin/a", "stage/amd64/lib/b", "stage/man/c"} {
		name := filepath.Join(out, program)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.render(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.tarball("amd64", out); err != nil {
		t.Fatal(err)
	}
	if err := r.chart(out); err != nil {
		t.Fatal(err)
	}
	packaged := names(t, filepath.Join(out, "culprit-1.tgz"))
	for _, want := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "templates/exporter.yaml", "files/rules/culprit-triggers.yaml", "files/dashboards/culprit-jobs.json"} {
		if !packaged["culprit/"+want] {
			t.Errorf("the chart lacks %s", want)
		}
	}
	found := names(t, filepath.Join(out, "culprit-1.linux-amd64.tar.gz"))
	for _, want := range []string{
		"rules/culprit-triggers.yaml", "rules/scrape-15s/culprit-triggers.yaml", "rules/scrape-60s/culprit-health.yaml", "rules/sources/node_exporter.yaml", "dashboards/culprit-jobs.json",
		"deploy/charts/culprit/Chart.yaml", "deploy/charts/culprit/.helmignore", "deploy/charts/culprit/files/rules/culprit-bandwidth.yaml",
		"deploy/charts/culprit/files/rules/sources/dcgm-exporter.yaml", "deploy/charts/culprit/files/dashboards/culprit-health.json",
	} {
		if !found["culprit-1.linux-amd64/"+want] {
			t.Errorf("%s is missing", want)
		}
	}
	for name := range found {
		if strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") || strings.Contains(name, "/rules/tests/") {
			t.Errorf("%s is of no use without the repository", name)
		}
	}
}

// names lists the files of an archive, in which nothing may be a link.
func names(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			t.Errorf("%s is a link to %s", h.Name, h.Linkname)
		}
		found[h.Name] = h.Typeflag == tar.TypeReg
	}
}
