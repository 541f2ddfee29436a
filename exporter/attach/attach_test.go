// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"io"
	"log/slog"
	"strings"
	"testing"
)

// What cannot be looked at is told before a probe is set.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, "one of --pid and --job is needed"},
		{Options{PID: 1, Job: "7"}, "one of --pid and --job is needed"},
		{Options{PID: 1 << 30}, "--pid 1073741824 is no process"},
	} {
		c.options.ProcFS, c.options.Logger = t.TempDir(), slog.New(slog.DiscardHandler)
		if _, err := Run(t.Context(), io.Discard, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
}
