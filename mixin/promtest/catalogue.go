// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Metric is what is known of one metric name.
type Metric struct {
	// Type is counter, gauge or histogram.
	Type string
	// Labels maps each label to the values it may have; an empty set means that any will do.
	Labels map[string]map[string]bool
}

// Catalogue maps metric names to what is known of them.
type Catalogue map[string]Metric

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	baseLabels = regexp.MustCompile(`\(labels ([^)]*)\)`)
)

// ReadCatalogue reads the tables of docs/metrics.md. A table's rows hold name, type, labels and meaning; labels named in
// the text before it as "(labels `a`, `b`)" belong to each of its rows, until the next heading.
func ReadCatalogue(r io.Reader) (Catalogue, error) {
	out := Catalogue{}
	var base []string
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		line := scan.Text()
		switch {
		case strings.HasPrefix(line, "#"):
			base = nil
		case !strings.HasPrefix(line, "|"):
			if m := baseLabels.FindStringSubmatch(line); m != nil {
				base = nil
				for _, label := range quoted.FindAllStringSubmatch(m[1], -1) {
					base = append(base, label[1])
				}
			}
		case strings.HasPrefix(line, "| `"):
			if err := out.addRow(line, base); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("reading the metrics reference: %w", err)
	}
	return out, nil
}

func (c Catalogue) addRow(line string, base []string) error {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) < 4 {
		return fmt.Errorf("a row of %d cells: %q", len(cells), line)
	}
	kind, _, _ := strings.Cut(strings.TrimSpace(cells[1]), " ")
	metric := Metric{Type: kind, Labels: map[string]map[string]bool{}}
	for _, label := range base {
		metric.Labels[label] = nil
	}
	for part := range strings.SplitSeq(cells[2], ";") {
		labels := quoted.FindAllStringSubmatch(part, -1)
		for _, label := range labels {
			metric.Labels[label[1]] = nil
		}
		if _, values, found := strings.Cut(part, ":"); found && len(labels) == 1 {
			allowed := map[string]bool{}
			for value := range strings.SplitSeq(values, ",") {
				allowed[strings.TrimSpace(value)] = true
			}
			metric.Labels[labels[0][1]] = allowed
		}
	}
	for _, name := range quoted.FindAllStringSubmatch(cells[0], -1) {
		c[name[1]] = metric
	}
	return nil
}

// Find looks a name up as PromQL uses it: a histogram is found by the names of its series.
func (c Catalogue) Find(name string) (Metric, bool) {
	if m, ok := c[name]; ok {
		return m, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if m, ok := c[strings.TrimSuffix(name, suffix)]; ok && m.Type == "histogram" && strings.HasSuffix(name, suffix) {
			return m, true
		}
	}
	return Metric{}, false
}
