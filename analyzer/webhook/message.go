// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook receives Alertmanager's webhook notifications, version 4.
package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/common/model"
)

// Version is the only version of the body understood; Alertmanager has sent it since 0.7.
const Version = "4"

// Status of an alert or of a notification.
const (
	Firing   = "firing"
	Resolved = "resolved"
)

// Message is the body of a notification. Fields that newer Alertmanagers add are ignored.
type Message struct {
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   uint64            `json:"truncatedAlerts"` // Alerts of the group left out by max_alerts.
	Status            string            `json:"status"`
	Receiver          string            `json:"receiver"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	ExternalURL       string            `json:"externalURL"`
	Alerts            Alerts            `json:"alerts"`
}

// Alerts are those of a notification.
type Alerts []Alert

// UnmarshalJSON checks each alert before it makes the next: of a body of "{},{},…" an alert takes forty times its text.
func (l *Alerts) UnmarshalJSON(text []byte) error {
	*l = nil // Of a name that a body has twice the last one counts, as everywhere in JSON.
	dec := json.NewDecoder(bytes.NewReader(text))
	switch t, err := dec.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil
	case t != json.Delim('['):
		return fmt.Errorf("alerts begin with %v, want a list", t)
	}
	for i := 0; dec.More(); i++ {
		var a Alert
		if err := dec.Decode(&a); err != nil {
			return err
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("alert %d: %w", i, err)
		}
		*l = append(*l, a)
	}
	return nil
}

// Alert is one alert of a notification.
type Alert struct {
	Status       string            `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // The year 1 while firing.
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"` // Hash of the labels.
}

// Decode reads one notification and checks it. An error says what is wrong with the body.
func Decode(r io.Reader) (*Message, error) {
	dec := json.NewDecoder(r)
	m := new(Message)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("the body is not an Alertmanager notification: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("text after the end of the JSON document")
		}
		return nil, fmt.Errorf("the body is not an Alertmanager notification: %w", err)
	}
	if m.Version != Version {
		return nil, fmt.Errorf("notification version is %q, want %q (a receiver with its own payload cannot be read)", m.Version, Version)
	}
	return m, nil
}

func (a *Alert) check() error {
	if a.Status != Firing && a.Status != Resolved {
		return fmt.Errorf("status is %q, want %q or %q", a.Status, Firing, Resolved)
	}
	if len(a.Labels) == 0 {
		return errors.New("it has no labels")
	}
	if a.Fingerprint == "" {
		a.Fingerprint = Fingerprint(a.Labels)
	}
	return nil
}

// Fingerprint gives Alertmanager's hash of a label set.
func Fingerprint(labels map[string]string) string {
	set := make(model.LabelSet, len(labels))
	for k, v := range labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint().String()
}
