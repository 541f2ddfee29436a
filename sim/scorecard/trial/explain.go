// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/scorecard/matrix"
)

const explainedOps = 12 // In flight, per communicator.

// Explain runs one case and writes what was wrong, what the service heard and said and when, its verdict, and what the evidence shows of some ranks.
func Explain(ctx context.Context, c *matrix.Case, w io.Writer, ranks []int) error {
	var m meter
	m.alone.RLock()
	t, err := run(ctx, c, &m)
	m.alone.RUnlock()
	if err != nil {
		return err
	}
	ev := t.s.last.ev
	fmt.Fprintln(w, t.out.Line())
	for _, f := range c.Config.Faults {
		fmt.Fprintf(w, "fault: %+v\n", f)
	}
	for _, e := range t.s.course {
		fmt.Fprintf(w, "%8.1f s: %s\n", e.at.Seconds(), e.text)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(t.s.verdict()); err != nil {
		return fmt.Errorf("writing the verdict: %w", err)
	}
	for i := range t.harmed {
		fmt.Fprintln(w, t.out.HarmedLine(&t.out.Harmed[i]))
		if err := enc.Encode(&t.harmed[i].verdict); err != nil {
			return fmt.Errorf("writing the verdict under %s: %w", t.harmed[i].harm, err)
		}
	}
	if ev == nil {
		return nil
	}
	for _, f := range ev.Facts {
		fmt.Fprintf(w, "fact: %s %s rank %d %s %g of %g\n", f.Host, f.Device, f.Rank, f.Kind, f.Value, f.Expected)
	}
	for i := range ev.Ranks {
		if r := &ev.Ranks[i]; slices.Contains(ranks, r.ID) {
			explainRank(w, r)
		}
	}
	return nil
}

func explainRank(w io.Writer, r *rca.Rank) {
	fmt.Fprintf(w, "rank %d on %s: %s, %.2f cores, writes %.0f B/s\n", r.ID, r.Host, r.State, r.CPUCores, r.WriteBytesPerSec)
	for i := range r.Memberships {
		m := &r.Memberships[i]
		fmt.Fprintf(w, "  %s as %d: called %d started %d completed %d\n", m.Comm, m.CommRank, m.Called, m.Started, m.Completed)
		for k := range m.InFlight[:min(explainedOps, len(m.InFlight))] {
			o := &m.InFlight[k]
			fmt.Fprintf(w, "    #%d (%d) %s peer %d %d B state %d age %v stuck %v\n", o.Number, o.Seq, o.Func, o.Peer, o.Bytes, o.State, o.Age, o.Stuck)
			for _, f := range o.Flows {
				dir := "recv"
				if f.Send {
					dir = "send"
				}
				fmt.Fprintf(w, "      channel %d %s %d: posted %d ready %d transmitted %d done %d of %d, stuck %v, %d polls\n",
					f.Channel, dir, f.Peer, f.Posted, f.Ready, f.Transmitted, f.Done, f.Total, f.Stuck, f.PeerPolls)
			}
		}
	}
}
