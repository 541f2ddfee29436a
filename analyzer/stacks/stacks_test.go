// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/analyzer/incident"
)

const dump = `[
 {"pid":17,"thread_id":2,"thread_name":"pin_memory","active":false,"owns_gil":false,"frames":[{"name":"get","filename":"/q.py","line":1}]},
 {"pid":17,"thread_id":1,"thread_name":"MainThread","active":true,"owns_gil":true,"frames":[
  {"name":"save","filename":"/opt/torch/serialization.py","short_filename":"torch/serialization.py","module":null,"line":849,"locals":null},
  {"name":"<module>","filename":"train.py","line":12}]}
]`

func TestParse(t *testing.T) {
	got, err := Parse(strings.NewReader(dump))
	if want := []string{"<module> (train.py:12)", "save (torch/serialization.py:849)"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("stack is %q, %v", got, err)
	}
	for _, bad := range []string{"", "[]", "{}", "Process 17: python", "[{"} {
		if got, err := Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gave %q", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(dump)
	f.Add(`[{"frames":null}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := Parse(strings.NewReader(text)); err == nil && len(got) == 0 {
			t.Error("no frames")
		}
	})
}

func TestDump(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("pid") {
		case "1":
			_, _ = w.Write([]byte(dump))
		case "2":
			http.Error(w, "no ptrace", http.StatusForbidden)
		default:
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	s := &Source{
		URL:  template.Must(template.New("").Option("missingkey=error").Parse(srv.URL + "/?pid={{ .pid }}")),
		HTTP: srv.Client(), Timeout: 100 * time.Millisecond,
	}
	got, err := s.Dump(t.Context(), []Process{
		{Rank: 1, Labels: map[string]string{"pid": "1"}},
		{Rank: 2, Labels: map[string]string{"pid": "2"}},
		{Rank: 3, Labels: map[string]string{"pid": "3"}},
		{Rank: 4, Labels: map[string]string{}},
	})
	if len(got) != 1 || len(got[1]) != 2 {
		t.Errorf("stacks are %v", got)
	}
	for _, want := range []string{"rank 2: it answered 403", "rank 3", "rank 4: filling stacks.url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

func TestGroup(t *testing.T) {
	wait, save := []string{"a", "wait"}, []string{"a", "save"}
	got := Group(map[int][]string{3: wait, 1: wait, 2: save, 0: wait})
	want := []incident.StackGroup{{Ranks: []int{2}, Frames: save}, {Ranks: []int{0, 1, 3}, Frames: wait}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
