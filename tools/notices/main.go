// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Notices writes THIRD_PARTY_NOTICES: the licences of all modules that are linked into the programs of `make build`. It fails on a
// licence that is not on its list, and with --check on a file that differs from what it would write.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const fileName = "THIRD_PARTY_NOTICES"

// programs are the packages that are linked, by the directory of their module.
var programs = []struct {
	dir      string
	packages []string
}{
	{".", []string{"./exporter", "./analyzer", "./sim/demo", "./sim/cmd/culprit-nccl"}},
	{"sim/scorecard", []string{"./cmd/culprit-sim"}},
}

func main() {
	check := flag.Bool("check", false, "Compare with "+fileName+" instead of writing it.")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	var notices []notice
	for _, p := range programs {
		found, err := linked(p.dir, p.packages)
		if err != nil {
			return err
		}
		notices = append(notices, found...)
	}
	text, err := render(notices)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(fileName, text, 0o644) // It is for everybody.
	}
	have, err := os.ReadFile(fileName)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return errors.New(fileName + " differs from what is linked: run make generate")
	}
	return nil
}

// notice is a licence or notice file of a module.
type notice struct {
	module, version, name string // Name is the file's path in the module.
	text                  string
}

// listed is what is read of `go list`.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Version string }
	}
}

// linked reads the notices of everything that packages depend on.
func linked(dir string, packages []string) ([]notice, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module"}, packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	// The same on every machine: what is shipped is for Linux.
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s links: %w", dir, err)
	}
	var notices []notice
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading what %s links: %w", dir, err)
		}
		found, err := p.notices()
		if err != nil {
			return nil, fmt.Errorf("licence of %s: %w", p.ImportPath, err)
		}
		notices = append(notices, found...)
	}
	standard, err := standardLibrary(dir)
	return append(notices, standard), err
}

// notices are the files in the package's folder and in those above it, up to the module's.
func (p *listed) notices() ([]notice, error) {
	m := p.Module
	if p.Standard || m == nil || m.Main || m.Replace != nil && m.Replace.Version == "" {
		return nil, nil
	}
	var out []notice
	licensed := false
	for dir := p.Dir; ; dir = filepath.Dir(dir) {
		names, err := filepath.Glob(filepath.Join(dir, "[LNC]*"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !isNotice(filepath.Base(name)) {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(m.Dir, name)
			if err != nil {
				return nil, err
			}
			licensed = licensed || !strings.HasPrefix(filepath.Base(name), "NOTICE")
			out = append(out, notice{m.Path, m.Version, rel, tidy(string(text))})
		}
		if dir == m.Dir {
			break
		}
	}
	if !licensed {
		return nil, errors.New("no licence file")
	}
	return out, nil
}

func isNotice(name string) bool {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, ".txt"), ".md")
	return stem == "LICENSE" || stem == "LICENCE" || stem == "COPYING" || stem == "NOTICE" || strings.HasPrefix(stem, "LICENSE-")
}

// standardLibrary is the notice of Go itself, which is in every program.
func standardLibrary(dir string) (notice, error) {
	cmd := exec.Command("go", "env", "GOROOT")
	cmd.Dir = dir
	root, err := cmd.Output()
	if err != nil {
		return notice{}, fmt.Errorf("finding %s: %w", runtime.Version(), err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if errors.Is(err, os.ErrNotExist) {
		// Distributions of Go put it elsewhere; the words are those of golang.org/x.
		return notice{}, errors.New("the installed Go has no LICENSE file")
	}
	return notice{module: "Go standard library", name: "LICENSE", text: tidy(string(text))}, err
}

// tidy evens out what differs without meaning anything.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// render writes each text once, under the modules that have it.
func render(notices []notice) ([]byte, error) {
	slices.SortFunc(notices, func(a, b notice) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.version, b.version), cmp.Compare(a.name, b.name))
	})
	notices = slices.Compact(notices)
	var refused []error
	var order []string
	holders := map[string][]string{}
	kinds := map[string]string{}
	for _, n := range notices {
		kind := "notice"
		if !strings.HasPrefix(filepath.Base(n.name), "NOTICE") {
			found := classify(n.text)
			if kind = strings.Join(found, " and "); !permitted(found) {
				refused = append(refused, fmt.Errorf("%s %s: %s is %s, which is not on the list", n.module, n.version, n.name, cmp.Or(kind, "an unknown licence")))
			}
		}
		if holders[n.text] == nil {
			order = append(order, n.text)
			kinds[n.text] = kind
		}
		holders[n.text] = append(holders[n.text], strings.TrimSpace(n.module+" "+n.version)+" ("+n.name+")")
	}
	if len(refused) > 0 {
		return nil, errors.Join(refused...)
	}
	var out bytes.Buffer
	out.WriteString("Culprit's programs contain the following software of others. Written by make generate.\n")
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n", strings.Repeat("=", 80), kinds[text])
		for _, holder := range holders[text] {
			fmt.Fprintf(&out, "  %s\n", holder)
		}
		fmt.Fprintf(&out, "\n%s\n", text)
	}
	return out.Bytes(), nil
}
