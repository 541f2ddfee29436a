// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
)

const (
	libraryFile = "libnccl.so.2"
	layoutFile  = "layout"
	// needBytes is the free space that the largest wheel and what is taken out of it need together.
	needBytes = 1 << 30
)

// Store is the directory of the libraries: one folder a release, with the library, its layout and the wheel's licence text.
type Store struct {
	Dir string
	// LayoutTool is the program that reads a library's debug information and writes the layout of its device structs.
	LayoutTool string
	// Python runs pip; empty: python3.
	Python string
	// Log receives one line for each thing that takes time.
	Log func(format string, args ...any)
}

// Library is one library that is ready to be run.
type Library struct {
	Version string
	Path    string
	Layout  string
}

// Has says whether a release's library is here already.
func (s *Store) Has(r Release) bool {
	_, err := os.Stat(filepath.Join(s.Dir, r.Version, libraryFile))
	return err == nil
}

// Get gives a release's library. It is downloaded, checked and taken out of its wheel unless it is there.
func (s *Store) Get(ctx context.Context, r Release) (Library, error) {
	unlock, err := s.lock()
	if err != nil {
		return Library{}, err
	}
	defer unlock()
	dir := filepath.Join(s.Dir, r.Version)
	lib := Library{Version: r.Version, Path: filepath.Join(dir, libraryFile), Layout: filepath.Join(dir, layoutFile)}
	if _, err := os.Stat(lib.Path); errors.Is(err, os.ErrNotExist) {
		err = s.fetch(ctx, r, dir)
		if err != nil {
			return Library{}, fmt.Errorf("getting NCCL %s: %w", r.Version, err)
		}
	} else if err != nil {
		return Library{}, fmt.Errorf("getting NCCL %s: %w", r.Version, err)
	}
	return lib, s.layout(ctx, lib)
}

// Given gives a library of the user's own.
func (s *Store) Given(ctx context.Context, path string) (Library, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Library{}, fmt.Errorf("finding %s: %w", path, err)
	}
	version, err := versionOf(path)
	if err != nil {
		return Library{}, err
	}
	unlock, err := s.lock()
	if err != nil {
		return Library{}, err
	}
	defer unlock()
	// Made anew each time: another library may lie at the same path.
	layout := filepath.Join(s.Dir, "given-"+version+".layout")
	if err := os.Remove(layout); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Library{}, fmt.Errorf("removing an old layout: %w", err)
	}
	lib := Library{Version: version, Path: path, Layout: layout}
	return lib, s.layout(ctx, lib)
}

// lock keeps two programs from filling the store at once.
func (s *Store) lock() (func(), error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the NCCL libraries: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the NCCL libraries: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking the NCCL libraries: %w", err)
	}
	return func() { file.Close() }, nil
}

// fetch downloads the release's wheel and puts what is needed of it into dir, whole or not at all.
func (s *Store) fetch(ctx context.Context, r Release, dir string) error {
	if err := s.room(); err != nil {
		return err
	}
	scratch := dir + ".part"
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("removing an unfinished download: %w", err)
	}
	defer os.RemoveAll(scratch)
	wheel := filepath.Join(scratch, "wheel", r.Wheel)
	if err := os.MkdirAll(filepath.Dir(wheel), 0o755); err != nil {
		return fmt.Errorf("making a directory for the download: %w", err)
	}
	s.Log("downloading NCCL %s with pip (a wheel of 190 to 310 MB, once)", r.Version)
	if err := s.pip(ctx, r, filepath.Dir(wheel)); err != nil {
		return err
	}
	if err := checkSum(wheel, r.SHA256); err != nil {
		return err
	}
	if err := extract(wheel, scratch); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(wheel)); err != nil {
		return fmt.Errorf("removing the wheel: %w", err)
	}
	// A folder without a library may be there from an earlier layout.
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clearing the place of the library: %w", err)
	}
	if err := os.Rename(scratch, dir); err != nil {
		return fmt.Errorf("moving the library to its place: %w", err)
	}
	return nil
}

// room says when the file system is too full.
func (s *Store) room() error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.Dir, &st); err != nil {
		return fmt.Errorf("asking for the free space of %s: %w", s.Dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < needBytes {
		return fmt.Errorf("%s has %d MB free, a download needs %d MB", s.Dir, free>>20, needBytes>>20)
	}
	return nil
}

// pip downloads the one wheel into dir.
func (s *Store) pip(ctx context.Context, r Release, dir string) error {
	python := s.Python
	if python == "" {
		python = "python3"
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
		"--no-deps", "--only-binary=:all:", "--dest="+dir, Package+"=="+r.Version)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the download needs %s with pip, which is not here: %w", python, err)
	case bytes.Contains(out, []byte("No module named pip")):
		return fmt.Errorf("%s has no pip, which the download needs (python3 -m ensurepip, or the package python3-pip)", python)
	}
	return fmt.Errorf("pip did not get %s %s; is the package index in reach? %w\n%s", Package, r.Version, err, bytes.TrimSpace(out))
}

// layout makes the library's layout file unless one is there that is younger than the program that makes it.
func (s *Store) layout(ctx context.Context, lib Library) error {
	tool, err := os.Stat(s.LayoutTool)
	if err != nil {
		return fmt.Errorf("finding the layout tool (make build first): %w", err)
	}
	if have, err := os.Stat(lib.Layout); err == nil && have.Size() > 0 && !have.ModTime().Before(tool.ModTime()) {
		return nil
	}
	s.Log("reading the layout of NCCL %s from its debug information", lib.Version)
	var text, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, s.LayoutTool, lib.Path)
	cmd.Stdout, cmd.Stderr = &text, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("reading the layout of %s: %w: %s", lib.Path, err, bytes.TrimSpace(complaint.Bytes()))
	}
	// Written beside its place and moved there: jobs may be reading the old one.
	part := lib.Layout + ".part"
	if err := os.WriteFile(part, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing a layout: %w", err)
	}
	if err := os.Rename(part, lib.Layout); err != nil {
		return fmt.Errorf("writing a layout: %w", err)
	}
	return nil
}

var versionText = regexp.MustCompile(`NCCL version (\d+\.\d+\.\d+)[+\x00\n]`)

// versionOf finds the version that a library says of itself.
func versionOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the library: %w", err)
	}
	defer file.Close()
	const block, overlap = 1 << 20, 64
	buf := make([]byte, 0, block+overlap)
	for {
		n, err := io.ReadFull(file, buf[len(buf):block+overlap])
		buf = buf[:len(buf)+n]
		if m := versionText.FindSubmatch(buf); m != nil {
			return string(m[1]), nil
		}
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return "", fmt.Errorf("%s does not say which version of NCCL it is", path)
			}
			return "", fmt.Errorf("reading the library: %w", err)
		}
		keep := copy(buf, buf[len(buf)-overlap:])
		buf = buf[:keep]
	}
}
