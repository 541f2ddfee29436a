// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/api"
	"github.com/culprit-project/culprit/analyzer/incident"
	shown "github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// deadline bounds one test; a busy machine needs seconds.
const deadline = time.Minute

// chromium finds the browser: CHROMIUM, or Debian's package.
func chromium(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("CHROMIUM"); name != "" {
		return name
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium on the PATH: apt-get install -y --no-install-recommends chromium")
	return ""
}

// axe is the source of axe-core, which make test-page fetches.
func axe(t *testing.T) string {
	t.Helper()
	name := os.Getenv("AXE")
	if name == "" {
		t.Fatal("AXE does not name axe.min.js: run make test-page")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// site is a service with incidents, and a browser that looks at it.
type site struct {
	*shelf
	url     string
	browser context.Context
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{shelf: newShelf()}
	known := newCluster()
	done := []action.Entry{
		{At: opened, Event: action.WouldRun, Subject: action.Subject{Action: "drain", Incident: "hung00000008", Hosts: []string{"node-0000"}}},
		{At: opened, Event: action.Failed, Subject: action.Subject{Action: "tell", Incident: "hung00000008", Hosts: []string{evil}}, Reason: evil, Output: evil},
	}
	a := api.New(s.shelf, api.Options{
		Jobs: func() api.Jobs { return known },
		Links: func(*incident.Incident) []shown.Link {
			return []shown.Link{{Text: "Runbook", URL: "https://example.org/runbook"}, {Text: "Log", URL: "https://example.org/log"}}
		},
		SilenceURL: func(inc *incident.Incident) string { return "https://example.org/silence/" + inc.ID },
		Notified: func(context.Context, *incident.Incident) *shown.Notified {
			return &shown.Notified{Receivers: []string{"pager", "chat"}}
		},
		Actions: func(id string) []action.Entry {
			return slices.DeleteFunc(slices.Clone(done), func(e action.Entry) bool { return e.Incident != id })
		},
	}, promslog.NewNopLogger())
	mux := http.NewServeMux()
	a.Register(mux)
	web := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(web, []byte("basic_auth_users: {operator: x}"), 0o600); err != nil {
		t.Fatal(err)
	}
	handler, err := access.Restrict(mux, web, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetBasicAuth("operator", "checked before") // As if the toolkit had checked it.
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(a.End)
	s.url = srv.URL
	s.browser = newBrowser(t)
	return s
}

func newBrowser(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("starting the browser: %v", err)
	}
	return ctx
}

// tab is one page of the browser, with what went wrong on it.
type tab struct {
	t   testing.TB
	ctx context.Context
	end func()

	mu     sync.Mutex
	errors []string
}

func (s *site) tab(t testing.TB, actions ...chromedp.Action) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(s.browser)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, end: func() { cancel(); end() }}
	chromedp.ListenTarget(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := ev.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !strings.Contains(e.Entry.URL, "favicon") {
				b.errors = append(b.errors, e.Entry.Text)
			}
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			b.errors = append(b.errors, "dialog: "+e.Message)
		}
	})
	b.run(append([]chromedp.Action{log.Enable(), network.Enable()}, actions...)...)
	return b
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// clean says that nothing went wrong on the page: no script threw, and its policy forbade nothing.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.t.Errorf("the browser says: %s", e)
	}
}

// awaited has a script's promise kept before the browser answers.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// accessible says that axe-core finds no violation.
func (b *tab) accessible(source string) {
	b.t.Helper()
	var found string
	const script = `axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' + n.any.map(a => a.message).join('; '))}))))`
	b.run(chromedp.Evaluate(source+"\n;0", nil), chromedp.Evaluate(script, &found, awaited))
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		b.t.Errorf("%s: %s: %s", v.ID, v.Help, strings.Join(v.Nodes, "\n  "))
	}
}

// fits says that the page is no wider than its window.
func (b *tab) fits() {
	b.t.Helper()
	var over int
	b.run(chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &over))
	if over > 0 {
		b.t.Errorf("the page is %d pixels wider than its window", over)
	}
}

// picture saves what the page looks like to $PICTURES, if that is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	// A tab behind another one is not drawn.
	b.run(page.BringToFront(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		return err
	}))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// looks are the ways in which people look at a page.
