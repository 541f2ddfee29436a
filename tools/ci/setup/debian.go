// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errNoDebian says that the machine is none of Debian's relatives.
var errNoDebian = errors.New("no apt-get here")

// debianPackage is a package that is downloaded and unpacked, not installed: that takes no root.
type debianPackage struct {
	name   string
	file   string // The program in it.
	assets string // A folder that the program reads; "" is none.
}

// fromDebian puts the program of a distribution's package into bin/tools.
func (s *Setup) fromDebian(ctx context.Context, name string, from elsewhere) error {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return errNoDebian
		}
	}
	s.debian.Lock()
	defer s.debian.Unlock()
	done := s.begin("getting " + name + " from the distribution")
	defer done()
	if s.apt == nil {
		s.apt = &apt{setup: s, dir: s.path(".cache", "debian-tools")}
	}
	version, err := s.apt.candidate(ctx, from.debian.name)
	if err != nil {
		return err
	}
	if !atLeast(version, from.oldest) {
		return fmt.Errorf("release %s is older than %s (%s)", version, from.oldest, from.why)
	}
	root, err := s.apt.unpacked(ctx, from.debian, version)
	if err != nil {
		return err
	}
	program := filepath.Join(root, from.debian.file)
	if from.debian.assets != "" {
		if program, err = withAssets(program, root, from.debian.assets); err != nil {
			return err
		}
	}
	if err := try(ctx, name, program); err != nil {
		return err
	}
	s.say("%s: using %s of the distribution, unpacked in .cache", name, version)
	return s.putTool(name, "debian "+from.debian.name+" "+version, func(next string) error { return os.Symlink(program, next) })
}

// apt asks the package manager as a plain user.
type apt struct {
	setup *Setup
	dir   string
	own   bool // It has lists of packages of its own: those of the system are missing or too old.
}

func (a *apt) run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	options := []string{"-q", "-o", "APT::Sandbox::User=root"}
	if a.own {
		state := filepath.Join(a.dir, "apt")
		for _, folder := range []string{"lists/partial", "cache/archives/partial"} {
			if err := os.MkdirAll(filepath.Join(state, folder), 0o755); err != nil {
				return nil, fmt.Errorf("making the package manager's folders: %w", err)
			}
		}
		options = append(options, "-o", "Dir::State::lists="+filepath.Join(state, "lists"), "-o", "Dir::Cache="+filepath.Join(state, "cache"))
	}
	cmd := a.setup.command(ctx, name, append(options, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(stderr.Bytes(), 3))
	}
	return out, nil
}

// candidate gives the version of a package that the package manager would install.
func (a *apt) candidate(ctx context.Context, pkg string) (string, error) {
	out, err := a.run(ctx, a.setup.Root, "apt-cache", "policy", pkg)
	if err != nil {
		return "", err
	}
	if version := candidateOf(out); version != "" {
		return version, nil
	}
	if a.own {
		return "", fmt.Errorf("the distribution has no package %s", pkg)
	}
	if err := a.update(ctx); err != nil {
		return "", err
	}
	return a.candidate(ctx, pkg)
}

// candidateOf reads what apt-cache policy prints.
func candidateOf(policy []byte) string {
	for line := range strings.Lines(string(policy)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); ok && version != "(none)" {
			return version
		}
	}
	return ""
}

// update fetches lists of packages into a folder of its own.
func (a *apt) update(ctx context.Context) error {
	a.own = true
	_, err := a.run(ctx, a.setup.Root, "apt-get", "update")
	return err
}

// unpacked gives the folder in which a package is unpacked.
func (a *apt) unpacked(ctx context.Context, pkg debianPackage, version string) (string, error) {
	root := filepath.Join(a.dir, pkg.name+"_"+strings.ReplaceAll(version, ":", "_"))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of packages: %w", err)
	}
	scratch, err := os.MkdirTemp(a.dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("making a folder to download to: %w", err)
	}
	defer os.RemoveAll(scratch)
	_, err = a.run(ctx, scratch, "apt-get", "download", pkg.name+"="+version)
	if err != nil && !a.own {
		// The lists of the system may name a file that its archive has replaced.
		if err = a.update(ctx); err == nil {
			if version, err = a.candidate(ctx, pkg.name); err == nil {
				return a.unpacked(ctx, pkg, version)
			}
		}
	}
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(scratch, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("apt-get download left %d packages, %w", len(files), err)
	}
	content := filepath.Join(scratch, "root")
	if out, err := a.setup.command(ctx, "dpkg-deb", "-x", files[0], content).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking %s: %w: %s", pkg.name, err, out)
	}
	if err := os.Rename(content, root); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", pkg.name, err)
	}
	return root, nil
}

// withAssets makes of a program that reads files under /usr/share one that reads them where they are unpacked, and gives a script that
// runs it. A path in a program cannot become longer: it becomes that of a file descriptor, which the script opens.
func withAssets(program, root, assets string) (string, error) {
	const descriptor = "/proc/self/fd/9"
	text, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", program, err)
	}
	other := []byte(descriptor + strings.Repeat("/", len(assets)-len(descriptor)))
	if text = bytes.ReplaceAll(text, []byte(assets), other); !bytes.Contains(text, other) {
		return program, nil // It has its assets in itself.
	}
	if err := os.WriteFile(program+".moved", text, 0o755); err != nil {
		return "", fmt.Errorf("writing a program that finds its files: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec 9<'%s'\nexec '%s' \"$@\"\n", filepath.Join(root, assets), program+".moved")
	if err := os.WriteFile(program+".sh", []byte(script), 0o755); err != nil {
		return "", fmt.Errorf("writing a script that opens the program's files: %w", err)
	}
	return program + ".sh", nil
}

// try runs a program of a package that was not installed: it may lack libraries or files.
func try(ctx context.Context, name, program string) error {
	if name == "alertmanager" {
		return tryAlertmanager(ctx, program)
	}
	if versionOf(ctx, program) == "" {
		return fmt.Errorf("%s --version prints no version", program)
	}
	return nil
}

// tryAlertmanager starts Alertmanager: it reads its templates when it starts.
func tryAlertmanager(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "culprit-alertmanager-")
	if err != nil {
		return fmt.Errorf("making a folder to try it in: %w", err)
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"), 0o644); err != nil {
		return fmt.Errorf("writing a configuration to try it with: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.path="+dir, "--web.listen-address=127.0.0.1:0", "--cluster.listen-address=")
	log, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("trying it: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("trying it: %w", err)
	}
	defer func() {
		cancel()
		_, _ = io.Copy(io.Discard, log)
		_ = cmd.Wait()
	}()
	last := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if last = lines.Text(); strings.Contains(last, "Listening on") {
			return nil
		}
	}
	return fmt.Errorf("it does not start: %s", last)
}
