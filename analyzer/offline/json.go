// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"encoding/json"
	"io"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// jsonVersion is the version of the document that --json prints. New fields do not raise it.
const jsonVersion = 1

// document is what --json prints; docs/analyze.md describes it. Verdicts have the schema of the service's API.
type document struct {
	Version       int            `json:"version"`
	Verdict       rca.Verdict    `json:"verdict"`
	Suspects      []string       `json:"suspects,omitempty"` // Ranks not seen that others wait for.
	Sources       []documentPart `json:"sources"`
	Disagreements []string       `json:"disagreements,omitempty"`
	Comparison    []string       `json:"comparison,omitempty"`
	Differences   []difference   `json:"differences,omitempty"` // From the healthy recording, in numbers.
	NextSteps     []string       `json:"next_steps,omitempty"`
	Files         []fileResult   `json:"files"`
}

type documentPart struct {
	Name    string      `json:"name"`
	Files   int         `json:"files"`
	Notes   []string    `json:"notes,omitempty"`
	Verdict rca.Verdict `json:"verdict"` // Of this source alone.
}

func writeJSON(w io.Writer, r *result) error {
	d := document{
		Version: jsonVersion, Verdict: r.verdict, Disagreements: r.disagreements, Comparison: r.comparison, Differences: r.differences,
		NextSteps: nextSteps(r), Files: r.files, Suspects: suspects(r),
	}
	for _, s := range r.sources {
		d.Sources = append(d.Sources, documentPart{s.Name, s.Files, s.Notes, s.Verdict})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}
