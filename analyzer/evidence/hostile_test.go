// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	promapi "github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/culprit-project/culprit/analyzer/clock"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// allocated gives the bytes that f allocates in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A process tries to exhaust the analyzer's memory with its answer. It costs only that process's own data.
func TestHostileProcessCostsItself(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			if strings.Contains(format, "%") {
				fmt.Fprintf(&b, format, i)
			} else {
				b.WriteString(format)
			}
		}
		return b.String()
	}
	for _, tc := range []struct {
		name, evil string
		kept       bool
	}{
		{"members beyond any world", `"comms":[` + many(256, `{"index":%d,"generation":1,"comm":"%[1]x","nranks":1073741824,"rank":1048575}`) + `]`, true},
		{"a world beyond any", `"identity":{"world_size":1073741824},"comms":[{"generation":1,"comm":"1","nranks":1073741824,"rank":1073741823}]`, true},
		{"empty communicators", `"comms":[` + many(1<<20, `{}`) + `]`, false},
		{"empty operations", `"ops":[` + many(1<<20, `{}`) + `]`, false},
		{"operations that are null", `"ops":[` + many(1<<20, `null`) + `]`, false},
		{"operations that are numbers", `"ops":[` + many(1<<20, `1`) + `]`, false},
		{"operations that are lists", `"ops":[` + many(1<<20, `[]`) + `]`, false},
		{"numbers where they belong", `"comms":[{"generation":1,"comm":"b","nranks":2,"rank":1,"func_completed":[1,2,3,4,5,6,7,8],"func_bytes":[1,2,3]}]`, true},
		{
			"one slot named by all",
			`"comms":[` + many(5_000, `{"generation":1,"comm":"1","nranks":2}`) + `],"ops":[` + many(5_000, `{"comm_generation":1,"generation":1,"state":"moving"}`) +
				`],"flows":[` + many(5_000, `{"comm_generation":1,"op_generation":1,"state":"send_net"}`) + `]`, true,
		},
		{"null everywhere", `"comms":null,"ops":[null],"flows":[null,null],"calls":[null],"kernel":null,"completions":[null]`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRack(t)
			answer := `{"version":1,"node":"a","now_ns":9000000000,"processes":[{"file":"evil","job_id":"job","rank":1,` + tc.evil +
				`},{"file":"good","job_id":"job","rank":0,"comms":[{"generation":1,"comm":"a","nranks":2,"rank":0},{"index":1,"generation":1,"comm":"beef","nranks":2,"rank":1}]}],"unread":null}`
			r.add(t, 0, "a", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			r.Allowance = NewAllowance(ServiceObjects)
			s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var ev rca.Evidence
			bytes := allocated(func() {
				s.Ask(t.Context(), s.AllNodes())
				ev = s.Evidence()
				engine.Analyze(ev, rca.Options{})
			})
			if most := uint64(512 << 20); bytes > most {
				t.Errorf("%d MB were asked for", bytes>>20)
			}
			var ranks []int
			for i := range ev.Ranks {
				ranks = append(ranks, ev.Ranks[i].ID)
			}
			want := []int{0}
			if tc.kept {
				want = []int{0, 1}
			} else if !slices.ContainsFunc(ev.Missing, func(m rca.Missing) bool { return m.What == "file" && m.Name == "evil" }) {
				t.Errorf("missing is %+v", ev.Missing)
			}
			if !slices.Equal(ranks, want) {
				t.Errorf("ranks are %v, want %v", ranks, want)
			}
			for _, c := range ev.Comms {
				if name, _ := splitID(c.ID); name == "beef" && !slices.Equal(c.Members, []int{-1, 0}) {
					t.Errorf("%s has members %v", c.ID, c.Members)
				}
			}
			s.Close()
			if used := r.Allowance.used.Load(); used != 0 {
				t.Errorf("%d objects are not given back", used)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	for text, want := range map[string]int64{
		`{}`:                                  1,
		`{"a":"{[\\\"{","b":[]}`:              1,
		`{"a":[{},{"b":null}]}`:               3,
		`[null, null ,{}]`:                    3,
		`[[],[[]]]`:                           3,
		`[1,-2.5e3,true,"x","]"]`:             0,
		`[` + strings.Repeat("1,", 40) + `1]`: 41 - fewScalars,
		`{"a":1,"b":"c"`:                      1,
		`"`:                                   0,
		`]}`:                                  0,
	} {
		if got := objects([]byte(text)); got != want {
			t.Errorf("%s: %d objects, want %d", text, got, want)
		}
	}
}

// The states that all analyses keep are bounded: what does not fit is left out and reported.
func TestAllowance(t *testing.T) {
	r := newRack(t)
	r.add(t, 0, "a", serve(stateOf("a", rankProcess(0, "a"), rankProcess(1, "a"))))
	r.Allowance = NewAllowance(10)
	open := func() (*Session, rca.Evidence) {
		s, err := r.Open(t.Context(), identity.Job{ID: "job"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // Asking again takes no more from the allowance.
			s.Ask(t.Context(), s.AllNodes())
		}
		return s, s.Evidence()
	}
	first, ev := open()
	if len(ev.Ranks) == 0 {
		t.Fatal("nothing fits")
	}
	r.Allowance.used.Store(10)
	if _, ev := open(); len(ev.Ranks) != 0 || !slices.ContainsFunc(ev.Missing, func(m rca.Missing) bool { return strings.Contains(m.Why, "too large") }) {
		t.Errorf("beyond the allowance: %+v", ev)
	}
	r.Allowance.used.Store(first.objects.Load())
	first.Close()
	if _, ev := open(); len(ev.Ranks) == 0 {
		t.Error("what was given back does not fit")
	}
}

// Every query returns, whatever Prometheus answers.
func TestPrometheusAnswersGarbage(t *testing.T) {
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	client, err := promapi.NewClient(promapi.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, body = range []string{
		``, `null`, `[]`, `{}`, `{"status":"success"}`, `{"status":"success","data":null}`, `{"status":"success","data":{}}`,
		`{"status":"success","data":{"resultType":"vector"}}`, `{"status":"success","data":{"resultType":"vector","result":null}}`,
		`{"status":"success","data":{"resultType":"vector","result":[null]}}`, `{"status":"success","data":{"resultType":"vector","result":[{}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":null,"value":null}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"rank":"0","comm":"a"},"value":[1,"NaN"]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[null]}}`, `{"status":"success","data":{"resultType":"scalar","result":null}}`,
		`{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`, `{"status":"success","data":{"resultType":"odd","result":7}}`,
	} {
		cfg := config.Default()
		d := NewDirectory(v1.NewAPI(client), cfg.Prometheus, func(error) {}, clock.System)
		ctx := t.Context()
		_ = d.Refresh(ctx)
		_, _ = d.Processes(ctx, identity.Job{ID: "job"})
		_, _, _ = d.settle(ctx, identity.Job{ID: "job"}, []Process{{Rank: 0, Live: true, Instance: "a"}, {Rank: 0, Live: true, Instance: "b"}})
		_, _ = d.Scraped(ctx, "a")
		_, _ = d.Members(ctx, identity.Job{ID: "job"}, nil)
		_, _ = d.Stalled(ctx, identity.Job{ID: "job"}, 3)
		_, _ = d.Pace(ctx, identity.Job{ID: "job"})
		_, _ = d.longest(ctx, cfg.Prometheus.Queries.LongestWait, identity.Job{ID: "job"}, 1)
		_, _ = d.longest(ctx, cfg.Prometheus.Queries.LongestPause, identity.Job{ID: "job"}, 1)
		_, _ = d.Counts(ctx, identity.Job{ID: "job"}, []string{"a"})
		_, _ = d.Heard(ctx, identity.Job{ID: "job"}, []int{0})
		_, _ = d.Grown(ctx, identity.Job{ID: "job"}, 1)
		comms, _ := d.Heads(ctx, identity.Job{ID: "job"})
		_ = d.Least(ctx, identity.Job{ID: "job"}, comms)
		_, _ = d.CommsOf(ctx, identity.Job{ID: "job"}, []int{0})
		_ = d.Facts(ctx, []string{"h"}, func(string, string, string) int { return 0 })
	}
}
