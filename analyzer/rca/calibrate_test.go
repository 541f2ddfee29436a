// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

var everyClass = []Class{NotEntered, Inconsistent, Fault, SlowCompute, SlowComm, SlowMixed, Imbalance, GlobalSlow, Benign, Healthy, Unknown}

func TestCalibrationConfidence(t *testing.T) {
	c := Calibration{Ceiling: 0.98, Families: map[Family]Curve{
		FamilyHang: {{Weight: 0.4, Confidence: 0.2}, {Weight: 0.8, Confidence: 0.9}},
	}}
	for _, x := range []struct {
		class        Class
		weight, want float64
	}{
		{Fault, 0, 0},
		{Fault, 0.2, 0.1}, // Towards nothing below the first knot.
		{Fault, 0.4, 0.2},
		{NotEntered, 0.6, 0.55},
		{Inconsistent, 0.8, 0.9},
		{Fault, 0.97, 0.9}, // Nothing as heavy was counted.
		{SlowComm, 0.6, 0.6},
		{Unknown, 0.3, 0.3},
	} {
		if got := c.Confidence(LevelKernels, x.class, x.weight); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s of weight %g: %g, want %g", x.class, x.weight, got, x.want)
		}
	}
}

func TestCalibrationByLevel(t *testing.T) {
	c := Calibration{
		Ceiling:  0.98,
		Families: map[Family]Curve{FamilyHang: {{Weight: 0.5, Confidence: 0.95}}, FamilySlow: {{Weight: 0.5, Confidence: 0.95}}},
		Levels:   map[Level]map[Family]Curve{LevelCalls: {FamilyHang: {{Weight: 0.5, Confidence: 0.7}}}},
	}
	for _, x := range []struct {
		level Level
		class Class
		want  float64
	}{
		{LevelCalls, Fault, 0.7},
		{LevelCalls, SlowComm, 0.5}, // Measured, and never said there.
		{LevelRecorder, Fault, 0.95},
		{LevelUnknown, SlowComm, 0.95},
		{LevelCalls, GlobalSlow, 0.5},
	} {
		if got := c.Confidence(x.level, x.class, 0.5); got != x.want {
			t.Errorf("%s at %q: %g, want %g", x.class, x.level, got, x.want)
		}
	}
}

func TestReadCalibration(t *testing.T) {
	const good = `{"version":2,"ceiling":0.98,"families":{"hang":[{"weight":0.5,"confidence":0.6},{"weight":0.9,"confidence":0.98}]}}`
	if _, err := ReadCalibration(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"syntax":        `{`,
		"field":         `{"version":2,"ceiling":0.9,"familys":{}}`,
		"version":       `{"version":1,"ceiling":0.9}`,
		"certainty":     `{"version":2,"ceiling":1}`,
		"no knots":      `{"version":2,"ceiling":0.9,"families":{"hang":[]}}`,
		"falls":         `{"version":2,"ceiling":0.9,"families":{"hang":[{"weight":0.5,"confidence":0.6},{"weight":0.9,"confidence":0.5}]}}`,
		"one place":     `{"version":2,"ceiling":0.9,"families":{"hang":[{"weight":0.5,"confidence":0.6},{"weight":0.5,"confidence":0.7}]}}`,
		"over ceiling":  `{"version":2,"ceiling":0.9,"families":{"hang":[{"weight":0.5,"confidence":0.95}]}}`,
		"weight over 1": `{"version":2,"ceiling":0.9,"families":{"hang":[{"weight":1.5,"confidence":0.6}]}}`,
	} {
		if _, err := ReadCalibration(strings.NewReader(text)); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

// The calibration that is built in can be read, says where it is from, never falls with the weight and never says certainty.
func TestCommittedCalibration(t *testing.T) {
	c, err := ReadCalibration(bytes.NewReader(committedCalibration))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Command, "culprit-sim calibrate") || c.Commit == "" || c.Mix == "" {
		t.Errorf("made by %q of %q on %q", c.Command, c.Commit, c.Mix)
	}
	for _, f := range []Family{FamilyHang, FamilySlow, FamilyNobody, FamilyQuiet} {
		n := 0
		for _, k := range c.Families[f] {
			n += k.Verdicts
		}
		if n < 40 {
			t.Errorf("%s stands on %d verdicts", f, n)
		}
	}
	for _, l := range []Level{LevelKernels, LevelSteps, LevelLaunches, LevelCalls} {
		if len(c.Levels[l][FamilyHang]) == 0 {
			t.Errorf("no standstill was measured at %s", l)
		}
	}
	for _, class := range everyClass {
		last := 0.0
		for i := range 101 {
			got := c.Confidence(LevelKernels, class, float64(i)/100)
			if got < last || got > 1 || FamilyOf(class) != "" && got > c.Ceiling {
				t.Fatalf("%s of weight %.2f: %g after %g", class, float64(i)/100, got, last)
			}
			last = got
		}
	}
}

// An accusation pages from page_confidence on, as it is said, and never below the weight that names somebody.
func TestPagesByConfidence(t *testing.T) {
	heavy := committed().Confidence(LevelKernels, Fault, 0.93)
	for _, x := range []struct {
		page, weight float64
		want         bool
	}{
		{0.5, 0.93, true},
		{heavy, 0.93, true},
		{heavy + 0.001, 0.93, false},
		{0.01, 0.49, false},
		{0.01, 0.5, true},
	} {
		opt := Options{PageConfidence: x.page}.WithDefaults()
		if got := opt.Carries(LevelKernels, Fault, x.weight); got != x.want {
			t.Errorf("page_confidence %g, weight %g: %v", x.page, x.weight, got)
		}
	}
}

func FuzzReadCalibration(f *testing.F) {
	f.Add(string(committedCalibration))
	f.Add(`{"version":2,"ceiling":0.9,"families":{"slow":[{"weight":1e-300,"confidence":0.5},{"weight":1,"confidence":0.9}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCalibration(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, class := range everyClass {
			for _, w := range []float64{0, 0.1, 0.5, 0.97, 1} {
				if got := c.Confidence(LevelKernels, class, w); !(got >= 0 && got <= 1) {
					t.Fatalf("%s of weight %g: %g", class, w, got)
				}
			}
		}
	})
}
