// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// TestTwoJobsWithOneID starts a second job with the id of one that runs on the same hosts, without containers: the first stays watched, and
// the second is counted as disputed. When the first has ended, the second is watched.
func TestTwoJobsWithOneID(t *testing.T) {
	t.Parallel()
	older, younger := t.TempDir(), t.TempDir()
	end := startRanksIn(t, older, "")
	j := &job{t: t, addr: startExporter(t, filepath.Join(older, "host0"), filepath.Join(older, "host1"), filepath.Join(younger, "host0"), filepath.Join(younger, "host1"))}
	// The pids of living ranks whose claims stand, and how many are disputed.
	claims := func() (pids map[int32]int, disputed int) {
		pids = map[int32]int{}
		for _, p := range j.state("?job_id=train").Processes {
			switch {
			case p.Kernel.State == nodeapi.ProcessExited || p.Kernel.State == nodeapi.ProcessGone:
			case strings.Contains(p.Disputed, "two jobs have one id"):
				disputed++
			default:
				pids[p.Rank] = p.Kernel.HostPID
			}
		}
		return pids, disputed
	}
	var first map[int32]int
	j.eventually(func() string {
		var disputed int
		if first, disputed = claims(); len(first) != 4 || disputed != 0 {
			return fmt.Sprintf("of one job %d ranks are watched, and %d disputed", len(first), disputed)
		}
		return ""
	})
	startRanksIn(t, younger, "")
	j.eventually(func() string {
		watched, disputed := claims()
		if disputed != 4 || !maps.Equal(watched, first) {
			return fmt.Sprintf("of two jobs %v are watched, want %v, and %d disputed", watched, first, disputed)
		}
		return ""
	})
	if !strings.Contains(j.body("/metrics"), "culprit_exporter_disputed_claims 4\n") {
		t.Error("disputed claims are not counted")
	}
	for rank, pid := range first {
		if want := fmt.Sprintf(`pid="%d",pod="",rank="%d"`, pid, rank); !strings.Contains(j.body("/metrics"), want) {
			t.Errorf("the first job has no series %s", want)
		}
	}
	end()
	j.eventually(func() string {
		watched, disputed := claims()
		if disputed != 0 || len(watched) != 4 {
			return fmt.Sprintf("after the first job %d ranks are watched, and %d disputed", len(watched), disputed)
		}
		return ""
	})
}
