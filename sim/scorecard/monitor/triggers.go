// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/google/go-jsonnet"

	"github.com/culprit-project/culprit/mixin"
	"github.com/culprit-project/culprit/rules"
)

// usual is the longest scrape interval that the windows of the committed rules fit; the mixin renders those for rarer ones.
const usual = 5 * time.Second

var rarer = []time.Duration{15 * time.Second, 30 * time.Second, 60 * time.Second}

// TriggersAt returns the triggers whose windows fit a scrape interval; an error beyond the longest that the mixin has rules for.
func TriggersAt(scrape time.Duration) ([]byte, error) {
	if scrape <= usual {
		return rules.Triggers, nil
	}
	for _, interval := range rarer {
		if scrape > interval {
			continue
		}
		files, err := rendered()
		if err != nil {
			return nil, fmt.Errorf("rendering the rules: %w", err)
		}
		name := fmt.Sprintf("scrape-%ds/culprit-triggers.yaml", int(interval.Seconds()))
		if files[name] == "" {
			return nil, fmt.Errorf("the mixin renders no %s", name)
		}
		return []byte(files[name]), nil
	}
	return nil, fmt.Errorf("no rules fit a scrape interval of %s: the longest is %s", scrape, rarer[len(rarer)-1])
}

// rendered is what the mixin renders, by file.
var rendered = sync.OnceValues(func() (map[string]string, error) {
	vm := jsonnet.MakeVM()
	vm.StringOutput = true
	vm.Importer(sources{})
	return vm.EvaluateFileMulti("lib/rules.jsonnet")
})

// sources imports the mixin's files, by their names. A VM wants the same contents each time a file is imported.
type sources map[string]jsonnet.Contents

// Import implements jsonnet.Importer.
func (s sources) Import(from, name string) (jsonnet.Contents, string, error) {
	at := path.Join(path.Dir(from), name)
	if c, ok := s[at]; ok {
		return c, at, nil
	}
	text, err := mixin.Source.ReadFile(at)
	if err != nil {
		return jsonnet.Contents{}, "", err
	}
	s[at] = jsonnet.MakeContentsRaw(text)
	return s[at], at, nil
}
