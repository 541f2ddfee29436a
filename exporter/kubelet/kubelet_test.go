// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const uid = "0a1b2c3d-1111-2222-3333-444455556666"

func TestPods(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pods")
	var logs bytes.Buffer
	p := New(dir, slog.New(slog.NewTextHandler(&logs, nil)))
	now := time.Unix(1_800_000_000, 0)
	p.now = func() time.Time { return now }
	later := func() { now = now.Add(freshFor) }
	check := func(what, uid string, want Pod, known bool) {
		t.Helper()
		got, ok := p.Pod(uid)
		if ok != known || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v", what, got, ok)
		}
	}
	for range 3 {
		later()
		check("no folder", uid, Pod{}, false)
	}
	if n := strings.Count(logs.String(), "Names of pods are not known"); n != 1 {
		t.Errorf("%d lines", n)
	}
	mkdir := func(names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	mkdir("train_llm-1_"+uid+"/main", "train_llm-2_0123456789abcdef0123456789abcdef/main", "train_llm-2_0123456789abcdef0123456789abcdef/logs", "other", "a_b", "_x_y", "a_b_c_d")
	later()
	check("a pod", uid, Pod{"train", "llm-1", []string{"main"}}, true)
	check("a pod of the kubelet's own", "0123456789abcdef0123456789abcdef", Pod{"train", "llm-2", []string{"logs", "main"}}, true)
	for _, other := range []string{"", "y", "b", "d", "../pods", strings.ToUpper(uid)} {
		later()
		check("no pod", other, Pod{}, false)
	}
	mkdir("train_llm-1_" + uid + "/debugger")
	later()
	check("another container", uid, Pod{"train", "llm-1", []string{"debugger", "main"}}, true)
	// One that came is known at once, however often another is asked for.
	mkdir("train_new_99999999-1111-2222-3333-444455556666")
	now = now.Add(listPeriod)
	check("a new one", "99999999-1111-2222-3333-444455556666", Pod{Namespace: "train", Name: "new"}, true)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	later()
	check("it went", uid, Pod{}, false)
}
