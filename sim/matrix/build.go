// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rooms are what decides how a case ends: the product, its configuration, and what plays GPU and job.
var rooms = []string{
	"analyzer", "deploy/alertmanager", "exporter", "go.mod", "ncclshim", "rules", "trace",
	"lab/fakegpu", "lab/ncclrun", "lab/train", "lab/nccl/draw", "sim/matrix", "sim/stack",
}

// Build gives a short hash of all sources that decide how a case ends, so that results of another state are not taken for
// those of this one.
func Build(root string) (string, error) {
	h := sha256.New()
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"testdata", "tests"}, d.Name()):
				return filepath.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md"):
				return nil
			}
			return hashFile(h, root, path)
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources under %s: %w", room, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func hashFile(h io.Writer, root, path string) error {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n", name, info.Size())
	_, err = io.Copy(h, f)
	return err
}
