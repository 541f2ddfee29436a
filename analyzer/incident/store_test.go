// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/identity"
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
		before, _ = r.OpenFor(identity.Job{ID: "job"})
		store.Flush()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newStore(t, dir))
		synctest.Wait()
		after, open := r.OpenFor(identity.Job{ID: "job"})
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

// A crash while writing leaves a temporary file behind.
func TestStoreClearsTemporaries(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".aaaaaaaaaaaa-123", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newStore(t, dir)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "notes.txt" {
		t.Errorf("files are %v, %v", files, err)
	}
}

// What cannot be written is tried again, and meanwhile it shows.
func TestStoreTriesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "incidents")
	s := newStore(t, dir)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	s.Save(Incident{Version: Version, ID: "aaaaaaaaaaaa", JobID: "old", State: Open})
	s.Flush()
	if s.Failed() == nil {
		t.Error("the failure does not show")
	}
	s.Save(Incident{Version: Version, ID: "aaaaaaaaaaaa", JobID: "new", State: Open})
	s.Save(Incident{Version: Version, ID: "bbbbbbbbbbbb", JobID: "b", State: Open})
	s.Flush()
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	s.Flush()
	if err := s.Failed(); err != nil {
		t.Errorf("it still fails: %v", err)
	}
	list, err := s.Load()
	if err != nil || len(list) != 2 || list[0].JobID != "new" {
		t.Errorf("stored are %+v, %v", list, err)
	}
}

// An incident whose analysis ends the process is left alone at the third start.
func TestQuarantineAfterKills(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, dir)
		save := func(id, job string) {
			trigger := firing(job, job)
			trigger.LastHeardAt = time.Now()
			store.Save(Incident{Version: Version, ID: id, JobID: job, State: Open, Triggers: []Trigger{trigger}})
		}
		save("aaaaaaaaaaaa", "bad")
		save("bbbbbbbbbbbb", "good")
		store.Flush()
		for kills := range 2 {
			if n := store.Unended("aaaaaaaaaaaa"); n != kills {
				t.Errorf("%d analyses did not end, want %d", n, kills)
			}
			// The process ends where the analysis would.
			m, err := NewManager(testOptions, nil, func(Incident) {}, store, promslog.NewNopLogger(), prometheus.NewPedanticRegistry(), clock.System)
			if err != nil {
				t.Fatal(err)
			}
			m.noteBegin(m.openJob[identity.Job{ID: "bad"}])
		}
		r := newRig(t, store)
		pass(time.Minute)
		for _, req := range r.asked() {
			if req.Job.ID == "bad" {
				t.Fatal("it is analysed again")
			}
		}
		if len(r.asked()) == 0 {
			t.Error("the other incident is not analysed")
		}
		if err := testutil.GatherAndCompare(r.reg, strings.NewReader("# HELP culprit_analyzer_quarantined_incidents Open incidents that are not analysed any more because their analysis crashed too often.\n"+
			"# TYPE culprit_analyzer_quarantined_incidents gauge\nculprit_analyzer_quarantined_incidents 1\n"), "culprit_analyzer_quarantined_incidents"); err != nil {
			t.Error(err)
		}
	})
}

// An analysis that panics twice in a row is not run a third time; one that ends in between begins the count anew.
func TestQuarantineAfterPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newStore(t, t.TempDir()))
		crash := func(Request) (Outcome, error) { panic("index out of range") }
		r.script(crash)
		r.receive(t, firing("a", "job"))
		r.script(func(Request) (Outcome, error) { return Outcome{}, errors.New("nobody is known") })
		pass(time.Second)
		r.script(crash)
		pass(time.Minute)
		if n := len(r.asked()); n != 4 {
			t.Errorf("%d analyses, want 4: a crash, none, two crashes", n)
		}
		if inc := r.only(t); !strings.Contains(inc.Analyses[3].Error, "not analysed again") {
			t.Errorf("incident is %+v", inc)
		}
	})
}
