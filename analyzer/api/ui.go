// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/version"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/notify"
)

//go:embed pages/*.html
var pages embed.FS

var (
	indexPage    = parse("index.html")
	incidentPage = parse("incident.html")
)

func parse(name string) *template.Template {
	return template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"took":    took,
		"percent": func(f float64) string { return strconv.FormatFloat(100*f, 'f', 0, 64) + "%" },
		"culprit": notify.Culprit,
		"link":    notify.Link,
		"ranks":   notify.Ranges,
	}).ParseFS(pages, "pages/layout.html", "pages/"+name))
}

// took says how long an incident has lasted, or lasted.
func took(inc incident.Incident) string {
	end := time.Now()
	if inc.ResolvedAt != nil {
		end = *inc.ResolvedAt
	}
	return end.Sub(inc.OpenedAt).Round(time.Second).String()
}

type page struct {
	Title    string
	Version  string
	Refresh  bool // Reload by itself: something is open.
	Incident incident.Incident
	List     []incident.Incident
	Hosts    []host
	States   []stateCount
	Alone    bool // The page is a file of its own, with no service behind it.
	More     []Section
}

// Section is a list that a page of its own has below the incident.
type Section struct {
	Title string
	Items []string
}

// WritePage writes an incident's page as one file that needs no other.
func WritePage(w io.Writer, title string, inc incident.Incident, more []Section) error {
	p := page{Title: title, Version: version.Version, Incident: inc, Alone: true, More: more}
	p.Hosts, p.States = grid(inc.Ranks)
	if err := incidentPage.Execute(w, &p); err != nil {
		return fmt.Errorf("rendering the page: %w", err)
	}
	return nil
}

// host is one row of the grid.
type host struct {
	Name  string
	Ranks []incident.RankView
}

type stateCount struct {
	State string
	Count int
}

func (a *API) index(w http.ResponseWriter, _ *http.Request) {
	p := page{Title: "Incidents", List: a.incidents.List()}
	p.Refresh = true
	a.render(w, indexPage, &p)
}

func (a *API) page(w http.ResponseWriter, r *http.Request) {
	inc, ok := a.incidents.Get(r.PathValue("id"))
	if !ok {
		http.Error(w, "no such incident", http.StatusNotFound)
		return
	}
	p := page{Title: fmt.Sprintf("Job %s", inc.JobID), Incident: inc, Refresh: inc.State == incident.Open}
	p.Hosts, p.States = grid(inc.Ranks)
	a.render(w, incidentPage, &p)
}

// grid groups ranks by host, in the order of their first rank, and counts states.
func grid(ranks []incident.RankView) ([]host, []stateCount) {
	var hosts []host
	var states []stateCount
	at, count := map[string]int{}, map[string]int{}
	for _, r := range ranks {
		i, known := at[r.Host]
		if !known {
			i = len(hosts)
			at[r.Host] = i
			hosts = append(hosts, host{Name: r.Host})
		}
		hosts[i].Ranks = append(hosts[i].Ranks, r)
		n, known := count[r.State]
		if !known {
			n = len(states)
			count[r.State] = n
			states = append(states, stateCount{State: r.State})
		}
		states[n].Count++
	}
	return hosts, states
}

func (a *API) render(w http.ResponseWriter, t *template.Template, p *page) {
	p.Version = version.Version
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		a.logger.Error("page not rendered", "title", p.Title, "err", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = b.WriteTo(w)
}
