// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules has the rule files of this folder, for programs that evaluate them.
package rules

import (
	"embed"
	"fmt"
	"time"
)

// Triggers is culprit-triggers.yaml.
//
//go:embed culprit-triggers.yaml
var Triggers []byte

// Health is culprit-health.yaml.
//
//go:embed culprit-health.yaml
var Health []byte

//go:embed scrape-*/culprit-triggers.yaml
var scraped embed.FS

// usual is the longest scrape interval that the windows of the rules in this folder fit; rarer are those of the folders scrape-*.
const usual = 5 * time.Second

var rarer = []time.Duration{15 * time.Second, 30 * time.Second, 60 * time.Second}

// TriggersAt gives the triggers whose windows fit a scrape interval; an error beyond the longest that there are rules for.
func TriggersAt(scrape time.Duration) ([]byte, error) {
	if scrape <= usual {
		return Triggers, nil
	}
	for _, interval := range rarer {
		if scrape <= interval {
			return scraped.ReadFile(fmt.Sprintf("scrape-%ds/culprit-triggers.yaml", int(interval.Seconds())))
		}
	}
	return nil, fmt.Errorf("no rules fit a scrape interval of %s: the longest is %s", scrape, rarer[len(rarer)-1])
}
