// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/promslog"
)

func TestDecodeCaptured(t *testing.T) {
	for _, tc := range []struct {
		file      string
		alerts    int
		resolved  int
		truncated uint64
	}{
		{"v0.31.1.json", 1, 0, 0},
		{"v0.34.2.json", 2, 1, 3},
	} {
		t.Run(tc.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("testdata", tc.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m, err := Decode(f)
			if err != nil {
				t.Fatal(err)
			}
			resolved := 0
			for _, a := range m.Alerts {
				if a.Status == Resolved {
					resolved++
				} else if a.EndsAt.Year() != 1 {
					t.Errorf("firing alert ends at %s", a.EndsAt)
				}
			}
			if len(m.Alerts) != tc.alerts || resolved != tc.resolved || m.TruncatedAlerts != tc.truncated {
				t.Errorf("%d alerts, %d resolved, %d truncated", len(m.Alerts), resolved, m.TruncatedAlerts)
			}
			if m.GroupLabels["job_id"] != "7" || m.Receiver != "hook" || m.Alerts[0].Labels["rank"] != "1" {
				t.Errorf("message is %+v", m)
			}
		})
	}
}

// The hash that Alertmanager itself put into the captured notification.
func TestFingerprint(t *testing.T) {
	labels := map[string]string{"alertname": "SlowRank", "job_id": "7", "rank": "1", "severity": "warning"}
	if got := Fingerprint(labels); got != "d64a25234bf34d73" {
		t.Errorf("fingerprint is %s", got)
	}
}

func TestHandler(t *testing.T) {
	const alert = `{"status":"firing","labels":{"alertname":"A"},"startsAt":"2026-11-21T02:30:58Z"}`
	for _, tc := range []struct {
		name, body string
		sink       error
		code       int
		answer     string
		taken      int
	}{
		{name: "one alert", body: `{"version":"4","alerts":[` + alert + `]}`, code: 200, taken: 1},
		{name: "no alerts", body: `{"version":"4"}`, code: 200},
		{name: "unknown fields", body: `{"version":"4","surprise":{"a":[1]},"alerts":[` + alert + `]}`, code: 200, taken: 1},
		{name: "empty", body: ``, code: 400, answer: "not an Alertmanager notification"},
		{name: "not JSON", body: `alerts!`, code: 400, answer: "not an Alertmanager notification"},
		{name: "cut off", body: `{"version":"4","alerts":[`, code: 400, answer: "not an Alertmanager notification"},
		{name: "two documents", body: `{"version":"4"}{}`, code: 400, answer: "after the end"},
		{name: "array", body: `[]`, code: 400, answer: "not an Alertmanager notification"},
		{name: "version 3", body: `{"version":"3"}`, code: 400, answer: `version is "3"`},
		{name: "own payload", body: `{"text":"hello"}`, code: 400, answer: "own payload"},
		{name: "bad status", body: `{"version":"4","alerts":[{"status":"odd","labels":{"a":"b"}}]}`, code: 400, answer: `status is "odd"`},
		{name: "no labels", body: `{"version":"4","alerts":[{"status":"firing"}]}`, code: 400, answer: "no labels"},
		{name: "bad time", body: `{"version":"4","alerts":[{"status":"firing","labels":{"a":"b"},"startsAt":"now"}]}`, code: 400, answer: "not an Alertmanager"},
		{name: "overload", body: `{"version":"4","alerts":[` + alert + `]}`, sink: ErrOverloaded, code: 503, answer: "too many"},
		{name: "other trouble", body: `{"version":"4"}`, sink: errors.New("disk"), code: 503, answer: "disk"},
		{name: "too large", body: `{"version":"4","x":"` + strings.Repeat("a", MaxBody) + `"}`, code: 413, answer: "max_alerts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			taken := 0
			reg := prometheus.NewPedanticRegistry()
			h := NewHandler(func(_ context.Context, m *Message) error {
				taken = len(m.Alerts)
				return tc.sink
			}, promslog.NewNopLogger(), reg)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/alerts", strings.NewReader(tc.body)))
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.answer) {
				t.Errorf("answer is %d %q, want %d %q", w.Code, w.Body, tc.code, tc.answer)
			}
			if tc.sink == nil && taken != tc.taken {
				t.Errorf("%d alerts taken, want %d", taken, tc.taken)
			}
			if got := testutil.ToFloat64(h.requests.WithLabelValues(strconv.Itoa(tc.code))); got != 1 {
				t.Errorf("counted %v requests with code %d", got, tc.code)
			}
			if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
				t.Errorf("lint: %v %v", problems, err)
			}
		})
	}
}

// Of a name that a body has twice the last value counts: the alerts do not add up.
func TestAlertsTwice(t *testing.T) {
	alert := `{"status":"firing","labels":{"alertname":"%s"},"startsAt":"2026-11-21T02:30:58Z"}`
	body := fmt.Sprintf(`{"version":"4","alerts":[`+alert+`],"alerts":[`+alert+`]}`, "First", "Last")
	m, err := Decode(strings.NewReader(body))
	if err != nil || len(m.Alerts) != 1 || m.Alerts[0].Labels["alertname"] != "Last" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A body of the largest size with as many alerts as it can hold takes little memory: the first one is none.
func TestManyAlertsOfNothing(t *testing.T) {
	for _, element := range []string{"{}", "null"} {
		body := `{"version":"4","alerts":[` + strings.Repeat(element+",", MaxBody/(len(element)+1)-20) + element + `]}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Decode(strings.NewReader(body)); err == nil {
			t.Errorf("%s was taken", element)
		}
		runtime.ReadMemStats(&after)
		// A decoder's buffer doubles until the body fits.
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 128 {
			t.Errorf("%s: %d MiB were asked for", element, mib)
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"version":"4","alerts":[{"status":"resolved","labels":{"":"\u0000"},"endsAt":"9999-12-31T23:59:59Z"}],"truncatedAlerts":18446744073709551615}`)
	f.Add(`{"version":"4","alerts":null,"groupLabels":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		m, err := Decode(strings.NewReader(body))
		if err != nil {
			if m != nil {
				t.Error("an error and a message")
			}
			return
		}
		if m.Version != Version {
			t.Errorf("version %q was taken", m.Version)
		}
		for _, a := range m.Alerts {
			if a.Fingerprint == "" || len(a.Labels) == 0 || (a.Status != Firing && a.Status != Resolved) {
				t.Errorf("alert %+v was taken", a)
			}
		}
	})
}
