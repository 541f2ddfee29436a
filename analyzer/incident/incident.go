// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package incident keeps incidents: what triggered, what was found, from the first trigger until all have ended. One
// job has at most one open incident, because trouble spreads through all communicators of a job, and because the engine
// looks at a job as a whole and may name several culprits.
package incident

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Version of the JSON form. New fields do not raise it.
const Version = 1

// State of an incident.
type State string

// States of an incident.
const (
	Open     State = "open"
	Resolved State = "resolved"
)

// Incident is trouble in one job. docs/verdict.md describes its JSON form.
type Incident struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	JobID   string `json:"job_id"`
	// JobLabels tell the job from others of its id, such as those of other clusters. They and the id are its identity.
	JobLabels  map[string]string `json:"job_labels,omitempty"`
	State      State             `json:"state"`
	OpenedAt   time.Time         `json:"opened_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
	ResolvedAt *time.Time        `json:"resolved_at,omitempty"`
	// ToldUntil is when it ended before it was opened again, if somebody had been paged of a standstill.
	ToldUntil *time.Time `json:"told_until,omitempty"`
	// Since is when the job came to stand still, by how long ranks had waited at the analysis behind the standing verdict; absent for a job
	// that is slow.
	Since *time.Time `json:"since,omitempty"`
	// Workload is where the job runs and for whom, as its processes showed at the first analysis that saw any.
	Workload *Workload `json:"workload,omitempty"`
	// Comms are communicators of the run that the standing verdict pages for, those with the most members: their ids are drawn anew in each run.
	Comms []string `json:"comms,omitempty"`
	// Benign incidents have a verdict that says nothing is broken; they page nobody.
	Benign bool `json:"benign"`
	// Labels are the job's, copied onto its alerts. They stay as they were at the first analysis: alerts go by their labels.
	Labels   map[string]string `json:"labels,omitempty"`
	Triggers []Trigger         `json:"triggers"`
	// Verdict is the standing verdict: the one that pages. It is replaced only by a better one.
	Verdict *rca.Verdict `json:"verdict"`
	// VerdictAt is when its accusation was first made.
	VerdictAt *time.Time `json:"verdict_at,omitempty"`
	// Latest is the newest analysis's verdict where it differs from the standing one.
	Latest   *rca.Verdict `json:"latest,omitempty"`
	Analyses []Analysis   `json:"analyses"` // The newest few, oldest first.
	Count    int          `json:"analysis_count"`
	Ranks    []RankView   `json:"ranks,omitempty"` // As of the newest analysis.
	Stacks   []StackGroup `json:"stacks,omitempty"`
	// Layout, Flow and Rounds are as of the newest analysis that showed them, each nil or empty where none did.
	Layout   *layout.Layout `json:"layout,omitempty"`
	Flow     *FlowView      `json:"flow,omitempty"`
	Rounds   []Round        `json:"rounds,omitempty"`   // Oldest first.
	Feedback []Feedback     `json:"feedback,omitempty"` // What people said of the verdict, oldest first.
}

// Workload is what started a job, and for whom.
type Workload struct {
	Scheduler string `json:"scheduler,omitempty"` // Slurm or Kubernetes; empty unknown.
	SlurmJob  string `json:"slurm_job,omitempty"`
	Namespace string `json:"namespace,omitempty"` // Of Kubernetes.
	User      string `json:"user,omitempty"`      // Number of the user that the kernel shows.
}

// Schedulers of jobs.
const (
	Slurm      = "slurm"
	Kubernetes = "kubernetes"
)

// Trigger is a reason to look: an alert of the rules, or a request through the API.
type Trigger struct {
	// Key tells triggers apart: an alert's fingerprint, or "api" and a number.
	Key         string            `json:"key"`
	Name        string            `json:"name"`
	JobID       string            `json:"job_id"`
	JobLabels   map[string]string `json:"job_labels,omitempty"` // See Incident.
	Rank        int               `json:"rank"`                 // -1: none meant.
	Comm        string            `json:"comm,omitempty"`
	Instance    string            `json:"instance,omitempty"`
	Kind        Kind              `json:"kind,omitempty"` // Empty: a request through the API, which may be about either.
	Severity    string            `json:"severity,omitempty"`
	Summary     string            `json:"summary,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Passive     bool              `json:"passive,omitempty"` // Asked for through the API (M13).
	StartedAt   time.Time         `json:"started_at"`
	ReceivedAt  time.Time         `json:"received_at"`
	LastHeardAt time.Time         `json:"last_heard_at"`
	EndedAt     *time.Time        `json:"ended_at,omitempty"`
	// TrueAt is when a rule last found the alert true, where that is known and not now.
	TrueAt time.Time `json:"-"`
}

// Kind is what a trigger tells of.
type Kind string

// Kinds of triggers, as the rules label them.
const (
	Hang Kind = "hang"
	Slow Kind = "slow"
	// Start is a job that has done its first iterations. Nothing is known to be wrong: a job that is slow from its first step has no
	// healthy past that a rule could compare it with.
	Start Kind = "start"
)

