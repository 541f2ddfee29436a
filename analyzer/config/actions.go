// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// actionName is what an action may be called: it is a label of metrics and part of the environment of a command.
var actionName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,62}$`)

// accusing are the classes of verdicts that blame a machine or a process. Actions run on no other: nobody is to blame there, or nobody
// knows who.
var accusing = []rca.Class{rca.NotEntered, rca.Inconsistent, rca.Fault, rca.SlowCompute, rca.SlowComm, rca.SlowMixed}

func (a *Actions) check(p *problems) {
	if a.MaxHosts < 0 {
		p.add("actions.max_hosts: must not be below 0")
	}
	for name, d := range map[string]model.Duration{"window": a.Window, "min_interval": a.Interval} {
		if d <= 0 {
			p.add("actions.%s: must be above 0", name)
		}
	}
	names := map[string]bool{}
	for i := range a.Rules {
		r := &a.Rules[i]
		at := fmt.Sprintf("actions.rules[%d]", i)
		if !actionName.MatchString(r.Name) {
			p.add("%s.name: %q is no name; want letters, digits, - and _", at, r.Name)
		} else if names[r.Name] {
			p.add("%s.name: %q is taken", at, r.Name)
		}
		names[r.Name] = true
		r.check(at, p)
	}
}

func (a *Action) check(at string, p *problems) {
	for _, c := range a.Classes {
		if !slices.Contains(accusing, c) {
			p.add("%s.classes: no action runs on %q; want some of %v", at, c, accusing)
		}
	}
	for _, c := range a.Causes {
		if c == rca.CauseUnknown || c == "" {
			p.add("%s.causes: no action runs on %q", at, c)
		}
	}
	if a.MinConfidence <= 0 || a.MinConfidence > 1 {
		p.add("%s.min_confidence: must be above 0 and at most 1", at)
	}
	if a.After < 0 {
		p.add("%s.after: must not be below 0", at)
	}
	if a.Timeout <= 0 {
		p.add("%s.timeout: must be above 0", at)
	}
	if a.Hosts != "" {
		var err error
		if a.hosts, err = regexp.Compile("^(?:" + a.Hosts + ")$"); err != nil {
			p.add("%s.hosts: %w", at, err)
		}
	}
	switch hook := a.Webhook.URL != ""; {
	case hook == (len(a.Command) > 0):
		p.add("%s: wants either a command or a webhook", at)
	case hook:
		if err := checkURL(a.Webhook.URL); err != nil {
			p.add("%s.webhook.url: %w", at, err)
		}
	case a.Command[0] == "":
		p.add("%s.command: names no program", at)
	}
}
