// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build pictures

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"image/png"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	before = 60 * time.Second // How much of the healthy job a picture shows.
	// margin keeps the healthy look clear of the fault: rates reach back four scrapes.
	margin = 10 * time.Second
	// heaviest is how many bytes a picture may have.
	heaviest = 300 << 10
)

// drawing is what a dashboard is drawn as.
type drawing struct {
	dashboard string
	fault     string   // Whose run is in the picture.
	expand    []string // Rows that are opened.
	height    int64    // In pixels; the rest is cut off.
}

var drawings = []drawing{
	{dashboard: "culprit-jobs", fault: "slow", expand: []string{"Waiting by rank"}, height: 2500},
	{dashboard: "culprit-communicator", fault: "hang", height: 1900},
	{dashboard: "culprit-rank", fault: "hang", height: 1700},
	{dashboard: "culprit-node", fault: "hang", height: 1700},
	{dashboard: "culprit-health", fault: "hang", height: 1700},
}

// drawn is what the page of tools/dashboards says of its panels.
type drawn struct {
	Panels []struct {
		Title, State, Error string
		Queries             map[string]int // Values by query.
	}
}

// empty says why queries return nothing: by state of the job, always, or where the job is ringjob; dashboard, and panel or panel:query. Where the reason starts with sometimes,
// they may return something as well.
type empty map[string]map[string]map[string]string

// TestDashboards draws the shipped dashboards with Grafana's panels from the Prometheus at $PROMETHEUS, which watches a job that has had the fault
// $FAULT, hang or slow, at rank 3 from $ONSET to $UNTIL. Before and after the fault each query returns values or is in testdata/empty.json, with the reason.
func TestDashboards(t *testing.T) {
	prometheus, fault, dist := os.Getenv("PROMETHEUS"), os.Getenv("FAULT"), os.Getenv("DASHBOARDS")
	if prometheus == "" || fault == "" || dist == "" {
		t.Fatal("PROMETHEUS, FAULT or DASHBOARDS is not set: run go run ./tools/ci run dashboard-pictures")
	}
	text, err := os.ReadFile("testdata/empty.json")
	if err != nil {
		t.Fatal(err)
	}
	var known empty
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	onset, err := time.Parse(time.RFC3339, os.Getenv("ONSET"))
	if err != nil {
		t.Fatalf("ONSET is not when the fault was injected: %v", err)
	}
	s := &site{browser: newBrowser(t), url: gallery(t, prometheus, dist)}
	until, err := time.Parse(time.RFC3339, os.Getenv("UNTIL"))
	if err != nil {
		t.Fatalf("UNTIL is not when the verdict was there: %v", err)
	}
	const slowest, busiest = `topk(1, culprit_nccl_op_age_seconds{rank="3"})`,
		`topk(1, culprit_nccl_comm_info{rank="3"} * on (job_id, comm) group_left () max by (job_id, comm) (job_id:culprit_nccl_comm_bus_bandwidth:max))`
	wanted, at := slowest, until
	if fault == "slow" {
		wanted, at = busiest, onset
	}
	comm := label(t, prometheus, at, wanted, "comm")
	host := label(t, prometheus, onset, `culprit_nccl_process_info{rank="3"}`, "instance")
	for _, d := range drawings {
		ask := url.Values{"dashboard": {d.dashboard}, "var-rank": {"3"}, "var-comm": {comm}, "var-instance": {host}}
		for state, at := range map[string][2]time.Time{
			"healthy": {onset.Add(-before - margin), onset.Add(-margin)},
			fault:     {onset.Add(-before), until},
		} {
			t.Run(state+"/"+d.dashboard, func(t *testing.T) {
				q := maps.Clone(ask)
				q.Set("expand", "*")
				b := s.tab(t, emulation.SetDeviceMetricsOverride(1600, 1000, 1, false))
				mayLack := maps.Clone(known["always"][d.dashboard])
				maps.Copy(mayLack, known[state][d.dashboard])
				if fault == "slow" {
					maps.Copy(mayLack, known["ringjob"][d.dashboard])
				}
				judge(t, b.draw(s.url, q, at), mayLack)
			})
		}
		if dir := os.Getenv("PICTURES"); dir != "" && d.fault == fault {
			t.Run("picture/"+d.dashboard, func(t *testing.T) {
				q := maps.Clone(ask)
				q["expand"] = d.expand
				b := s.tab(t, emulation.SetDeviceMetricsOverride(1600, d.height, 1, false), emulation.SetScrollbarsHidden(true))
				b.draw(s.url, q, [2]time.Time{onset.Add(-before), until})
				b.paint(filepath.Join(dir, "dashboard-"+strings.TrimPrefix(d.dashboard, "culprit-")+".png"), d.height)
			})
		}
	}
}

