// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package scorecard

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed floors.json
var committedFloors []byte

// Floors are the figures below which the scorecard fails, and the ceilings above which it does.
type Floors struct {
	HangTriggered float64 `json:"hang_triggered"`
	HangRight     float64 `json:"hang_right"`
	HangTop1      float64 `json:"hang_top1"`
	SlowTop1      float64 `json:"slow_top1"`
	SlowGroup     float64 `json:"slow_group"`
	NobodySpared  float64 `json:"nobody_not_accused"`
	Healthy       float64 `json:"healthy_not_accused"`
	Benign        float64 `json:"benign_not_accused"`
	Precision     float64 `json:"precision"`
	Recall        float64 `json:"recall"`

	HangLatency90    float64 `json:"hang_latency_p90_seconds_at_most"`
	CalibrationError float64 `json:"calibration_error_at_most"`
}

// CommittedFloors are those of floors.json for a mode: "quick" or "full".
func CommittedFloors(mode string) (*Floors, error) {
	all := map[string]*Floors{}
	if err := json.Unmarshal(committedFloors, &all); err != nil {
		return nil, fmt.Errorf("reading floors.json: %w", err)
	}
	f := all[mode]
	if f == nil {
		return nil, fmt.Errorf("floors.json has no floors for %q", mode)
	}
	return f, nil
}

// Check lists the figures under their floors.
func (f *Floors) Check(s *Summary) []string {
	var out []string
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"hangs triggered", s.Hang.Triggered.Value(), f.HangTriggered},
		{"hangs, class and culprit right", s.Hang.Right.Value(), f.HangRight},
		{"hangs, top-1", s.Hang.Top1.Value(), f.HangTop1},
		{"slow, top-1", s.Slow.Top1.Value(), f.SlowTop1},
		{"slow, culprit or its link or group", s.Slow.Group.Value(), f.SlowGroup},
		{"nobody to blame and nobody accused", s.NobodySpared.Value(), f.NobodySpared},
		{"healthy runs not accused", s.Healthy.Value(), f.Healthy},
		{"benign runs not accused", s.Benign.Value(), f.Benign},
		{"precision", s.Precision.Value(), f.Precision},
		{"recall", s.Recall.Value(), f.Recall},
	} {
		if c.got < c.want {
			out = append(out, fmt.Sprintf("%s: %.3f, the floor is %.3f", c.name, c.got, c.want))
		}
	}
	if s.Hang.Latency90 > f.HangLatency90 {
		out = append(out, fmt.Sprintf("hangs: 90%% are told after %.1f s, at most %.1f s", s.Hang.Latency90, f.HangLatency90))
	}
	if s.Calibration > f.CalibrationError {
		out = append(out, fmt.Sprintf("calibration error: %.3f, at most %.3f", s.Calibration, f.CalibrationError))
	}
	return out
}
