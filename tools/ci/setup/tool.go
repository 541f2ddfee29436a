// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tool is a program of another project. A release on the PATH or of the distribution is taken when it is new enough; otherwise the one
// that tools/<family>/go.mod pins is built.
type tool struct {
	family string // Folder of its go.mod in tools/.
	pkg    string
	tags   string
	from   *elsewhere // nil: releases differ too much in what they print, only the pinned one will do.
	cost   string     // Of the first build, on two cores.
}

// elsewhere is where a tool may come from other than its pinned module.
type elsewhere struct {
	oldest string // Release.
	why    string // What older ones lack.
	names  []string
	debian debianPackage
}

var (
	prometheusElsewhere = elsewhere{
		oldest: "2.42.0", why: "keep_firing_for in the rules",
		debian: debianPackage{name: "prometheus"},
	}
	// 0.25 is the oldest that was tried with deploy/alertmanager.
	alertmanagerElsewhere = elsewhere{
		oldest: "0.25.0", why: "a release that was tried with deploy/alertmanager",
		debian: debianPackage{name: "prometheus-alertmanager", assets: "/usr/share/prometheus/alertmanager"},
	}
)

// under gives it with the tool's names and its place in the package.
func (e elsewhere) under(file string, names ...string) *elsewhere {
	e.names = names
	e.debian.file = file
	return &e
}

var tools = map[string]tool{
	"prometheus": {
		"prometheus", "github.com/prometheus/prometheus/cmd/prometheus", "remove_all_sd,netgo",
		prometheusElsewhere.under("usr/bin/prometheus", "prometheus"), "3 minutes",
	},
	"promtool": {
		"prometheus", "github.com/prometheus/prometheus/cmd/promtool", "remove_all_sd,netgo",
		prometheusElsewhere.under("usr/bin/promtool", "promtool"), "2 minutes",
	},
	"alertmanager": {
		"alertmanager", "github.com/prometheus/alertmanager/cmd/alertmanager", "netgo",
		alertmanagerElsewhere.under("usr/bin/prometheus-alertmanager", "alertmanager", "prometheus-alertmanager"), "90 seconds",
	},
	"amtool": {
		"alertmanager", "github.com/prometheus/alertmanager/cmd/amtool", "netgo",
		alertmanagerElsewhere.under("usr/bin/amtool", "amtool"), "90 seconds",
	},
	"jsonnet":          {"jsonnet", "github.com/google/go-jsonnet/cmd/jsonnet", "netgo", nil, "20 seconds"},
	"jsonnetfmt":       {"jsonnet", "github.com/google/go-jsonnet/cmd/jsonnetfmt", "netgo", nil, "20 seconds"},
	"jsonnet-lint":     {"jsonnet", "github.com/google/go-jsonnet/cmd/jsonnet-lint", "netgo", nil, "20 seconds"},
	"pint":             {"pint", "github.com/cloudflare/pint/cmd/pint", "netgo", nil, "2 minutes"},
	"golangci-lint":    {"lint", "github.com/golangci/golangci-lint/v2/cmd/golangci-lint", "netgo", nil, "2 minutes"},
	"gofumpt":          {"lint", "mvdan.cc/gofumpt", "netgo", nil, "a few seconds"},
	"govulncheck":      {"vuln", "golang.org/x/vuln/cmd/govulncheck", "netgo", nil, "a few seconds"},
	"helm":             {"helm", "helm.sh/helm/v3/cmd/helm", "netgo", nil, "3 minutes"},
	"etcd":             {"kubernetes", "go.etcd.io/etcd/server/v3", "netgo", nil, "a minute"},
	"kube-apiserver":   {"kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "netgo", nil, "10 minutes"},
	"kyverno":          {"kyverno", "github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno", "netgo", nil, "10 minutes"},
	"victoria-metrics": {"victoriametrics", "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics", "netgo", nil, "2 minutes"},
	"vmalert":          {"victoriametrics", "github.com/VictoriaMetrics/VictoriaMetrics/app/vmalert", "netgo", nil, "a minute"},
	"thanos":           {"thanos", "github.com/thanos-io/thanos/cmd/thanos", "netgo,slicelabels", nil, "4 minutes"},
	"mimir":            {"mimir", "github.com/grafana/mimir/cmd/mimir", "netgo,stringlabels", nil, "5 minutes"},
}

// AllTools are the names of all tools.
func AllTools() []string {
	var all []string
	for name := range tools {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// toolGroups gives the tools that come from one module together: they share most of their packages, and their package of Debian.
func toolGroups(names []string) [][]string {
	families := map[string][]string{}
	for _, name := range names {
		family := tools[name].family
		families[family] = append(families[family], name)
	}
	var groups [][]string
	for _, group := range families {
		slices.Sort(group)
		groups = append(groups, group)
	}
	return groups
}

// getTools puts tools of one family into bin/tools.
func (s *Setup) getTools(ctx context.Context, names []string) error {
	out := s.path("bin", "tools")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the folder of tools: %w", err)
	}
	family := tools[names[0]].family
	if family == "" {
		return fmt.Errorf("no tool %q; known: %s", names[0], strings.Join(AllTools(), ", "))
	}
	// One lock a family: a first build of kube-apiserver must not hold up somebody who only wants Prometheus.
	unlock, err := s.lock(filepath.Join(out, "."+family+".lock"), "another build of "+strings.Join(names, ", "))
	if err != nil {
		return err
	}
	defer unlock()
	var build []string
	for _, name := range names {
		got, err := s.getElsewhere(ctx, name)
		if err != nil {
			return err
		}
		if !got {
			build = append(build, name)
		}
	}
	return s.buildTools(ctx, family, build)
}

// lock waits for an exclusive lock on a file.
func (s *Setup) lock(file, what string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		done := s.begin("waiting for " + what)
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		done()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", file, err)
		}
	}
	return func() { f.Close() }, nil
}

