// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"io"
)

var page = template.Must(template.New("scorecard").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width,initial-scale=1"/><title>Culprit scorecard</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1d2b30}
table{border-collapse:collapse;margin:1rem 0;font-size:13px;display:block;overflow-x:auto}
th,td{border-bottom:1px solid #d5dde0;padding:.25rem .6rem;text-align:left;vertical-align:top}th{background:#f2f6f7}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}
svg{width:100%;border:1px solid #e2e8ea}svg text{font:11px system-ui,sans-serif;fill:#1d2b30}svg .t{font-weight:600;font-size:12px}
svg .g{stroke:#e6ecee}svg .d{stroke:#9fb3ba;stroke-dasharray:4 3}svg .e{stroke:#1f6f8b}
</style></head><body><h1>Scorecard</h1>
{{range .Intro}}<p>{{.}}</p>{{end}}
<div class="plots">{{range .Plots}}{{.}}{{end}}</div>
{{range .Tables}}<h2>{{.Title}}</h2>{{if .Note}}<p>{{.Note}}</p>{{end}}
<table><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</table>{{end}}
</body></html>
`))

// HTML writes the report as one page with plots, that needs nothing else.
func (r *Report) HTML(w io.Writer) error {
	type shown struct {
		Title, Note string
		Head        []string
		Rows        [][]string
	}
	data := struct {
		Intro  []string
		Plots  []template.HTML
		Tables []shown
	}{Intro: r.intro()}
	for _, plot := range []string{r.latencyPlot(), r.reliabilityPlot(), r.methodPlot(), r.scalePlot()} {
		data.Plots = append(data.Plots, template.HTML(plot)) // Made here, with every text escaped.
	}
	for _, t := range r.tables() {
		data.Tables = append(data.Tables, shown{t.title, t.note, t.head, t.rows})
	}
	if err := page.Execute(w, data); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
