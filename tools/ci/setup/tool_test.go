// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		version, oldest string
		want            bool
	}{
		{"2.42.0", "2.42.0", true},
		{"2.42", "2.42.0", true},
		{"2.41.9", "2.42.0", false},
		{"3.0.0", "2.42.0", true},
		{"2.100.0", "2.42.0", true},
		{"2.42.0+ds-5+deb12u1", "2.42.0", true},
		{"1:2.31.2+ds1-1", "2.42.0", false},
		{"0.25.0-1+b4", "0.25.0", true},
		{"0.3.0", "0.25.0", false},
		{"", "0.25.0", false},
	} {
		if got := atLeast(c.version, c.oldest); got != c.want {
			t.Errorf("atLeast(%q, %q) = %v", c.version, c.oldest, got)
		}
	}
}

func TestReleaseName(t *testing.T) {
	const prometheus = "github.com/prometheus/prometheus/cmd/prometheus"
	for _, c := range [][3]string{
		{prometheus, "v0.315.0", "3.15.0"},
		{prometheus, "v0.305.1", "3.5.1"},
		{prometheus, "v0.300.0", "3.0.0"},
		{"github.com/prometheus/alertmanager/cmd/alertmanager", "v0.34.0", "0.34.0"},
	} {
		if got := releaseName(c[0], c[1]); got != c[2] {
			t.Errorf("%s %s is release %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestProgramName(t *testing.T) {
	for pkg, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":                  "server",
		"github.com/google/go-jsonnet/cmd/jsonnet":   "jsonnet",
		"mvdan.cc/gofumpt":                           "gofumpt",
		"helm.sh/helm/v3/cmd/helm":                   "helm",
		"k8s.io/kubernetes/cmd/kube-apiserver":       "kube-apiserver",
		"github.com/kyverno/kyverno/cmd/cli/kubectl": "kubectl",
	} {
		if got := programName(pkg); got != want {
			t.Errorf("go build calls %s %s, want %s", pkg, got, want)
		}
	}
}

// TestPins finds every tool in the module that pins it.
func TestPins(t *testing.T) {
	for name, tool := range tools {
		text, err := os.ReadFile(filepath.Join("..", "..", tool.family, "go.mod"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pinned := false
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(strings.TrimPrefix(line, "require ")); len(fields) > 1 && strings.HasPrefix(tool.pkg+"/", fields[0]+"/") {
				pinned = true
			}
		}
		if !pinned {
			t.Errorf("tools/%s/go.mod requires no module of %s", tool.family, tool.pkg)
		}
	}
}

// checkout is an empty repository with the pins, and a PATH of its own.
func checkout(t *testing.T, programs map[string]string) (*Setup, *bytes.Buffer) {
	t.Helper()
	root, bin := t.TempDir(), t.TempDir()
	for _, family := range []string{"prometheus", "alertmanager"} {
		for _, file := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join("..", "..", family, file))
			if err == nil {
				err = os.MkdirAll(filepath.Join(root, "tools", family), 0o755)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(root, "tools", family, file), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go", "sh", "cat", "mkdir", "cp", "touch"} {
		found, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(found, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("CULPRIT_TOOLS", "")
	if err := os.MkdirAll(filepath.Join(root, "bin", "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	return &Setup{Root: root, Out: out, Interval: time.Hour, started: time.Now()}, out
}

func TestToolOnThePath(t *testing.T) {
	s, out := checkout(t, map[string]string{"prometheus-alertmanager": `echo "alertmanager, version 0.27.0 (branch: debian/sid)"`})
	got, err := s.getElsewhere(t.Context(), "alertmanager")
	if err != nil || !got {
		t.Fatalf("got %v, %v; it said:\n%s", got, err, out)
	}
	if version := versionOf(t.Context(), s.toolFile("alertmanager")); version != "0.27.0" {
		t.Errorf("bin/tools/alertmanager says version %q", version)
	}
}

func TestOldToolOnThePath(t *testing.T) {
	s, out := checkout(t, map[string]string{"prometheus": `echo "prometheus, version 2.31.2"`})
	got, err := s.getElsewhere(t.Context(), "prometheus")
	if err != nil || got {
		t.Fatalf("got %v, %v", got, err)
	}
	if !strings.Contains(out.String(), "release 2.31.2 is older than 2.42.0 (keep_firing_for in the rules)") {
		t.Errorf("it does not say why it takes no old one:\n%s", out)
	}
}

// played are Debian's programs; the package has a program that reads a file in /usr/share.
func played(version string) map[string]string {
	return map[string]string{
		"apt-cache": fmt.Sprintf(`printf 'prometheus:\n  Installed: (none)\n  Candidate: %s\n'`, version),
		"apt-get":   `touch prometheus.deb`,
		"dpkg-deb": `mkdir -p "$3/usr/bin"
printf '#!/bin/sh\necho "prometheus, version 2.42.0"\n' >"$3/usr/bin/prometheus"
/bin/chmod +x "$3/usr/bin/prometheus"`,
	}
}

func TestToolOfTheDistribution(t *testing.T) {
	s, out := checkout(t, played("2.42.0+ds-5+deb12u1"))
	for range 2 { // The second time it is there.
		got, err := s.getElsewhere(t.Context(), "prometheus")
		if err != nil || !got {
			t.Fatalf("got %v, %v; it said:\n%s", got, err, out)
		}
		t.Setenv("PATH", s.path("bin", "tools")+":"+os.Getenv("PATH")) // What is there is no other place to take it from.
	}
	if version := versionOf(t.Context(), s.toolFile("prometheus")); version != "2.42.0" {
		t.Errorf("bin/tools/prometheus says version %q", version)
	}
	t.Setenv("CULPRIT_TOOLS", "module")
	if got, err := s.getElsewhere(t.Context(), "prometheus"); err != nil || got {
		t.Errorf("CULPRIT_TOOLS=module: got %v, %v", got, err)
	}
}

func TestOldToolOfTheDistribution(t *testing.T) {
	s, out := checkout(t, played("2.31.2+ds1-1"))
	got, err := s.getElsewhere(t.Context(), "prometheus")
	if err != nil || got {
		t.Fatalf("got %v, %v", got, err)
	}
	if !strings.Contains(out.String(), "older than 2.42.0") {
		t.Errorf("it does not say why it takes no old one:\n%s", out)
	}
}

// TestWithAssets runs a program that reads a file under /usr/share, which lies elsewhere.
func TestWithAssets(t *testing.T) {
	root := t.TempDir()
	const assets = "/usr/share/culprit-test/none-here"
	for file, text := range map[string]string{
		"usr/bin/program":        "#!/bin/sh\ncat " + assets + "/text\n",
		assets[1:] + "/text":     "what it reads\n",
		"usr/bin/self-contained": "#!/bin/sh\necho\n",
	} {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := withAssets(filepath.Join(root, "usr/bin/program"), root, assets)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program).CombinedOutput()
	if err != nil || string(out) != "what it reads\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
	other := filepath.Join(root, "usr/bin/self-contained")
	if program, err = withAssets(other, root, assets); err != nil || program != other {
		t.Errorf("a program without the path became %s, %v", program, err)
	}
}

func TestInstall(t *testing.T) {
	s, _ := checkout(t, nil)
	s.Root = t.TempDir()
	t.Setenv("PATH", os.Getenv("PATH")+":/bin:/usr/bin")
	thing := Install{Name: "thing", Have: "[[ -e thing ]]", Get: "echo once >>thing"}
	for range 2 {
		if err := s.Meet(t.Context(), Needs{Installs: []Install{thing}}); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(s.Root, "thing")); err != nil || string(text) != "once\n" {
		t.Errorf("after two calls: %q, %v", text, err)
	}
	broken := Install{Name: "broken", Have: "false", Get: "echo no such package >&2; false"}
	if err := s.Meet(t.Context(), Needs{Installs: []Install{broken}}); err == nil || !strings.Contains(err.Error(), "no such package") {
		t.Errorf("an install that fails: %v", err)
	}
}
