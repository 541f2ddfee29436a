// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// checkSum says when a file is not the one that was expected.
func checkSum(file, want string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("opening the wheel: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("reading the wheel: %w", err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has the SHA-256 sum %s, want %s: it is not the wheel that was published", filepath.Base(file), got, want)
	}
	return nil
}

// extract takes the library, the licence text and the metadata out of a wheel.
func extract(wheel, dir string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("opening the wheel: %w", err)
	}
	defer z.Close()
	found := false
	for _, f := range z.File {
		name := path.Base(f.Name)
		inInfo := strings.Contains(f.Name, ".dist-info/")
		switch {
		case strings.HasSuffix(f.Name, "/lib/"+libraryFile):
			found = true
		case inInfo && (name == "METADATA" || strings.HasPrefix(strings.ToLower(name), "license")):
		default:
			continue
		}
		if err := extractFile(f, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s holds no %s", filepath.Base(wheel), libraryFile)
	}
	return nil
}

func extractFile(f *zip.File, to string) error {
	in, err := f.Open()
	if err != nil {
		return fmt.Errorf("reading %s in the wheel: %w", f.Name, err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("taking %s out of the wheel: %w", f.Name, err)
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("taking %s out of the wheel: %w", f.Name, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("taking %s out of the wheel: %w", f.Name, err)
	}
	return nil
}
