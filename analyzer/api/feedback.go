// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/culprit-project/culprit/access"
	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/page"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// FeedbackRequest says whether a verdict was right, and what it really was.
type FeedbackRequest struct {
	Right *bool     `json:"right"`
	Class rca.Class `json:"class,omitempty"`
	Cause rca.Cause `json:"cause,omitempty"`
	Who   string    `json:"who,omitempty"`
	Note  string    `json:"note,omitempty"`
}

// judge answers POST /api/v1/incidents/{id}/feedback. It takes the word of people that the service knows, and of nobody else:
// confidence is fitted to what they say.
func (a *API) judge(w http.ResponseWriter, r *http.Request) {
	user, mayAct := access.Client(r.Context())
	if user == "" || !mayAct {
		a.fail(w, http.StatusForbidden, errors.New("feedback needs a user that may act: see --web.config.file and --web.act-user"))
		return
	}
	var req FeedbackRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&req); err != nil {
		a.fail(w, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err))
		return
	}
	if req.Right == nil {
		a.fail(w, http.StatusBadRequest, errors.New("right is missing: true or false"))
		return
	}
	if !page.Explains(req.Class, req.Cause) {
		a.fail(w, http.StatusBadRequest, fmt.Errorf("class %q or cause %q is none that a verdict has", req.Class, req.Cause))
		return
	}
	f := incident.Feedback{By: user, Right: *req.Right, Class: req.Class, Cause: req.Cause, Who: req.Who, Note: req.Note}
	switch err := a.incidents.Judge(r.PathValue("id"), f); {
	case errors.Is(err, incident.ErrNoIncident):
		a.fail(w, http.StatusNotFound, err)
	case errors.Is(err, incident.ErrNoVerdict):
		a.fail(w, http.StatusConflict, err)
	case err != nil:
		a.fail(w, http.StatusBadRequest, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// feedback answers GET /api/v1/feedback, which culprit-sim calibrate reads.
func (a *API) feedback(w http.ResponseWriter, _ *http.Request) {
	a.write(w, http.StatusOK, incident.ListFeedback(a.incidents.List()))
}

// ActionList answers GET /api/v1/actions.
type ActionList struct {
	Version int            `json:"version"`
	Actions []action.Entry `json:"actions"`
}

// actions answers GET /api/v1/actions?incident=: the audit log's newest entries.
func (a *API) actions(w http.ResponseWriter, r *http.Request) {
	out := ActionList{Version: action.RequestVersion, Actions: []action.Entry{}}
	if a.opt.Actions != nil {
		out.Actions = a.opt.Actions(r.URL.Query().Get("incident"))
	}
	a.write(w, http.StatusOK, out)
}