// Job gives the identity of the job that the incident is in.
func (i *Incident) Job() identity.Job { return identity.New(i.JobID, i.JobLabels) }

// Job gives the identity of the job that the trigger is about.
func (t *Trigger) Job() identity.Job { return identity.New(t.JobID, t.JobLabels) }

// Firing reports whether the trigger has not ended.
func (t *Trigger) Firing() bool { return t.EndedAt == nil }

// Analysis is the record of one run of the engine.
type Analysis struct {
	At         time.Time `json:"at"` // When it ended.
	Seconds    float64   `json:"seconds"`
	Class      rca.Class `json:"class,omitempty"`
	Cause      rca.Cause `json:"cause,omitempty"`
	Confidence float64   `json:"confidence,omitempty"`
	Page       bool      `json:"page,omitempty"`
	// Nodes of the job, those asked and those that answered; bytes they sent, unpacked.
	Nodes    int    `json:"nodes"`
	Asked    int    `json:"asked"`
	Answered int    `json:"answered"`
	Bytes    int64  `json:"bytes"`
	Error    string `json:"error,omitempty"`
}

// RankView is one rank as people see it in the grid.
type RankView struct {
	Rank  int    `json:"rank"`
	Host  string `json:"host,omitempty"`
	GPU   string `json:"gpu,omitempty"`
	State string `json:"state"` // culprit, gone, stopped, disk_sleep, exited, stuck, moving, idle, outside, unseen.
	Text  string `json:"text,omitempty"`
}

// StackGroup is ranks that share a call stack (M11).
type StackGroup struct {
	Ranks  []int    `json:"ranks"`
	Frames []string `json:"frames"` // Innermost last.
}

// Request is what the manager asks an analysis for.
type Request struct {
	IncidentID string
	Job        identity.Job
	Triggers   []Trigger // Firing ones.
	Attempt    int       // From 1.
	// PresentOnly: the past was looked at lately and costs much; what is asked is whether the job stands still now.
	PresentOnly bool
	// CalmUntil is until when the incident has been known to be benign; zero: not. What happened before it is explained.
	CalmUntil time.Time
}

// Outcome is what an analysis gives back.
type Outcome struct {
	Verdict  rca.Verdict
	Ranks    []RankView
	Stacks   []StackGroup
	Layout   *layout.Layout
	Flow     *FlowView
	Rounds   []Round
	Labels   map[string]string // Of the job, for its alerts.
	Workload *Workload         // Nil: no process was known.
	Complete bool              // Nothing was missing.
	Ended    bool              // No process lives of those that were seen: what they show is what they left behind.
	Began    time.Time         // When the youngest of those processes began; zero: not known.
	FirstEnd time.Time         // When the first of them ended; zero: of none it is known.
	Comms    []string          // Communicators of the run, those with the most members first.
	Costly   bool              // Much was fetched: not to be repeated soon.
	Nodes    int
	Asked    int
	Answered int
	Bytes    int64
	Rests    *kept.Record // What the verdict rests on; nil: not to be kept.
}

// routine reports whether the incident was a look at a job after its start that found nothing to tell anybody.
func (i *Incident) routine() bool {
	other := func(t Trigger) bool { return t.Kind != Start }
	return i.Verdict != nil && !i.Verdict.Page && !slices.ContainsFunc(i.Triggers, other)
}

// toldOfStandstill reports whether the standing verdict pages of a job that makes no progress, whether it names somebody or not.
func (i *Incident) toldOfStandstill() bool {
	v := i.Verdict
	return v != nil && v.Page && (v.Class.StandsStill() || v.Class == rca.Unknown)
}

// ID gives the id of the incident that a trigger opens. It rests on what all peers of an analyzer pair are told, so
// that both post the same alerts and Alertmanager counts them once.
func ID(job identity.Job, startedAt time.Time) string {
	name := job.ID
	if job.Labels() != nil {
		name = job.Selector()
	}
	sum := sha256.Sum256([]byte(name + "\x00" + strconv.FormatInt(startedAt.UnixMilli(), 10)))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}

func (i *Incident) trigger(key string) *Trigger {
	for n := range i.Triggers {
		if i.Triggers[n].Key == key {
			return &i.Triggers[n]
		}
	}
	return nil
}

func (i *Incident) firing() []Trigger {
	var out []Trigger
	for _, t := range i.Triggers {
		if t.Firing() {
			out = append(out, t)
		}
	}
	return out
}

// lastEnd gives when the last trigger ended; false while one fires.
func (i *Incident) lastEnd() (time.Time, bool) {
	var last time.Time
	for n := range i.Triggers {
		t := &i.Triggers[n]
		if t.Firing() {
			return time.Time{}, false
		}
		if t.EndedAt.After(last) {
			last = *t.EndedAt
		}
	}
	return last, true
}

// clone copies what later changes may touch; verdicts are never changed once set.
func (i *Incident) clone() Incident {
	c := *i
	c.Triggers = append([]Trigger(nil), i.Triggers...)
	c.Analyses = append([]Analysis(nil), i.Analyses...)
	return c
}
