// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"io"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// JSONVersion is the version of the document that --json prints. New fields do not raise it.
const JSONVersion = 1

// Document is what --json prints; docs/analyze.md describes it. Verdicts have the schema of the service's API.
type Document struct {
	Version       int                    `json:"version"`
	Verdict       rca.Verdict            `json:"verdict"`
	Suspects      []string               `json:"suspects,omitempty"` // Ranks not seen that others wait for.
	Sources       []documentPart         `json:"sources"`
	Disagreements []string               `json:"disagreements,omitempty"`
	Comparison    []string               `json:"comparison,omitempty"`
	Differences   []diagnosis.Difference `json:"differences,omitempty"` // From the healthy recording, in numbers.
	NextSteps     []string               `json:"next_steps,omitempty"`
	Files         []load.File            `json:"files"`
}

type documentPart struct {
	Name    string      `json:"name"`
	Files   int         `json:"files"`
	Notes   []string    `json:"notes,omitempty"`
	Verdict rca.Verdict `json:"verdict"` // Of this source alone.
}

// JSON writes the document.
func JSON(w io.Writer, r *diagnosis.Result) error {
	d := Document{
		Version: JSONVersion, Verdict: r.Verdict, Disagreements: r.Disagreements, Comparison: r.Comparison, Differences: r.Differences,
		NextSteps: nextSteps(r), Files: r.Files, Suspects: Suspects(r),
	}
	for _, s := range r.Sources {
		d.Sources = append(d.Sources, documentPart{s.Name, s.Files, s.Notes, s.Verdict})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}
