// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

//go:embed floors.json
var committedFloors []byte

// Floors are the figures below which the scorecard fails, and the ceilings above which it does, by the name of the
// figure; and the floors of the design that must be met, by their id.
type Floors struct {
	AtLeast map[string]float64 `json:"at_least"`
	AtMost  map[string]float64 `json:"at_most"`
	Met     []string           `json:"met"`
}

// CommittedFloors are those of floors.json for a mode: "quick" or "full".
func CommittedFloors(mode string) (*Floors, error) { return readFloors(committedFloors, mode) }

func readFloors(data []byte, mode string) (*Floors, error) {
	all := map[string]*Floors{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("reading the floors: %w", err)
	}
	f := all[mode]
	if f == nil {
		return nil, fmt.Errorf("reading the floors: none for %q", mode)
	}
	return f, nil
}

// measures are the figures that floors can be set on.
func measures(s *Summary) map[string]float64 {
	out := map[string]float64{
		"hang_triggered": s.Hang.Triggered.Value(), "hang_class": s.Hang.Class.Value(), "hang_right": s.Hang.Right.Value(),
		"hang_top1": s.Hang.Top1.Value(), "hang_host": s.Hang.Host.Value(), "hang_latency_p90_seconds": s.Hang.Latency90,
		"hang_false": s.Hang.False.Value(), "slow_triggered": s.Slow.Triggered.Value(), "slow_class": s.Slow.Class.Value(),
		"slow_right": s.Slow.Right.Value(), "slow_top1": s.Slow.Top1.Value(), "slow_host": s.Slow.Host.Value(),
		"slow_group": s.Slow.Group.Value(), "slow_false": s.Slow.False.Value(), "slow_latency_p90_seconds": s.Slow.Latency90,
		"nobody_not_accused": s.NobodySpared.Value(), "nobody_class": s.Nobody.Class.Value(),
		"healthy_not_accused": s.Healthy.Value(), "benign_not_accused": s.Benign.Value(), "quiet_not_paged": s.QuietPaged.Value(),
		"harmed_false": harmedAll(s).Innocent.Value(), "harmed_right": harmedAll(s).Right.Value(), "harmed_calibration_error": s.HarmedCalibration,
		"precision": s.Precision.Value(), "recall": s.Recall.Value(), "f1": s.F1, "calibration_error": s.Calibration,
		"young_hang_right": s.Young.Value(), "young_innocent": s.YoungInnocent.Value(),
	}
	for i := range s.Levels {
		levelMeasures(&s.Levels[i], out)
	}
	return out
}

// Check lists the figures under their floors or above their ceilings, and the design's floors that are no longer met.
// A floor on a figure that does not exist is listed as well.
func (f *Floors) Check(s *Summary) []string {
	var out []string
	got := measures(s)
	for _, name := range slices.Sorted(maps.Keys(f.AtLeast)) {
		if v, ok := got[name]; !ok {
			out = append(out, name+": there is no such figure")
		} else if want := f.AtLeast[name]; v < want {
			out = append(out, fmt.Sprintf("%s: %.3f, at least %.3f", name, v, want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.AtMost)) {
		if v, ok := got[name]; !ok {
			out = append(out, name+": there is no such figure")
		} else if want := f.AtMost[name]; v > want {
			out = append(out, fmt.Sprintf("%s: %.3f, at most %.3f", name, v, want))
		}
	}
	for _, id := range f.Met {
		i := slices.IndexFunc(s.Design, func(a Asked) bool { return a.ID == id })
		switch {
		case i < 0:
			out = append(out, "design "+id+": there is no such floor")
		case s.Design[i].State != stateMet:
			out = append(out, fmt.Sprintf("design %s: %s, %s: %s %v", id, s.Design[i].State, s.Design[i].Text, s.Design[i].Measured, s.Design[i].Failing))
		}
	}
	return out
}