var looks = map[string][]chromedp.Action{
	"light": {emulation.SetDeviceMetricsOverride(1280, 900, 1, false), scheme("light")},
	"dark":  {emulation.SetDeviceMetricsOverride(1280, 900, 1, false), scheme("dark")},
	"phone": {emulation.SetDeviceMetricsOverride(390, 844, 2, true), scheme("light")},
}

func scheme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}})
}

var pages = map[string]string{
	"index": "/", "incident-8": "/incidents/hung00000008", "incident-512": "/incidents/hung00000512", "incident-10240": "/incidents/hung00010240",
	"incident-102400": "/incidents/hung00102400", "incident-slow": "/incidents/slowslowslow",
	"jobs": "/jobs", "job-8": "/job?id=llm-pretrain-8", "job-512": "/job?id=llm-pretrain-512", "job-10240": "/job?id=llm-pretrain-10240",
}

// Every page, in every look, is accessible, fits its window and breaks nothing.
func TestPages(t *testing.T) {
	s, source := newSite(t), axe(t)
	for name, path := range pages {
		for look, actions := range looks {
			t.Run(name+"/"+look, func(t *testing.T) {
				b := s.tab(t, actions...)
				begin := time.Now()
				b.run(chromedp.Navigate(s.url+path), chromedp.WaitReady("footer"))
				t.Logf("readable after %s", time.Since(begin).Round(time.Millisecond))
				b.accessible(source)
				b.fits()
				b.picture(name + "-" + look)
				b.clean()
			})
		}
	}
}

// On a phone, where tables have no heads, each cell says what it is.
func TestPhoneNamesCells(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]string{pages["incident-8"]: "Sends outstanding", pages["job-8"]: "Bus bandwidth", "/": "Verdict"} {
		b := s.tab(t, looks["phone"]...)
		var names string
		b.run(chromedp.Navigate(s.url+path), chromedp.WaitReady("footer"), chromedp.Evaluate(`[...document.querySelectorAll('td')].map(c => getComputedStyle(c, '::before').content).join(' ')`, &names))
		if !strings.Contains(names, want) {
			t.Errorf("%s: cells are called %.300s, want one %s", path, names, want)
		}
	}
}

// However many ranks a job has, its page is small enough for a phone at night.
func TestPagesAreSmall(t *testing.T) {
	s := newSite(t)
	for name, path := range pages {
		resp, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d compressed", name, len(text), b.Len())
		if b.Len() > 300_000 {
			t.Errorf("%s: %d bytes compressed", name, b.Len())
		}
	}
}

// Whatever people call their jobs and hosts, nothing of it runs.
func TestHostileNamesRunNothing(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/", "/incidents/hostilehosti", "/incidents/hung00000008", "/jobs", "/job?id=" + url.QueryEscape(evil), "/?q=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E"} {
		b := s.tab(t)
		var hacked bool
		var images int
		b.run(chromedp.Navigate(s.url+path), chromedp.WaitReady("footer"), chromedp.Evaluate(`'hacked' in window`, &hacked), chromedp.Evaluate(`document.images.length + document.querySelectorAll('script:not([src])').length`, &images))
		if hacked || images > 0 {
			t.Errorf("%s: hacked %t, %d elements that nobody wrote", path, hacked, images)
		}
		b.clean()
	}
}

var pdfPage = regexp.MustCompile(`/Type\s*/Page[^s]`)

