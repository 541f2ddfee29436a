// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// FeedbackVersion is the version of FeedbackList's JSON form. New fields do not raise it.
const FeedbackVersion = 1

// Feedback is what a person says of a verdict, with the verdict that they saw.
type Feedback struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"` // As the service authenticated them.
	Right bool      `json:"right"`
	// What it really was, as far as the person knows; empty where the verdict was right.
	Class rca.Class `json:"class,omitempty"`
	Cause rca.Cause `json:"cause,omitempty"`
	Who   string    `json:"who,omitempty"` // Rank, host or component.
	Note  string    `json:"note,omitempty"`
	Said  Said      `json:"said"`
}

// Said is the part of a verdict that a person judges.
type Said struct {
	Class      rca.Class     `json:"class"`
	Cause      rca.Cause     `json:"cause"`
	Culprits   []rca.Culprit `json:"culprits"`
	Level      rca.Level     `json:"level,omitempty"` // Of the evidence.
	Weight     float64       `json:"weight"`          // Of the evidence, before calibration.
	Confidence float64       `json:"confidence"`
}

// FeedbackList is what GET /api/v1/feedback answers and culprit-sim calibrate reads.
type FeedbackList struct {
	Version  int              `json:"version"`
	Feedback []ListedFeedback `json:"feedback"`
}

// ListedFeedback is feedback with the incident that it is about.
type ListedFeedback struct {
	Incident  string            `json:"incident"`
	JobID     string            `json:"job_id"`
	JobLabels map[string]string `json:"job_labels,omitempty"`
	Feedback
}

// Bounds of feedback: entries of an incident, the newest of which are kept, and bytes of each text.
const (
	keptFeedback = 20
	maxNote      = 4 << 10
)

// Errors of feedback.
var (
	ErrNoIncident = errors.New("no such incident")
	ErrNoVerdict  = errors.New("the incident has no verdict yet")
)

// Judge keeps what a person says of the standing verdict of an incident.
func (m *Manager) Judge(id string, f Feedback) error {
	if len(f.By) > maxName || len(f.Who) > maxName || len(f.Note) > maxNote {
		return fmt.Errorf("the text is too long: at most %d bytes of who, and %d of note", maxName, maxNote)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[id]
	if e == nil {
		return ErrNoIncident
	}
	if e.Verdict == nil {
		return ErrNoVerdict
	}
	now := m.clock.Now()
	v := e.Verdict
	f.At, f.Note = now, strings.TrimSpace(f.Note)
	f.Said = Said{Class: v.Class, Cause: v.Cause, Culprits: v.Culprits, Level: v.Level, Weight: v.Weight, Confidence: v.Confidence}
	e.Feedback = append(slices.Clone(e.Feedback), f) // Copies that were given away share the former list.
	if n := len(e.Feedback) - keptFeedback; n > 0 {
		e.Feedback = e.Feedback[n:]
	}
	m.logger.Info("verdict judged", "incident", id, "job_id", e.Job(), "by", f.By, "right", f.Right)
	m.touch(e, now)
	return nil
}

// ListFeedback gives the newest feedback on each incident: who judges twice has changed their mind.
func ListFeedback(all []Incident) FeedbackList {
	out := FeedbackList{Version: FeedbackVersion, Feedback: []ListedFeedback{}}
	for i := range all {
		if n := len(all[i].Feedback); n > 0 {
			out.Feedback = append(out.Feedback, ListedFeedback{Incident: all[i].ID, JobID: all[i].JobID, JobLabels: all[i].JobLabels, Feedback: all[i].Feedback[n-1]})
		}
	}
	return out
}