// getElsewhere says whether a tool is in bin/tools that needs no build: from the PATH, from an earlier build, or from the distribution.
func (s *Setup) getElsewhere(ctx context.Context, name string) (bool, error) {
	t := tools[name]
	free := t.from != nil && os.Getenv("CULPRIT_TOOLS") != "module"
	if free {
		if found := s.onPath(ctx, name, *t.from); found != "" {
			if now, _ := os.Readlink(s.toolFile(name)); now == found {
				return true, nil
			}
			s.say("%s: using %s", name, found)
			return true, s.putTool(name, "path "+found, func(next string) error { return os.Symlink(found, next) })
		}
	}
	have := s.stamp(name)
	pin, err := s.pin(t)
	if err != nil {
		return false, err
	}
	if have == pin || free && strings.HasPrefix(have, "debian ") {
		return true, nil
	}
	if !free {
		return false, nil
	}
	err = s.fromDebian(ctx, name, *t.from)
	if errors.Is(err, errNoDebian) {
		return false, nil
	}
	if err != nil && ctx.Err() == nil {
		s.say("%s: the distribution's package will not do: %v", name, err)
		return false, nil
	}
	return err == nil, err
}

func (s *Setup) toolFile(name string) string { return s.path("bin", "tools", name) }

func (s *Setup) stampFile(name string) string { return s.path("bin", "tools", "."+name+".stamp") }

// stamp says what the tool in bin/tools was made of; "" when there is none.
func (s *Setup) stamp(name string) string {
	info, err := os.Stat(s.toolFile(name))
	if err != nil || info.Mode()&0o111 == 0 {
		return ""
	}
	text, _ := os.ReadFile(s.stampFile(name))
	return strings.TrimSpace(string(text))
}

// putTool makes a tool beside its place and moves it there, so that nobody runs half a file.
func (s *Setup) putTool(name, stamp string, create func(next string) error) error {
	next := s.toolFile("." + name + ".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("putting %s into bin/tools: %w", name, err)
	}
	err := create(next)
	if err == nil {
		err = os.WriteFile(s.stampFile(name), nil, 0o644) // Not the old tool's while the new one is put there.
	}
	if err == nil {
		err = os.Rename(next, s.toolFile(name))
	}
	if err == nil {
		err = os.WriteFile(s.stampFile(name), []byte(stamp+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("putting %s into bin/tools: %w", name, err)
	}
	return nil
}

// onPath gives where a new enough tool lies on the PATH, outside bin/tools.
func (s *Setup) onPath(ctx context.Context, name string, from elsewhere) string {
	own, _ := filepath.EvalSymlinks(s.path("bin", "tools"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := filepath.EvalSymlinks(dir); err != nil || real == own { // What is there may be a link to somewhere else.
			continue
		}
		for _, called := range from.names {
			candidate := filepath.Join(dir, called)
			version := versionOf(ctx, candidate)
			if version == "" {
				continue
			}
			if atLeast(version, from.oldest) {
				return candidate
			}
			s.say("%s: not using %s, release %s is older than %s (%s)", name, candidate, version, from.oldest, from.why)
		}
	}
	return ""
}

var printedVersion = regexp.MustCompile(`version ([0-9][0-9.]*)`)

// versionOf asks a program; "" when it does not say.
func versionOf(ctx context.Context, file string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "--version").CombinedOutput()
	if err != nil {
		return ""
	}
	if m := printedVersion.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}

// atLeast compares releases such as 2.42.0; what follows the numbers does not count.
func atLeast(version, oldest string) bool {
	a, b := numbers(version), numbers(oldest)
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x > y
		}
	}
	return true
}

