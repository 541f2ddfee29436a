// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package install puts the shim's libraries where training jobs find them, on nodes that get them by a container image.
package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Libraries copies the libraries in the folder from to the folder to, which it makes. Running jobs have the old ones mapped, so that
// each is replaced as a whole and never written to.
func Libraries(from, to string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(from, "lib*.so"))
	if err != nil {
		return nil, fmt.Errorf("looking for libraries: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("--from=%s has no lib*.so: name the folder of libnccl-profiler-culprit.so, /usr/lib/culprit in the image", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the libraries: %w", err)
	}
	var done []string
	for _, name := range found {
		target := filepath.Join(to, filepath.Base(name))
		if err := replace(name, target); err != nil {
			return done, fmt.Errorf("installing %s: %w", target, err)
		}
		done = append(done, target)
	}
	return done, nil
}

func replace(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	if _, err = io.Copy(out, in); err == nil {
		err = out.Chmod(0o755)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
