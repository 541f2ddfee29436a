// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"

	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

// ModeBlind is the mode of a report on runs drawn from a seed.
const ModeBlind = "blind"

// Fates writes how many verdicts were right, wider, unknown, missed, or accuse an innocent, with intervals: of each group of
// runs, of each level of evidence, and of all.
func (r *Report) Fates(w io.Writer) error {
	effective := filter(r.Outcomes, func(o *judge.Outcome) bool { return o.Effect })
	line := func(name string, list []judge.Outcome) error {
		if len(list) == 0 {
			return nil
		}
		of := func(fate string) Share { return share(list, func(o *judge.Outcome) bool { return o.Fate() == fate }) }
		_, err := fmt.Fprintf(w, "  %-10s %3d runs: right %s, wider %s, unknown %s, missed %s, an innocent %s\n", name, len(list),
			of(judge.FateRight), of(judge.FateWider), of(judge.FateUnknown), of(judge.FateMissed), of(judge.FateInnocent))
		return err
	}
	for _, g := range []string{matrix.GroupHang, matrix.GroupSlow, matrix.GroupHealthy, matrix.GroupBenign} {
		if err := line(g, filter(effective, func(o *judge.Outcome) bool { return o.Group == g })); err != nil {
			return err
		}
	}
	for _, l := range cluster.Levels {
		if err := line(string(l), filter(effective, func(o *judge.Outcome) bool { return o.Level == string(l) })); err != nil {
			return err
		}
	}
	return line("all", effective)
}
