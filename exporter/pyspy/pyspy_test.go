// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package pyspy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/exporter/proc"
)

// TestDump has programs in py-spy's place that do what one may do.
func TestDump(t *testing.T) {
	own, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	start, err := own.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		script, want, err string
		start             uint64
		timeout           time.Duration
	}{
		"stacks":      {script: `echo '[ {"pid": 1} ]'; echo "$@" >&2`, want: `[{"pid":1}]`},
		"no rights":   {script: "echo 'Error: Permission Denied.' >&2; exit 1", err: "py-spy failed (exit status 1): Error: Permission Denied"},
		"too much":    {script: "head -c 2000000 /dev/zero", err: "py-spy printed too much"},
		"no JSON":     {script: "echo hello", err: "reading what py-spy printed"},
		"too long":    {script: "exec sleep 1000", err: "py-spy took too long", timeout: 50 * time.Millisecond},
		"another one": {script: "echo []", err: "not in the node's PID namespace", start: 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "py-spy")
			if err := os.WriteFile(path, []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+tc.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			spy, err := Find(path)
			if err != nil {
				t.Fatal(err)
			}
			if tc.timeout == 0 {
				tc.timeout = time.Minute
			}
			if tc.start == 0 {
				tc.start = start
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
			defer cancel()
			got, err := spy.Dump(ctx, os.Getpid(), tc.start)
			if string(got) != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := Find(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a py-spy that is not there was found")
	}
}
