// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// program is one of this repository's, or several that are built together.
type program struct {
	folders []string // Of Makefiles, in order; or
	pkg     string   // of Go, in module, which is built as bin/ and this key.
	module  string   // Folder; "" is the root.
}

var programs = map[string]program{
	"shim":    {folders: []string{"ncclshim"}},
	"ringjob": {folders: []string{"sim/ringjob"}},
	// The training program on the real library, with the played GPU and the recorder.
	"ncclrun":          {folders: []string{"lab/ncclrun", "lab/ncclrecord"}},
	"culprit-exporter": {pkg: "./exporter"},
	"culprit-analyzer": {pkg: "./analyzer"},
	"culprit-demo":     {pkg: "./sim/demo"},
	"nccl-get":         {pkg: "./cmd/nccl-get", module: "lab"},
	"culprit-nccl":     {pkg: "./sim/cmd/culprit-nccl"},
	"culprit-sim":      {pkg: "./cmd/culprit-sim", module: "sim/scorecard"},
}

// AllPrograms are the names of all programs.
func AllPrograms() []string {
	var all []string
	for name := range programs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// GoPrograms are those in Go.
func GoPrograms() []string {
	return slices.DeleteFunc(AllPrograms(), func(name string) bool { return programs[name].pkg == "" })
}

// builds gives one build for each C program and one for the Go programs of a module: go build shares what they have in common.
func (s *Setup) builds(names []string) []func(context.Context) error {
	var all []func(context.Context) error
	modules := map[string][]string{}
	for _, name := range names {
		p, ok := programs[name]
		switch {
		case !ok:
			all = append(all, func(context.Context) error { return fmt.Errorf("no program %q", name) })
		case p.pkg == "":
			all = append(all, func(ctx context.Context) error { return s.buildC(ctx, name, p.folders) })
		default:
			modules[p.module] = append(modules[p.module], name)
		}
	}
	for module, names := range modules {
		all = append(all, func(ctx context.Context) error { return s.buildGo(ctx, module, names) })
	}
	return all
}

func (s *Setup) buildC(ctx context.Context, name string, folders []string) error {
	done := s.begin("building " + name)
	defer done()
	b := s.buildInfo(ctx)
	for _, folder := range folders {
		cmd := s.command(ctx, "make", "--silent", "--no-print-directory", fmt.Sprintf("-j%d", runtime.NumCPU()), "-C", folder,
			"VERSION="+b.version, "REVISION="+b.revision, "DATE="+b.date)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// buildGo builds into build/programs, since go build names a program after its package, and from there puts each program into bin/.
func (s *Setup) buildGo(ctx context.Context, module string, names []string) error {
	w, done := s.beginCounted("building " + strings.Join(names, ", "))
	defer done()
	into := s.path("build", "programs")
	for _, dir := range []string{into, s.path("bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the folder of programs: %w", err)
		}
	}
	// No -trimpath, so that go test, which has none, finds these packages built. A release is built by tools/release.
	args := []string{"build", "-C", s.path(module), "-v", "-ldflags", s.buildInfo(ctx).ldflags(), "-o", into + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, programs[name].pkg)
	}
	cmd := s.command(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = &w.packages, &w.packages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", strings.Join(names, ", "), err, w.packages.text.String())
	}
	for _, name := range names {
		if err := replace(filepath.Join(into, path.Base(programs[name].pkg)), s.path("bin", name)); err != nil {
			return fmt.Errorf("putting %s into bin: %w", name, err)
		}
	}
	return nil
}

// replace makes to the same file as from; what runs as the old one runs on.
func replace(from, to string) error {
	a, err := os.Stat(from)
	if err != nil {
		return err
	}
	if b, err := os.Stat(to); err == nil && os.SameFile(a, b) {
		return nil
	}
	next := to + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(from, next); err != nil { // Not every file system has hard links.
		if err := copyFile(from, next, a.Mode()); err != nil {
			return err
		}
	}
	return os.Rename(next, to)
}

func copyFile(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// buildInfo is what programs tell of themselves.
type buildInfo struct{ version, revision, date, branch string }

// BuildEnviron gives the version, revision and date of this checkout as variables. Their names are not those that the Makefiles of the C
// programs take: a task may build other sources than these.
func (s *Setup) BuildEnviron(ctx context.Context) []string {
	b := s.buildInfo(ctx)
	return []string{"BUILD_VERSION=" + b.version, "BUILD_REVISION=" + b.revision, "BUILD_DATE=" + b.date}
}

func (s *Setup) buildInfo(ctx context.Context) buildInfo {
	git := func(args ...string) string {
		cmd := s.command(ctx, "git", args...)
		cmd.Env = append(cmd.Env, "TZ=UTC")
		out, err := cmd.Output()
		if err != nil {
			return "" // No checkout: a source archive.
		}
		return strings.TrimSpace(string(out))
	}
	version := os.Getenv("VERSION")
	if version == "" {
		text, _ := os.ReadFile(s.path("VERSION"))
		version = strings.TrimSpace(string(text))
	}
	return buildInfo{
		version:  version,
		revision: cmp.Or(git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"), "unknown"),
		// The date of the last commit, so that the same sources give the same programs.
		date:   cmp.Or(git("log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"), "unknown"),
		branch: git("rev-parse", "--abbrev-ref", "HEAD"),
	}
}

func (b buildInfo) ldflags() string {
	const pkg = "github.com/prometheus/common/version"
	return fmt.Sprintf("-s -w -X %[1]s.Version=%[2]s -X %[1]s.Revision=%[3]s -X %[1]s.BuildDate=%[4]s -X %[1]s.Branch=%[5]s",
		pkg, b.version, b.revision, b.date, b.branch)
}
