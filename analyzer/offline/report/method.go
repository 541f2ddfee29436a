// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/analyzer/methods"
	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/model"
)

// Model is the name of the method that is no paper's: worlds in which something is broken, compared with what every rank shows.
const Model = "model"

// MethodNames are the methods that Method and ByModel print, sorted.
func MethodNames() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(methods.Titles)), Model)))
}

// Method prints what one paper's method alone says of the evidence, as text or JSON, and gives the class that it says: unknown where the
// method names nobody, or finds nothing that it could look at.
func Method(w io.Writer, r *diagnosis.Result, name string, asJSON bool) (rca.Class, error) {
	said := rca.Unknown
	votes := []record.Vote{}
	for i, v := range methods.Of(r.Votes(), name) {
		if i == 0 && len(v.Ranks) > 0 {
			said = v.Class
		}
		votes = append(votes, v)
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return said, enc.Encode(votes)
	}
	var s strings.Builder
	if len(votes) == 0 {
		fmt.Fprintf(&s, "%s finds nothing in this evidence that it could look at.\n", methods.Titles[name])
	}
	for _, v := range votes {
		if len(v.Ranks) == 0 {
			fmt.Fprintf(&s, "%s names nobody", methods.Titles[name])
		} else {
			fmt.Fprintf(&s, "%s names %s: %s", methods.Titles[name], rankList(v.Ranks), v.Class)
		}
		fmt.Fprintf(&s, "%s.\n", prefixed(" — ", Plain(v.Note)))
	}
	fmt.Fprintf(&s, "This is the paper's method alone. %s\n", verdictBeside(r))
	_, err := io.WriteString(w, s.String())
	return said, err
}

// verdictBeside says what the verdict on the same evidence is.
func verdictBeside(r *diagnosis.Result) string {
	verdict := "nobody"
	if ranks := diagnosis.Accused(r.Verdict); len(ranks) > 0 {
		verdict = rankList(ranks)
	}
	return fmt.Sprintf("Culprit's verdict on the same evidence is %s and names %s.", r.Verdict.Class, verdict)
}

// ByModel prints what the model says of the evidence, as text or JSON, and gives its class. The text with reasons has the worlds that were
// weighed, the terms of their score, and what the best one leaves unexplained.
func ByModel(w io.Writer, r *diagnosis.Result, asJSON, explain bool) (rca.Class, error) {
	answer := model.Explain(r.Evidence, r.Options)
	v := answer.Verdict()
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return v.Class, enc.Encode(&v)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "The model says %s. %s\n", v.Class, v.Summary)
	if explain {
		s.WriteString(answer.Tell())
	}
	fmt.Fprintf(&s, "The model decides nothing yet. %s\n", verdictBeside(r))
	_, err := w.Write(plain([]byte(s.String()), false))
	return v.Class, err
}
