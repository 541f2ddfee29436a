// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Calibration maps the weight of a verdict's evidence to its confidence: the share of verdicts with that weight that were right
// on a declared mixture of runs.
type Calibration struct {
	Version int    `json:"version"`
	Command string `json:"command"` // Command that made it.
	Commit  string `json:"commit"`  // Commit of the measured engine.
	Mix     string `json:"mix"`     // Runs from which the shares were counted.
	// Prior is the number of verdicts for which the engine's own weight counts in each knot. Ceiling is the largest confidence:
	// the counts do not include what a simulator leaves out.
	Prior   float64 `json:"prior"`
	Ceiling float64 `json:"ceiling"`
	// Levels has the curves of each level of evidence. Families has those of all levels together, for levels that were not
	// measured.
	Levels   map[Level]map[Family]Curve `json:"levels"`
	Families map[Family]Curve           `json:"families"`
}

// CalibrationVersion is the version of the calibration's JSON form.
const CalibrationVersion = 2

// Family is a set of classes that are calibrated together.
type Family string

// Families. Unknown belongs to none: it names nobody.
const (
	FamilyHang   Family = "hang"   // H1 to H3.
	FamilySlow   Family = "slow"   // S1 to S3.
	FamilyNobody Family = "nobody" // Imbalance and global slowness.
	FamilyQuiet  Family = "quiet"  // Healthy and benign.
)

// Curve is a family's map: straight lines between rising knots.
type Curve []Knot

// Knot is one point of a curve, with its counts.
type Knot struct {
	Weight     float64 `json:"weight"`     // Mean weight of the verdicts.
	Confidence float64 `json:"confidence"` // Share that was right, smoothed and made to rise.
	Verdicts   int     `json:"verdicts"`
	Right      int     `json:"right"`
}

// FamilyOf gives a class's family, empty for unknown.
func FamilyOf(c Class) Family {
	switch c {
	case NotEntered, Inconsistent, Fault:
		return FamilyHang
	case SlowCompute, SlowComm, SlowMixed:
		return FamilySlow
	case Imbalance, GlobalSlow:
		return FamilyNobody
	case Healthy, Benign:
		return FamilyQuiet
	default:
		return ""
	}
}

// ReadCalibration reads and checks a calibration in its JSON form.
func ReadCalibration(r io.Reader) (*Calibration, error) {
	var c Calibration
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("reading the calibration: %w", err)
	}
	if c.Version != CalibrationVersion {
		return nil, fmt.Errorf("reading the calibration: version %d, want %d", c.Version, CalibrationVersion)
	}
	if c.Ceiling <= 0 || c.Ceiling >= 1 {
		return nil, fmt.Errorf("reading the calibration: a ceiling of %g, want one between 0 and 1", c.Ceiling)
	}
	if err := c.check("all levels", c.Families); err != nil {
		return nil, err
	}
	for l, families := range c.Levels {
		if err := c.check(string(l), families); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

func (c *Calibration) check(level string, families map[Family]Curve) error {
	for f, curve := range families {
		if !curve.rises(c.Ceiling) {
			return fmt.Errorf("reading the calibration: at %s, the knots of %s do not rise from 0 to the ceiling", level, f)
		}
	}
	return nil
}

func (c Curve) rises(ceiling float64) bool {
	last := Knot{}
	for _, k := range c {
		if k.Weight <= last.Weight || k.Weight > 1 || k.Confidence < last.Confidence || k.Confidence > ceiling {
			return false
		}
		last = k
	}
	return len(c) > 0
}

// Confidence gives what a weight of evidence is worth for a class at a level, 0 to 1. A class without a curve keeps its weight. A
// class that no verdict had when its level was measured is worth at most its weight.
func (c *Calibration) Confidence(level Level, class Class, weight float64) float64 {
	family := FamilyOf(class)
	if curve := c.Levels[level][family]; len(curve) > 0 {
		return curve.at(weight)
	}
	curve := c.Families[family]
	switch {
	case len(curve) == 0:
		return weight
	case len(c.Levels[level]) > 0:
		return min(weight, curve.at(weight))
	}
	return curve.at(weight)
}

// at gives the confidence of a weight; above the last knot it is that of the last knot.
func (c Curve) at(weight float64) float64 {
	at, _ := slices.BinarySearchFunc(c, weight, func(k Knot, w float64) int {
		if k.Weight < w {
			return -1
		}
		return 1
	})
	if at == len(c) {
		return c[at-1].Confidence
	}
	var from Knot
	if at > 0 {
		from = c[at-1]
	}
	to := c[at]
	return from.Confidence + (to.Confidence-from.Confidence)*(weight-from.Weight)/(to.Weight-from.Weight)
}

//go:embed calibration.json
var committedCalibration []byte

// committed is the calibration of all verdicts. A broken one, which a test rules out, calibrates nothing.
var committed = sync.OnceValue(func() *Calibration {
	c, err := ReadCalibration(bytes.NewReader(committedCalibration))
	if err != nil {
		return &Calibration{}
	}
	return c
})

// Calibrate is the last step of an analysis: it turns the weight of the evidence into the share of such verdicts that were right
// at its level.
func Calibrate(v *Verdict, level Level) {
	v.Level, v.Weight = level, v.Confidence
	v.Confidence = Round(committed().Confidence(level, v.Class, v.Weight))
}

// Carries reports whether an accusation pages: its evidence is heavy enough to name a culprit, and it is likely enough to be
// right.
func (o *Options) Carries(level Level, class Class, weight float64) bool {
	return weight >= o.NameConfidence && committed().Confidence(level, class, weight) >= o.PageConfidence
}