// Pages print on a few sheets, however many ranks the job has.
func TestPrint(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"index", "incident-8", "incident-512", "incident-10240", "incident-102400", "incident-slow", "job-8", "job-10240"} {
		b := s.tab(t)
		var pdf []byte
		b.run(chromedp.Navigate(s.url+pages[name]), chromedp.WaitReady("footer"), chromedp.ActionFunc(func(ctx context.Context) (err error) {
			pdf, _, err = page.PrintToPDF().WithPrintBackground(true).Do(ctx)
			return err
		}))
		sheets := len(pdfPage.FindAll(pdf, -1))
		t.Logf("%s: %d sheets", name, sheets)
		if sheets < 1 || sheets > 8 {
			t.Errorf("%s takes %d sheets", name, sheets)
		}
		if dir := os.Getenv("PICTURES"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, name+".pdf"), pdf, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// often: a tab behind another one draws no frames, by which polling goes otherwise.
var often = chromedp.WithPollingInterval(50 * time.Millisecond)

// A page follows what happens, keeps what the reader has opened, and reads the same without a script.
func TestPageFollows(t *testing.T) {
	s := newSite(t)
	b := s.tab(t)
	b.run(emulation.SetTimezoneOverride("Asia/Tokyo"), chromedp.Navigate(s.url+pages["incident-8"]), chromedp.WaitVisible(`#live`), chromedp.Poll(`document.getElementById('live').textContent.includes('updates by itself')`, nil, often),
		chromedp.Evaluate(`document.getElementById('waits-text').open = true`, nil))
	s.change("hung00000008", func(inc *incident.Incident) {
		v := *inc.Verdict
		v.Summary = "Another thing was found."
		inc.Verdict = &v
	})
	var open, local bool
	b.run(chromedp.Poll(`document.querySelector('.summary').textContent.includes('Another thing')`, nil, often), chromedp.Evaluate(`document.getElementById('waits-text').open`, &open),
		chromedp.Evaluate(`document.querySelector('time').textContent.includes('(')`, &local))
	if !open || !local {
		t.Errorf("what was open is open: %t, times are local, too: %t", open, local)
	}
	b.clean()

	plain := s.tab(t, emulation.SetScriptExecutionDisabled(true))
	var text string
	plain.run(chromedp.Navigate(s.url+pages["incident-8"]), chromedp.WaitReady("footer"), chromedp.OuterHTML("main", &text))
	for _, want := range []string{"Another thing was found.", "<svg", "Who waits for whom", "culprit: to blame"} {
		if !strings.Contains(text, want) {
			t.Errorf("without a script %q is not there", want)
		}
	}
}

// Who may act records on the page whether the verdict was right, and what is typed is not taken away by news.
func TestFeedback(t *testing.T) {
	s := newSite(t)
	b := s.tab(t)
	b.run(chromedp.Navigate(s.url+pages["incident-8"]), chromedp.WaitVisible(`#judge`), chromedp.Poll(`document.getElementById('live').textContent.includes('updates by itself')`, nil, often),
		chromedp.SendKeys(`#judge input[name=note]`, "a long evaluation"))
	s.change("hung00000008", func(*incident.Incident) {})
	b.run(chromedp.Click(`#judge input[value=false]`), chromedp.SetValue(`#judge select[name=class]`, "benign"), chromedp.Click(`#judge button`),
		chromedp.Poll(`document.getElementById('answer').textContent.includes('Recorded')`, nil, often))
	inc, _ := s.Get("hung00000008")
	if len(inc.Feedback) != 1 || inc.Feedback[0].By != "operator" || inc.Feedback[0].Right || inc.Feedback[0].Class != rca.Benign || inc.Feedback[0].Note != "a long evaluation" {
		t.Errorf("recorded %+v", inc.Feedback)
	}
	b.run(chromedp.Poll(`document.querySelector('main').textContent.includes('operator: wrong')`, nil, often))
	s.change("hung00000008", func(i *incident.Incident) { i.Feedback[0].Note = "a longer evaluation" })
	b.run(chromedp.Poll(`document.querySelector('main').textContent.includes('a longer evaluation')`, nil, often))
	var said string
	if b.run(chromedp.Text(`header`, &said)); !strings.Contains(said, "Recorded") {
		t.Errorf("news has taken the answer away: %q", said)
	}
	b.clean()
}

// Everything can be reached by keyboard, and the first stop is a way past the head of the page.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	b := s.tab(t)
	b.run(chromedp.Navigate(s.url+pages["incident-8"]), chromedp.WaitReady("footer"))
	var stops []string
	for range 16 {
		var stop string
		b.run(chromedp.KeyEvent("\t"), chromedp.Evaluate(`(e => e.className + ' ' + e.textContent.slice(0, 40))(document.activeElement)`, &stop))
		stops = append(stops, stop)
	}
	if !strings.Contains(stops[0], "Skip to the content") || !strings.Contains(fmt.Sprint(stops), "scroll") || !strings.Contains(fmt.Sprint(stops), "The same as text") {
		t.Errorf("stops are %q", stops)
	}
}
