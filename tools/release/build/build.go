// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package build compiles what is shipped, for other architectures too. The C compiler is zig's, which knows the symbols of every
// release of glibc.
package build

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/tools/release/symbols"
)

// Arches are the architectures of a release, in Go's words.
var Arches = []string{"amd64", "arm64"}

var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

const versionPackage = "github.com/prometheus/common/version"

// Libraries are the shim's.
var Libraries = []string{"libnccl-profiler-culprit.so", "libculprit-preload.so", "libculprit-ibverbs.so"}

// Source is what is built.
type Source struct {
	Root     string // The repository.
	Version  string
	Revision string
	Date     time.Time // Of the last change: what is built today and what is built tomorrow are the same.
}

// Programs are the shipped ones, with whether they need cgo: NVML is opened with dlopen, which is the C library's.
var Programs = []struct {
	Name, Package string
	cgo           bool
}{
	{"culprit-exporter", "./exporter", true},
	{"culprit-analyzer", "./analyzer", false},
}

// All builds everything for an architecture into to/bin and to/lib; zig is the compiler's path.
func All(ctx context.Context, s Source, arch, zig, to string) error {
	wrapper := filepath.Join(s.Root, "tools", "release", "zigcc.sh")
	env := append(os.Environ(),
		"ZIG="+zig, "ZIG_TARGET="+machines[arch]+"-linux-gnu."+symbols.Oldest,
		"GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "CC="+wrapper, "CGO_CFLAGS=-O2", "CGO_LDFLAGS=")
	for _, p := range Programs {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", s.flags(),
			"-o", filepath.Join(to, "bin", p.Name), p.Package)
		cmd.Env = append(slices.Clone(env), "CGO_ENABLED="+bit(p.cgo))
		if err := run(cmd, s.Root); err != nil {
			return fmt.Errorf("building %s for %s: %w", p.Name, arch, err)
		}
	}
	cmd := exec.CommandContext(ctx, "make", "--silent", "-C", "ncclshim", "CC="+wrapper, "CFLAGS=-O3", "LDFLAGS=-s",
		"B="+filepath.Join(to, "shim"), "O="+filepath.Join(to, "lib"),
		"VERSION="+s.Version, "REVISION="+s.Revision, "DATE="+s.Date.Format(time.RFC3339))
	cmd.Env = env
	if err := run(cmd, s.Root); err != nil {
		return fmt.Errorf("building the shim for %s: %w", arch, err)
	}
	return check(to)
}

func run(cmd *exec.Cmd, dir string) error {
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	return cmd.Run()
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// flags of Go's linker. The build ID is left empty, since it depends on the paths of the C compiler's files.
func (s Source) flags() string {
	flags := []string{"-s", "-w", "-buildid="}
	for _, v := range [][2]string{{"Version", s.Version}, {"Revision", s.Revision}, {"BuildDate", s.Date.Format(time.RFC3339)}} {
		flags = append(flags, "-X", versionPackage+"."+v[0]+"="+v[1])
	}
	return strings.Join(flags, " ")
}

// check refuses what needs a newer glibc than symbols.Oldest.
func check(to string) error {
	var files []string
	for _, p := range Programs {
		files = append(files, filepath.Join(to, "bin", p.Name))
	}
	for _, l := range Libraries {
		files = append(files, filepath.Join(to, "lib", l))
	}
	for _, name := range files {
		v, err := symbols.Glibc(name)
		if err != nil {
			return err
		}
		if v != "" && symbols.Newer(v, symbols.Oldest) {
			return fmt.Errorf("%s needs glibc %s, at most %s is allowed", filepath.Base(name), v, symbols.Oldest)
		}
		fmt.Fprintf(os.Stderr, "release: %s needs glibc %s\n", filepath.Join(filepath.Base(to), filepath.Base(name)), cmp.Or(v, "of no version"))
	}
	return nil
}
