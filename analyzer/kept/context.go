// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/page"
)

// Context is what a verdict rests on beside the engine's evidence.
type Context struct {
	// Disputed says, of accused ranks, why nobody knows which process they are.
	Disputed map[int]string `json:"disputed,omitempty"`
	// Places is where accused ranks ran that no exporter showed: Prometheus knows them from before.
	Places map[int]Place `json:"places,omitempty"`
	// Claims are what several claim of the job, its ranks and its hosts; a verdict lists them.
	Claims []string `json:"claims,omitempty"`
	// Conflict says why the evidence may not be the job's; empty: it is, or nothing tells of trouble.
	Conflict string `json:"conflict,omitempty"`
	// Patient says that the culprit may get on by itself, and Patience for how long it may stay away before it pages.
	Patient  bool          `json:"patient,omitempty"`
	Patience time.Duration `json:"patience,omitempty"`
	// Told is how long ago the first trigger began to fire: about how long the peers have waited, where the evidence does not tell.
	Told time.Duration `json:"told,omitempty"`
}

// Place is where a rank runs.
type Place struct {
	Host string `json:"host,omitempty"`
	GPU  string `json:"gpu,omitempty"`
	Pod  string `json:"pod,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// Apply makes of the engine's verdict the one that is told.
func (c *Context) Apply(v *rca.Verdict) {
	c.Name(v)
	if c.Patient {
		page.Decide(v, page.Stage{Patience: &page.Patience{For: c.Patience, Told: c.Told}})
	}
}

// Name takes ranks off the accused of which nobody knows which process it is, and says where the others run.
func (c *Context) Name(v *rca.Verdict) {
	c.withhold(v)
	c.doubt(v)
	if v.Culprits == nil {
		v.Culprits = []rca.Culprit{} // An empty list in JSON, not null.
	}
	for i := range v.Culprits {
		k := &v.Culprits[i]
		p, ok := c.Places[k.Rank]
		if !ok || k.Host != "" {
			continue
		}
		k.Host = p.Host
		k.GPU, k.Pod, k.PID = cmp.Or(k.GPU, p.GPU), cmp.Or(k.Pod, p.Pod), cmp.Or(k.PID, p.PID)
	}
}

// withhold: the engine may come to a disputed rank by the waiting of others alone; still its host and process would be those
// of whoever lies.
func (c *Context) withhold(v *rca.Verdict) {
	doubted := func(k rca.Culprit) bool { return k.Rank >= 0 && c.Disputed[k.Rank] != "" }
	i := slices.IndexFunc(v.Culprits, doubted)
	if i < 0 {
		return
	}
	rank := v.Culprits[i].Rank
	v.Culprits = slices.DeleteFunc(slices.Clone(v.Culprits), doubted)
	if len(v.Culprits) > 0 {
		return
	}
	v.Summary = fmt.Sprintf("The evidence leads to rank %d, but %s. Not enough evidence to name a process.", rank, c.Disputed[rank])
	v.Class, v.Cause, v.Confidence = rca.Unknown, rca.CauseUnknown, 0 // It may still page: those that wait are no liars.
}

// doubt lists conflicting claims, and takes back that the job is well: what shows it may be another's. Somebody is told of trouble that
// lasts, so that nobody hides a job by running another of its name.
func (c *Context) doubt(v *rca.Verdict) {
	for _, claim := range c.Claims {
		if !slices.Contains(v.Missing, claim) {
			v.Missing = append(slices.Clip(v.Missing), claim)
		}
	}
	if c.Conflict == "" || v.Page || len(v.Culprits) > 0 {
		return
	}
	switch v.Class {
	case rca.Unknown, rca.Healthy, rca.Benign:
		v.Class, v.Cause, v.Confidence = rca.Unknown, rca.CauseUnknown, 0
		v.Summary = fmt.Sprintf("Triggers report trouble, but not enough evidence to tell whose processes the job's are: %s.", c.Conflict)
		v.Action = "Look at the processes of each user that has a claim. Let all but one use another job name."
		v.Standstill = max(v.Standstill, c.Told.Seconds(), 1)
	}
}
