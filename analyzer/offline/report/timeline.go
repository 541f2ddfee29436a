// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/timeline"
)

// Timeline writes what the evidence holds of time as a trace that Chrome and Perfetto open. The file appears whole or not.
func Timeline(path string, r *diagnosis.Result) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".timeline-*")
	if err != nil {
		return fmt.Errorf("writing timeline: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = timeline.Write(f, &r.Evidence, &r.Verdict)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing timeline %s: %w", path, err)
	}
	return nil
}