// judge says that each panel was drawn, and that each query returned something or is known not to.
func judge(t *testing.T, seen drawn, known map[string]string) {
	t.Helper()
	used := map[string]bool{}
	for _, p := range seen.Panels {
		if p.Error != "" || p.State != "Done" {
			t.Errorf("%s: %s %s", p.Title, p.State, p.Error)
			continue
		}
		for _, query := range slices.Sorted(maps.Keys(p.Queries)) {
			key := p.Title
			if _, whole := known[key]; !whole {
				key += ":" + query
			}
			why, listed := known[key]
			used[key] = true
			switch {
			case p.Queries[query] == 0 && !listed:
				t.Errorf("%s: query %s returns nothing", p.Title, query)
			case p.Queries[query] > 0 && listed && !strings.HasPrefix(why, "sometimes"):
				t.Errorf("%s: query %s returns values, though the list says: %s", p.Title, query, why)
			}
		}
	}
	for key := range known {
		if !used[key] {
			t.Errorf("the list names %s, which is not a panel", key)
		}
	}
}

// draw loads the page and waits until each panel has its answer and has drawn it.
func (b *tab) draw(site string, ask url.Values, at [2]time.Time) drawn {
	b.t.Helper()
	ask.Set("from", strconv.FormatInt(at[0].UnixMilli(), 10))
	ask.Set("to", strconv.FormatInt(at[1].UnixMilli(), 10))
	const ready = `(() => {
		if (window.failed) throw new Error(window.failed);
		const d = window.drawn && window.drawn();
		return d && d.panels.length > 0 && d.panels.every(p => p.state === 'Done' || p.state === 'Error');
	})()`
	var seen drawn
	// A tab behind another one is not laid out.
	b.run(chromedp.Navigate(site+"/?"+ask.Encode()), page.BringToFront(),
		chromedp.Poll(ready, nil, chromedp.WithPollingInterval(200*time.Millisecond), chromedp.WithPollingTimeout(deadline)),
		chromedp.Evaluate(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(window.drawn()))))`, &seen, awaited))
	b.clean()
	return seen
}

// paint writes what the page shows, as small as Go makes it.
func (b *tab) paint(file string, height int64) {
	b.t.Helper()
	var shot []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).WithClip(&page.Viewport{Width: 1600, Height: float64(height), Scale: 1}).Do(ctx)
		return err
	}))
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewColours(img)); err != nil {
		b.t.Fatal(err)
	}
	if out.Len() > heaviest {
		b.t.Errorf("%s has %d bytes, more than %d", file, out.Len(), heaviest)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// gallery serves the page, its icons and the dashboards, and forwards queries to Prometheus.
func gallery(t *testing.T, prometheus, dist string) string {
	t.Helper()
	to, err := url.Parse(prometheus)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(filepath.Join(dist, "dist"))))
	modules := filepath.Join(dist, "node_modules")
	mux.HandleFunc("/public/build/img/", func(w http.ResponseWriter, r *http.Request) {
		icon := filepath.Join(modules, "@grafana/ui/dist/public/img", strings.TrimPrefix(r.URL.Path, "/public/build/img"))
		w.Header().Set("Content-Type", "image/svg+xml")
		if text, err := os.ReadFile(icon); err == nil {
			w.Write(text)
		} else { // The package lacks some.
			io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg"/>`)
		}
	})
	mux.HandleFunc("/public/fonts/inter/", func(w http.ResponseWriter, r *http.Request) {
		fonts := map[string]string{"Inter-Regular": "400-normal", "Inter-Medium": "500-normal", "Inter-Italic": "400-italic", "Inter-MediumItalic": "500-italic"}
		name := fonts[strings.TrimSuffix(path.Base(r.URL.Path), ".woff2")]
		http.ServeFile(w, r, filepath.Join(modules, "@fontsource/inter/files", "inter-latin-"+name+".woff2"))
	})
	mux.Handle("/dashboards/", http.StripPrefix("/dashboards/", http.FileServer(http.Dir("../../dashboards"))))
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(to))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func label(t *testing.T, prometheus string, at time.Time, query, name string) string {
	t.Helper()
	return ask(t, prometheus, at, query).Metric[name]
}

type series struct {
	Metric map[string]string
	Value  [2]any
}

// ask is the first series that Prometheus answers.
func ask(t *testing.T, prometheus string, at time.Time, query string) series {
	t.Helper()
	resp, err := http.Get(prometheus + "/api/v1/query?" + url.Values{"query": {query}, "time": {at.Format(time.RFC3339)}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []series }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Data.Result) == 0 {
		t.Fatalf("%s: %d series, %s %v", query, len(answer.Data.Result), answer.Error, err)
	}
	return answer.Data.Result[0]
}
