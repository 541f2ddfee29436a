// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/promslog"
)

func TestStoreSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	var before Incident
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, dir)
		r := newRig(t, store)
		r.receive(t, firing("a", "job"))
		old := firing("b", "old job")
		r.receive(t, old)
		r.receive(t, ended(old))
		pass(time.Minute)
		before, _ = r.OpenFor("job")
		store.Flush()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newStore(t, dir))
		synctest.Wait()
		after, open := r.OpenFor("job")
		if !open || after.ID != before.ID || !after.Verdict.Page || !after.OpenedAt.Equal(before.OpenedAt) {
			t.Errorf("after the restart: %+v", after)
		}
		if len(r.told()) == 0 || r.told()[0].ID != before.ID || !r.told()[0].Verdict.Page {
			t.Error("the standing verdict is not said again")
		}
		if len(r.asked()) != 1 {
			t.Errorf("%d analyses after the restart, want 1", len(r.asked()))
		}
		if len(r.List()) != 2 {
			t.Errorf("incidents: %+v", r.List())
		}
	})
}

func newStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := NewStore(dir, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreLoad(t *testing.T) {
	dir := t.TempDir()
	good := Incident{Version: Version, ID: "aaaaaaaaaaaa", JobID: "j", State: Resolved}
	write := func(name string, v any) {
		t.Helper()
		text, isText := v.(string)
		if !isText {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("aaaaaaaaaaaa.json", good)
	write("bbbbbbbbbbbb.json", "{half")
	other := good
	write("cccccccccccc.json", other) // Under another's name.
	newer := good
	newer.ID, newer.Version = "dddddddddddd", Version+1
	write("dddddddddddd.json", newer)
	odd := good
	odd.ID, odd.State = "eeeeeeeeeeee", "odd"
	write("eeeeeeeeeeee.json", odd)
	write("README.json", "{}")
	write(".aaaaaaaaaaaa-123", "left by a crash")
	list, err := newStore(t, dir).Load()
	if err != nil || len(list) != 1 || list[0].ID != good.ID {
		t.Errorf("loaded %+v, %v", list, err)
	}
}

func TestStoreNewestWins(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	inc := Incident{Version: Version, ID: "aaaaaaaaaaaa", State: Open}
	s.Save(inc)
	inc.State = Resolved
	s.Save(inc)
	s.Flush()
	list, err := s.Load()
	if err != nil || len(list) != 1 || list[0].State != Resolved {
		t.Fatalf("loaded %+v, %v", list, err)
	}
	s.Delete(inc.ID)
	s.Delete("bbbbbbbbbbbb")
	s.Flush()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 0 {
		t.Errorf("left %v, %v", files, err)
	}
}

func TestStoreFolderCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewStore(filepath.Join(file, "x"), promslog.NewNopLogger()); err == nil || !strings.Contains(err.Error(), "storage folder") {
		t.Errorf("error is %v", err)
	}
}
