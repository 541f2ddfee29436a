// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package deploy_test holds what all scrape configurations that ship must have.
package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
)

// document is a configuration of Prometheus, or an object for an operator.
type document struct {
	Kind    string `yaml:"kind"`
	Scrapes []struct {
		Name       string `yaml:"job_name"`
		Timestamps *bool  `yaml:"honor_timestamps"`
		Labels     bool   `yaml:"honor_labels"`
	} `yaml:"scrape_configs"`
	Spec struct {
		Pods      []endpoint       `yaml:"podMetricsEndpoints"`
		Endpoints []endpoint       `yaml:"endpoints"`
		endpoint  `yaml:",inline"` // Of a ScrapeConfig.
	} `yaml:"spec"`
}

type endpoint struct {
	Timestamps *bool `yaml:"honorTimestamps"`
	Labels     bool  `yaml:"honorLabels"`
}

const scrapeConfig = "ScrapeConfig"

var monitors = []string{"PodMonitor", "ServiceMonitor", "VMPodScrape", "VMServiceScrape", scrapeConfig}

// documents gives what of a file is YAML with maps at the top; Helm's templates are none, and what they render is in testdata.
func documents(text string) []document {
	var out []document
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var d document
		if err := decoder.Decode(&d); err != nil { // The end, or no YAML.
			return out
		}
		out = append(out, d)
	}
}

// No target chooses when its series were true, nor which target it is: an explicit timestamp backdates a claim, and honor_labels lets a
// target take the place of another one.
func TestScrapesTrustNoTarget(t *testing.T) {
	found := map[string]int{}
	check := func(where, kind string, timestamps *bool, labels bool) {
		found[kind]++
		if timestamps == nil || *timestamps {
			t.Errorf("%s: a %s takes timestamps from its targets", where, kind)
		}
		if labels {
			t.Errorf("%s: a %s takes the labels of targets from its targets", where, kind)
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".yml" && ext != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, doc := range documents(string(text)) {
			for _, s := range doc.Scrapes {
				check(path+", job "+s.Name, "scrape_config", s.Timestamps, s.Labels)
			}
			if !slices.Contains(monitors, doc.Kind) {
				continue
			}
			endpoints := slices.Concat(doc.Spec.Pods, doc.Spec.Endpoints)
			if doc.Kind == scrapeConfig {
				endpoints = append(endpoints, doc.Spec.endpoint)
			}
			if len(endpoints) == 0 {
				t.Errorf("%s: a %s has no endpoints", path, doc.Kind)
			}
			for _, e := range endpoints {
				check(path, doc.Kind, e.Timestamps, e.Labels)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range append([]string{"scrape_config"}, monitors...) {
		if found[kind] == 0 {
			t.Errorf("no %s was looked at", kind)
		}
	}
}

// The same of what the documentation shows.
func TestScrapesInDocumentation(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documentation: %v", err)
	}
	block := regexp.MustCompile(`(?m)^.*job_name: culprit-exporter.*\n(.*\S.*\n)*`)
	looked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, config := range block.FindAllString(string(text), -1) {
			if looked++; !strings.Contains(config, "honor_timestamps: false") {
				t.Errorf("%s shows a scrape job without honor_timestamps: false:\n%s", file, config)
			}
		}
	}
	if looked == 0 {
		t.Error("no scrape job is documented")
	}
}
