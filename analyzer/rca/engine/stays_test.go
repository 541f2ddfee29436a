// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

// TestStays: a rank that two close looks show to stay where it is pages without patience, and its file is named; a rank that only sleeps, or
// shows such a thing once, is waited for.
func TestStays(t *testing.T) {
	nfs := &rca.Storage{Call: "read", Path: "/data/a", Mount: "/data", Type: "nfs4", Source: "nas1:/data"}
	pdb := []string{"step (train.py:9)", "interaction (pdb.py:355)", "cmdloop (cmd.py:126)"}
	ends := []string{"_shutdown (threading.py:1570)", "_wait_for_tstate_lock (threading.py:1116)"}
	for _, tc := range []struct {
		name  string
		is    func(*rca.Rank)
		begun int64 // Operations that the job has completed.
		page  bool
		cause rca.Cause
		tells string
	}{
		{"a file that does not answer", func(r *rca.Rank) { r.Storage, r.Still = nfs, true }, 100, true, rca.CauseStorage, "read of /data/a on /data (nfs4 of nas1:/data)"},
		{"a file, seen once", func(r *rca.Rank) { r.Storage = nfs }, 100, false, rca.CauseNotCalled, "Rank 2 (node2, GPU 0) waits in read of /data/a"},
		{"a debugger", func(r *rca.Rank) { r.Stack, r.Still = pdb, true }, 100, true, rca.CauseNotCalled, "in a debugger at step (train.py:9)"},
		{"a debugger in the first step", func(r *rca.Rank) { r.Stack, r.Still = pdb, true }, 1, true, rca.CauseNotCalled, "in a debugger at step (train.py:9)"},
		{"a debugger, seen once", func(r *rca.Rank) { r.Stack = pdb }, 100, false, rca.CauseNotCalled, "in a debugger at step (train.py:9)"},
		{"the interpreter's end", func(r *rca.Rank) { r.Stack, r.Still = ends, true }, 100, true, rca.CauseNotCalled, "in the interpreter's shutdown"},
		{"its own code", func(r *rca.Rank) { r.Stack, r.Still = []string{"evaluate (train.py:9)"}, true }, 100, false, rca.CauseNotCalled, "in evaluate (train.py:9)"},
		{"a lock", func(r *rca.Rank) {
			r.Stack, r.Still = []string{"step (train.py:9)", "acquire (threading.py:300)"}, true
		}, 100, false, rca.CauseNotCalled, "in a lock at step (train.py:9)"},
		{"nothing but sleep", func(r *rca.Rank) { r.Still = true }, 100, false, rca.CauseNotCalled, "has not run between two looks"},
	} {
		j := newHungJob(3).comm("c", 0, 1, 2).in("c", "AllReduce", []int{0, 1})
		for r := range 3 {
			m := j.on(r, "c")
			m.Called, m.Started, m.Completed = m.Called-100+tc.begun, tc.begun, tc.begun
			for i := range m.InFlight {
				m.InFlight[i].Number, m.InFlight[i].Seq = tc.begun, tc.begun
			}
		}
		tc.is(j.rank(2))
		v := j.verdict()
		page.Decide(&v, page.Stage{Patience: &page.Patience{For: 30 * time.Second}})
		text := v.Summary + strings.Join(v.Evidence, "\n")
		if v.Page != tc.page || v.Cause != tc.cause || len(v.Culprits) != 1 || v.Culprits[0].Rank != 2 || !strings.Contains(text, tc.tells) {
			t.Errorf("%s: %s, page %v in %g s, %s", tc.name, v.Cause, v.Page, v.PageIn, text)
		}
	}
	j := newHungJob(4).comm("c", 0, 1, 2, 3).in("c", "AllReduce", []int{0, 1})
	for _, r := range []int{2, 3} {
		j.rank(r).Storage, j.rank(r).Still = nfs, true
	}
	if v := j.verdict(); !slices.Contains(v.Evidence, "2 ranks wait for /data: ranks 2, 3.") || !strings.HasPrefix(v.Action, "Check the mount /data (nfs4 of nas1:/data) on node2") {
		t.Errorf("two of one mount: %q, %v", v.Action, v.Evidence)
	}
}