// numbers reads 2, 42 and 0 from 1:2.42.0+ds-5.
func numbers(version string) []int {
	if _, after, ok := strings.Cut(version, ":"); ok {
		version = after
	}
	var out []int
	number, digits := 0, false
	for _, c := range version + "." {
		switch {
		case c >= '0' && c <= '9' && number < 1e8:
			number, digits = number*10+int(c-'0'), true
		case digits:
			out = append(out, number)
			number, digits = 0, false
			if c != '.' {
				return out
			}
		default:
			return out
		}
	}
	return out
}

// pin is a sum over what decides how a tool is built.
func (s *Setup) pin(t tool) (string, error) {
	sum := sha256.New()
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(s.path("tools", t.family, file))
		if err != nil {
			return "", fmt.Errorf("reading the pins of %s: %w", t.family, err)
		}
		sum.Write(text)
	}
	fmt.Fprintf(sum, "%s %s %s %s", t.pkg, t.tags, versionVariable(t.pkg), runtime.Version())
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// versionVariable is what the release's own build sets: others ask the program for it.
func versionVariable(pkg string) string {
	switch {
	case strings.HasPrefix(pkg, "github.com/prometheus/"):
		return "github.com/prometheus/common/version.Version"
	case pkg == "k8s.io/kubernetes/cmd/kube-apiserver":
		return "k8s.io/component-base/version.gitVersion" // Helm compares it with what a chart needs.
	}
	return ""
}

// releaseName is the release that a module's version is: Prometheus tags its modules v0.3MM.P for release 3.MM.P.
func releaseName(pkg, version string) string {
	version = strings.TrimPrefix(version, "v")
	if strings.HasPrefix(pkg, "github.com/prometheus/prometheus/") {
		if m := regexp.MustCompile(`^0\.([0-9])0?([0-9]+)\.([0-9]+)$`).FindStringSubmatch(version); m != nil {
			return m[1] + "." + m[2] + "." + m[3]
		}
	}
	return version
}

// buildTools builds tools of one family, with what they have in common once where their flags are the same.
func (s *Setup) buildTools(ctx context.Context, family string, names []string) error {
	type flags struct{ tags, ldflags string }
	groups := map[flags][]string{}
	for _, name := range names {
		t := tools[name]
		f := flags{t.tags, "-s -w"}
		if variable := versionVariable(t.pkg); variable != "" {
			version, err := s.goCommand(ctx, family, "list", "-f", "{{.Module.Version}}", t.pkg).Output()
			if err != nil {
				return fmt.Errorf("asking for the version of %s in tools/%s: %w", name, family, err)
			}
			release := releaseName(t.pkg, strings.TrimSpace(string(version)))
			if name == "kube-apiserver" {
				release = "v" + release
			}
			f.ldflags += " -X " + variable + "=" + release
		}
		groups[f] = append(groups[f], name)
	}
	for f, group := range groups {
		if err := s.buildToolGroup(ctx, family, f.tags, f.ldflags, group); err != nil {
			return err
		}
	}
	return nil
}

func (s *Setup) buildToolGroup(ctx context.Context, family, tags, ldflags string, names []string) error {
	label := strings.Join(names, ", ")
	s.say("building %s from tools/%s, the first time about %s", label, family, tools[names[0]].cost)
	w, done := s.beginCounted("building " + label)
	defer done()
	into, err := os.MkdirTemp(s.path("bin", "tools"), ".build-")
	if err != nil {
		return fmt.Errorf("building %s: %w", label, err)
	}
	defer os.RemoveAll(into)
	args := []string{"build", "-v", "-trimpath", "-tags", tags, "-ldflags", ldflags, "-o", into + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, tools[name].pkg)
	}
	cmd := s.goCommand(ctx, family, args...)
	cmd.Stdout, cmd.Stderr = &w.packages, &w.packages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", label, err, lastLines(w.packages.text.Bytes(), 30))
	}
	for _, name := range names {
		pin, err := s.pin(tools[name])
		if err != nil {
			return err
		}
		built := filepath.Join(into, programName(tools[name].pkg))
		if err := s.putTool(name, pin, func(next string) error { return os.Rename(built, next) }); err != nil {
			return err
		}
	}
	s.say("built %s", label)
	return nil
}

// goCommand runs Go in the module of a family. The pins decide, not the caller's settings.
func (s *Setup) goCommand(ctx context.Context, family string, args ...string) *exec.Cmd {
	cmd := s.command(ctx, "go", args...)
	cmd.Dir = s.path("tools", family)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "GOFLAGS" || name == "GOOS" || name == "GOARCH"
	})
	cmd.Env = append(cmd.Env, "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN="+cmp.Or(os.Getenv("GOTOOLCHAIN"), "local"))
	return cmd
}

var majorSuffix = regexp.MustCompile(`/v[0-9]+$`)

// programName is what go build calls a package's program.
func programName(pkg string) string { return path.Base(majorSuffix.ReplaceAllString(pkg, "")) }

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte{'\n'})
	return bytes.Join(lines[max(0, len(lines)-n):], []byte{'\n'})
}
