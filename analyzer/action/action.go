// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package action runs what an operator wants done on a verdict: a command or a webhook, such as one that drains a host.
//
// An action that hits an innocent host costs more than one that does not run. So a rule only logs what it would do until its dry run
// is switched off, it never runs on a verdict that names nobody or whose culprit may still go on, it runs once per incident, and all
// rules together may touch only so many hosts within a window. The record of what ran is written before it runs.
package action

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

// Rule says on which verdicts something is done, and what.
type Rule struct {
	Name          string
	Classes       []rca.Class // Empty: every class that accuses somebody.
	Causes        []rca.Cause // Empty: those of a bad machine.
	MinConfidence float64
	After         time.Duration  // For so long the verdict must have stood.
	Hosts         *regexp.Regexp // Hosts that may be touched; nil: all.
	DryRun        bool
	Timeout       time.Duration
	Do            Doer
}

// Doer does it. The output is for the audit log.
type Doer interface {
	Do(ctx context.Context, r *Request) (output string, err error)
}

// RequestVersion is the version of Request's JSON form. New fields do not raise it.
const RequestVersion = 1

// Subject is what an action is about.
type Subject struct {
	Action   string `json:"action"`
	Incident string `json:"incident"`
	JobID    string `json:"job_id"`
	// JobLabels tell the job from others of its id: with them, a host is one of that cluster.
	JobLabels  map[string]string `json:"job_labels,omitempty"`
	Class      rca.Class         `json:"class"`
	Cause      rca.Cause         `json:"cause"`
	Confidence float64           `json:"confidence"`
	Hosts      []string          `json:"hosts"` // Plain host names, each once.
}

// Request is what a command reads on its standard input and a webhook gets as its body.
type Request struct {
	Version int `json:"version"`
	Subject
	Culprits []rca.Culprit `json:"culprits"`
	Summary  string        `json:"summary"`
	URL      string        `json:"url,omitempty"` // Of the incident's page.
}

// Why a rule that matches a verdict does not run.
const (
	refusedConfidence = "confidence" // The verdict is less sure than the rule wants.
	refusedMayGetOn   = "may_go_on"  // The culprit may still go on by itself.
	refusedDiffers    = "disputed"   // The newest analysis says something else.
	refusedHost       = "host"       // The accused host has no plain name, or is none that the rule may touch.
	refusedBudget     = "budget"     // Too many hosts have been touched within the window.
	refusedInterval   = "interval"   // Another action has just run.
	refusedLog        = "audit_log"  // The audit log cannot be written.
)

var refusals = []string{refusedConfidence, refusedMayGetOn, refusedDiffers, refusedHost, refusedBudget, refusedInterval, refusedLog}

// BadMachine reports whether a cause is a reason to take a host out of service. Code and data move with the job.
func BadMachine(c rca.Cause) bool {
	switch c {
	case rca.CauseHostLost, rca.CauseGPU, rca.CauseNetworkSend, rca.CausePCIe, rca.CauseKernelNotRunning:
		return true
	}
	return false
}

// plainHost is a host's name that is safe in a shell and in a URL: what a process calls its host is its own choice.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// PlainHost reports whether a name can be given to a command.
func PlainHost(name string) bool { return plainHost.MatchString(name) }

// Accuses reports whether a class says that somebody is to blame: rules may name only these.
func Accuses(c rca.Class) bool {
	return c.StandsStill() || c == rca.SlowCompute || c == rca.SlowComm || c == rca.SlowMixed
}

// decide gives what a rule would do about an incident, or why it refuses. Both are empty where the rule is not meant, or not yet: the
// incident is looked at again when it is next analysed.
func (r *Rule) decide(inc *incident.Incident, now time.Time) (req *Request, refused string) {
	v := inc.Verdict
	if inc.State != incident.Open || v == nil || !v.Page || inc.VerdictAt == nil || now.Sub(*inc.VerdictAt) < r.After {
		return nil, ""
	}
	req = &Request{
		Version: RequestVersion, Summary: v.Summary,
		Subject: Subject{Action: r.Name, Incident: inc.ID, JobID: inc.JobID, JobLabels: inc.JobLabels, Class: v.Class, Cause: v.Cause, Confidence: v.Confidence},
	}
	allowed := true
	for _, c := range v.Culprits {
		if !r.meant(cmp.Or(c.Class, v.Class), cmp.Or(c.Cause, v.Cause)) {
			continue
		}
		if rca.KeepsHost(cmp.Or(c.Action, v.Action)) && len(r.Causes) == 0 {
			continue // A setting is wrong, such as a power limit: only a rule that names the cause is meant.
		}
		if c.PageIn > 0 {
			continue // It may still get on.
		}
		req.Culprits = append(req.Culprits, c)
		allowed = allowed && PlainHost(c.Host) && (r.Hosts == nil || r.Hosts.MatchString(c.Host))
		if !slices.Contains(req.Hosts, c.Host) {
			req.Hosts = append(req.Hosts, c.Host)
		}
	}
	switch {
	case len(req.Culprits) == 0:
		return nil, ""
	case page.MayPass(v) || v.PageIn > 0:
		return req, refusedMayGetOn
	case inc.Latest != nil:
		return req, refusedDiffers
	case v.Confidence < r.MinConfidence:
		return req, refusedConfidence
	case !allowed:
		return req, refusedHost
	}
	return req, ""
}

func (r *Rule) meant(class rca.Class, cause rca.Cause) bool {
	if !Accuses(class) || len(r.Classes) > 0 && !slices.Contains(r.Classes, class) {
		return false
	}
	if len(r.Causes) == 0 {
		return BadMachine(cause)
	}
	return slices.Contains(r.Causes, cause)
}
