// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Methods are the papers' methods by the name of their flag, with the name of the paper.
var Methods = map[string]string{"mycroft": "Mycroft", "ccl-d": "CCL-D", "pulse": "Pulse", "holmes": "Holmes"}

// Method prints what one paper's method alone says of the evidence, as text or JSON, and gives the class that it says: unknown where the
// method names nobody, or finds nothing that it could look at.
func Method(w io.Writer, r *diagnosis.Result, name string, asJSON bool) (rca.Class, error) {
	said := rca.Unknown
	votes := []rca.Vote{}
	for _, v := range r.Verdict.Methods {
		if v.Method != name && !strings.HasPrefix(v.Method, name+"-") {
			continue
		}
		if len(votes) == 0 && len(v.Ranks) > 0 {
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
		fmt.Fprintf(&s, "%s finds nothing in this evidence that it could look at.\n", Methods[name])
	}
	for _, v := range votes {
		if len(v.Ranks) == 0 {
			fmt.Fprintf(&s, "%s names nobody", Methods[name])
		} else {
			fmt.Fprintf(&s, "%s names %s: %s", Methods[name], rankList(v.Ranks), v.Class)
		}
		fmt.Fprintf(&s, "%s.\n", prefixed(" — ", Plain(v.Note)))
	}
	verdict := "nobody"
	if ranks := diagnosis.Accused(r.Verdict); len(ranks) > 0 {
		verdict = rankList(ranks)
	}
	fmt.Fprintf(&s, "This is the paper's method alone. Culprit's verdict on the same evidence is %s and names %s.\n", r.Verdict.Class, verdict)
	_, err := io.WriteString(w, s.String())
	return said, err
}
