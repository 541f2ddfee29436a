// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/jobs"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Sizes of the graph around a fault, in units of its own.
const (
	trendWidth  = 360
	trendHeight = 150
	trendLeft   = 44 // Room for the scale.
	trendTop    = 18 // Room for what the marks are called.
	trendBottom = 20 // Room for the times.
	trendPoints = 120
)

// Time before a fault and after it that the graph shows, and from which distance of samples on the line is broken.
const (
	trendBefore = 5 * time.Minute
	trendAfter  = 10 * time.Minute
	trendGap    = 30 * time.Second
)

// Around gives what the graph of an incident shows of its job, and from when to when; an empty unit: there is nothing to show.
func Around(inc *incident.Incident, now time.Time) (unit jobs.Unit, from, to time.Time) {
	v := inc.Verdict
	if v == nil || inc.JobID == "" {
		return "", from, to
	}
	unit = jobs.PerSecond
	switch v.Class {
	case rca.SlowCompute, rca.SlowComm, rca.SlowMixed, rca.Imbalance, rca.GlobalSlow, rca.Healthy:
		unit = jobs.Iteration
	case rca.NotEntered, rca.Inconsistent, rca.Fault, rca.Benign, rca.Unknown:
	}
	since, _ := onset(inc)
	to = since.Add(trendAfter)
	if to.After(now) {
		to = now
	}
	return unit, since.Add(-trendBefore), to
}

// Chart is the graph of a trend as a drawing.
type Chart struct {
	Title, Text   string // What it shows, and the same in words.
	Width, Height int
	Left, Right   int
	Top, Bottom   int
	Most          string
	From, To      string
	Lines         []string // Paths; a gap in the samples lies between two.
	Marks         []chartMark
}

// chartMark is a moment that the graph marks.
type chartMark struct {
	X, TextX int
	Anchor   string
	Name     string
	Fault    bool
}

func newChart(trend *jobs.Trend, inc *incident.Incident) *Chart {
	if trend == nil || len(trend.Points) < 2 {
		return nil
	}
	first, last := trend.Points[0].At, trend.Points[len(trend.Points)-1].At
	most := 0.0
	for _, p := range trend.Points {
		most = max(most, p.Value)
	}
	if most <= 0 || !last.After(first) {
		return nil
	}
	c := &Chart{
		Width: trendWidth, Height: trendHeight, Left: trendLeft, Right: trendWidth - 4, Top: trendTop, Bottom: trendHeight - trendBottom,
		From: first.UTC().Format(time.TimeOnly), To: last.UTC().Format(time.TimeOnly),
	}
	value := decimal
	c.Title = "Operations a second of a rank"
	if trend.Unit == jobs.Iteration {
		value, c.Title = seconds, "Time of an iteration"
	}
	c.Most = value(most)
	x := func(at time.Time) float64 {
		return float64(c.Left) + float64(c.Right-c.Left)*at.Sub(first).Seconds()/last.Sub(first).Seconds()
	}
	y := func(v float64) float64 { return float64(c.Bottom) - float64(c.Bottom-c.Top)*max(0, v)/most }
	var line strings.Builder
	var before time.Time
	flush := func() {
		if line.Len() > 0 {
			c.Lines = append(c.Lines, line.String())
			line.Reset()
		}
	}
	for _, p := range thinned(trend.Points) {
		letter := "L"
		if before.IsZero() || p.At.Sub(before) > trendGap {
			flush()
			letter = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", letter, x(p.At), y(p.Value))
		before = p.At
	}
	flush()
	since, _ := onset(inc)
	mark := func(at time.Time, name string, fault bool) {
		if at.Before(first) || at.After(last) {
			return
		}
		m := chartMark{X: int(x(at)), Name: name, Fault: fault, Anchor: "start"}
		m.TextX = m.X + 4
		if fault && m.X > c.Left+60 || m.X > c.Right-60 {
			m.TextX, m.Anchor = m.X-4, "end"
		}
		c.Marks = append(c.Marks, m)
	}
	mark(since, "began", true)
	if inc.VerdictAt != nil {
		mark(*inc.VerdictAt, "found", false)
	}
	c.Text = fmt.Sprintf("%s from %s to %s UTC: %s before, %s at the end, at most %s", c.Title, c.From, c.To, value(mean(trend.Points, first, since)), value(trend.Points[len(trend.Points)-1].Value), c.Most)
	return c
}

// thinned takes means, so that a drawing has no more points than can be seen.
func thinned(points []jobs.Point) []jobs.Point {
	each := (len(points) + trendPoints - 1) / trendPoints
	var out []jobs.Point
	for i := 0; i < len(points); i += each {
		part := points[i:min(len(points), i+each)]
		sum := 0.0
		for _, p := range part {
			sum += p.Value
		}
		out = append(out, jobs.Point{At: part[len(part)/2].At, Value: sum / float64(len(part))})
	}
	return out
}

// mean gives the mean of the points within a time; 0 where there is none.
func mean(points []jobs.Point, from, to time.Time) float64 {
	sum, n := 0.0, 0
	for _, p := range points {
		if !p.At.Before(from) && p.At.Before(to) {
			sum, n = sum+p.Value, n+1
		}
	}
	return sum / float64(max(1, n))
}
