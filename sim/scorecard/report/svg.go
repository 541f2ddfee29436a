// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// A plot is 460 x 260 with its axes inside these margins.
const (
	plotWidth, plotHeight           = 460.0, 260.0
	plotLeft, plotTop               = 52.0, 26.0
	plotRight, plotBottom           = 14.0, 36.0
	plotInnerWidth                  = plotWidth - plotLeft - plotRight
	plotInnerHeight                 = plotHeight - plotTop - plotBottom
	colourOne, colourTwo, colourBad = "#1f6f8b", "#99c24d", "#c8553d"
)

// canvas collects the elements of one plot. x and y go from 0 to 1 over the axes.
type canvas struct{ b strings.Builder }

func newCanvas(title string) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s"><text x="%g" y="15" class="t">%s</text>`,
		plotWidth, plotHeight, html.EscapeString(title), plotLeft, html.EscapeString(title))
	return c
}

func (c *canvas) x(v float64) float64 { return plotLeft + v*plotInnerWidth }
func (c *canvas) y(v float64) float64 { return plotTop + (1-v)*plotInnerHeight }

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, c.x(x1), c.y(y1), c.x(x2), c.y(y2), class)
}

func (c *canvas) text(x, y float64, anchor, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(s))
}

func (c *canvas) axes(xlabel string, xticks []string) {
	for i := range 5 {
		v := float64(i) / 4
		c.line(0, v, 1, v, "g")
		c.text(plotLeft-6, c.y(v)+4, "end", fmt.Sprintf("%.0f%%", 100*v))
	}
	for i, t := range xticks {
		c.text(c.x(float64(i)/float64(max(1, len(xticks)-1))), plotHeight-plotBottom+15, "middle", t)
	}
	c.text(c.x(0.5), plotHeight-5, "middle", xlabel)
}

func (c *canvas) done() string { return c.b.String() + "</svg>" }

// latencyPlot is the distribution of the time from the fault to the verdict.
func (r *Report) latencyPlot() string {
	c := newCanvas("Fault to verdict (virtual time)")
	const most = 60.0
	c.axes("seconds", []string{"0", "15", "30", "45", "60"})
	for _, g := range []struct{ group, colour string }{{"hang", colourOne}, {"slow", colourTwo}} {
		v := collect(filter(r.effective(), func(o *judge.Outcome) bool { return o.Group == g.group && o.Triggered }), func(o *judge.Outcome) float64 { return o.Latency })
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		var path strings.Builder
		fmt.Fprintf(&path, "M%.1f %.1f", c.x(0), c.y(0))
		for i, x := range v {
			x = min(1, max(0, x/most))
			fmt.Fprintf(&path, "H%.1fV%.1f", c.x(x), c.y(float64(i+1)/float64(len(v))))
		}
		fmt.Fprintf(&c.b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`, path.String(), g.colour)
		at := v[len(v)/2] / most
		c.text(c.x(min(0.9, at))+8, c.y(0.5), "start", g.group)
	}
	return c.done()
}

// reliabilityPlot draws how often verdicts of a confidence are right.
func (r *Report) reliabilityPlot() string {
	c := newCanvas("Reliability: right, of verdicts said with a confidence")
	c.axes("confidence", []string{"0", "0.25", "0.5", "0.75", "1"})
	c.line(0, 0, 1, 1, "d")
	for _, b := range r.Summary.Reliability {
		c.line(b.Confidence, b.Right.Low, b.Confidence, b.Right.High, "e")
		fmt.Fprintf(&c.b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, c.x(b.Confidence), c.y(b.Right.Value()), colourOne)
		c.text(c.x(b.Confidence)+6, c.y(b.Right.Value())-6, "start", fmt.Sprint(b.Right.Of))
	}
	return c.done()
}

// bars draws one bar a row, with its interval, and a second thin one.
func bars(title string, names []string, main, bad []Share) string {
	c := newCanvas(title)
	n := float64(max(1, len(names)))
	for i := range 5 {
		v := float64(i) / 4
		c.line(v, 0, v, 1, "g")
		c.text(c.x(v), plotHeight-plotBottom+15, "middle", fmt.Sprintf("%.0f%%", 100*v))
	}
	step := plotInnerHeight / n
	for i, name := range names {
		y := plotTop + step*float64(i)
		fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, plotLeft, y+step*0.1, main[i].Value()*plotInnerWidth, step*0.5, colourOne)
		if bad != nil {
			fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, plotLeft, y+step*0.62, bad[i].Value()*plotInnerWidth, step*0.25, colourBad)
		}
		c.text(plotLeft+6, y+step*0.45, "start", fmt.Sprintf("%s %s", name, main[i].Short()))
	}
	return c.done()
}

func (r *Report) methodPlot() string {
	var names []string
	var right, bad []Share
	for i := range r.Summary.Methods {
		m := &r.Summary.Methods[i]
		names, right, bad = append(names, m.Method), append(right, m.All), append(bad, m.Accusing)
	}
	return bars("First-named is right (blue), an innocent accused (red)", names, right, bad)
}

func (r *Report) scalePlot() string {
	list := filter(r.effective(), func(o *judge.Outcome) bool { return o.Guilty() })
	order, by := groupBy(list, func(o *judge.Outcome) string { return o.Workload })
	var right, bad []Share
	for _, k := range order {
		right = append(right, share(by[k], func(o *judge.Outcome) bool { return o.Top1 }))
		bad = append(bad, share(by[k], func(o *judge.Outcome) bool { return o.False }))
	}
	return bars("Top-1 by workload (blue), an innocent accused (red)", order, right, bad)
}
