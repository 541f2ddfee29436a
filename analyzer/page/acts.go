// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// judged are the classes that a person can say it really was.
var judged = []rca.Class{
	rca.NotEntered, rca.Inconsistent, rca.Fault, rca.SlowCompute, rca.SlowComm, rca.SlowMixed, rca.Imbalance, rca.GlobalSlow, rca.Benign, rca.Healthy,
}

// act is a line of what rules did about an incident.
type act struct {
	At     time.Time
	Name   string
	Text   string
	Output string
}

// refusals says why an action did not run.
var refusals = map[string]string{
	"confidence": "the verdict is less sure than the rule wants",
	"may_go_on":  "the culprit may still go on by itself",
	"disputed":   "the newest analysis says something else",
	"host":       "the rule may not touch this host, or the name is no plain host name",
	"budget":     "too many hosts have been touched lately (actions.max_hosts)",
	"interval":   "another action has just run (actions.min_interval)",
}

func acts(entries []action.Entry) []act {
	var out []act
	for _, e := range entries {
		a := act{At: e.At, Name: e.Action, Output: e.Output}
		hosts := strings.Join(e.Hosts, ", ")
		switch e.Event {
		case action.WouldRun:
			a.Text = "Would run for " + hosts + ". The rule is on its dry run."
		case action.Started:
			a.Text = "Started for " + hosts + "."
		case action.Done:
			a.Text = "Done after " + seconds(e.Seconds) + "."
		case action.Failed:
			a.Text = "Failed after " + seconds(e.Seconds) + ": " + e.Reason + ". It is not tried again for this incident."
		case action.Refused:
			why := refusals[e.Reason]
			if why == "" {
				why = e.Reason
			}
			a.Text = "Did not run for " + hosts + ": " + why + "."
		}
		out = append(out, a)
	}
	return out
}
