// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// A rule that says no more than what it runs does nothing: it is on its dry run.
func TestActionDefaults(t *testing.T) {
	c, err := Parse([]byte("actions: {rules: [{name: drain, command: [/bin/true]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	r := &c.Actions.Rules[0]
	if !r.DryRun || r.MinConfidence != 0.9 || r.After != model.Duration(time.Minute) || r.Timeout != model.Duration(30*time.Second) || r.HostPattern() != nil {
		t.Errorf("%+v", r)
	}
	if c.Actions.MaxHosts != 2 || c.Actions.Window != model.Duration(24*time.Hour) {
		t.Errorf("%+v", c.Actions)
	}
}

// A pattern of hosts is meant for whole names.
func TestActionHosts(t *testing.T) {
	c, err := Parse([]byte("actions: {rules: [{name: drain, command: [/bin/true], hosts: 'gpu-1|gpu-2'}]}"))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"gpu-1": true, "gpu-2": true, "gpu-10": false, "login-gpu-1": false} {
		if got := c.Actions.Rules[0].HostPattern().MatchString(host); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
}

func TestActionsRefused(t *testing.T) {
	for rules, want := range map[string]string{
		"{name: drain}": "either a command or a webhook",
		"{name: drain, command: [a], webhook: {url: 'http://a'}}":  "either a command or a webhook",
		"{name: drain, command: ['']}":                             "names no program",
		"{name: drain, webhook: {url: a}}":                         "webhook.url",
		"{name: 'a b', command: [a]}":                              "is no name",
		"{command: [a]}":                                           "is no name",
		"{name: drain, command: [a], classes: [unknown]}":          `no action runs on "unknown"`,
		"{name: drain, command: [a], classes: [benign]}":           `no action runs on "benign"`,
		"{name: drain, command: [a], causes: [unknown]}":           `no action runs on "unknown"`,
		"{name: drain, command: [a], min_confidence: 0}":           "min_confidence",
		"{name: drain, command: [a], min_confidence: 95}":          "min_confidence",
		"{name: drain, command: [a], timeout: 0s}":                 "timeout",
		"{name: drain, command: [a], hosts: '('}":                  "hosts",
		"{name: drain, comand: [a]}":                               "comand",
		"{name: drain, command: [a]}, {name: drain, command: [a]}": "is taken",
	} {
		if _, err := Parse(fmt.Appendf(nil, "actions: {rules: [%s]}", rules)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", rules, err, want)
		}
	}
	for text, want := range map[string]string{"max_hosts: -1": "max_hosts", "window: 0s": "window", "min_interval: 0s": "min_interval"} {
		if _, err := Parse(fmt.Appendf(nil, "actions: {%s}", text)); err == nil || !strings.Contains(err.Error(), "actions."+want) {
			t.Errorf("%s: error is %v", text, err)
		}
	}
}

// The rules in the documentation are some that the program reads.
func TestActionExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/analyzer.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "```yaml\nactions:")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/analyzer.md has no example")
	}
	c, err := Parse([]byte("actions:" + example))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Actions.Rules) != 2 || !c.Actions.Rules[0].DryRun || c.Actions.Rules[1].Webhook.HTTPConfig.Authorization == nil {
		t.Errorf("%+v", c.Actions)
	}
}
