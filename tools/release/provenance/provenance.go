// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package provenance says what artefacts were made of and how, as an in-toto statement with SLSA's predicate. The statement is not
// signed: that is for whoever publishes.
package provenance

import (
	"encoding/json"
	"time"
)

const repository = "https://github.com/culprit-project/culprit"

// Digest is a file and its SHA-256.
type Digest struct{ Name, SHA256 string }

// Build is what there is to say.
type Build struct {
	Version, Revision string
	Date              time.Time
	Compilers         map[string]string // Their releases.
	Materials         []Digest          // What was downloaded.
	Artefacts         []Digest
}

type (
	descriptor struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	predicate struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			InternalParameters   map[string]string `json:"internalParameters"`
			ResolvedDependencies []descriptor      `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
			Metadata map[string]string `json:"metadata"`
		} `json:"runDetails"`
	}
	statement struct {
		Type          string       `json:"_type"`
		Subject       []descriptor `json:"subject"`
		PredicateType string       `json:"predicateType"`
		Predicate     predicate    `json:"predicate"`
	}
)

// Statement gives the JSON document.
func Statement(b Build) ([]byte, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, a := range b.Artefacts {
		s.Subject = append(s.Subject, descriptor{Name: a.Name, Digest: map[string]string{"sha256": a.SHA256}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = repository + "/blob/main/tools/release"
	d.ExternalParameters = map[string]string{"version": b.Version, "target": "make release"}
	d.InternalParameters = b.Compilers
	d.ResolvedDependencies = []descriptor{{URI: "git+" + repository, Digest: map[string]string{"gitCommit": b.Revision}}}
	for _, m := range b.Materials {
		d.ResolvedDependencies = append(d.ResolvedDependencies, descriptor{Name: m.Name, Digest: map[string]string{"sha256": m.SHA256}})
	}
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/main/Makefile"
	// The date of the sources, so that whoever builds them again gets the same statement.
	s.Predicate.RunDetails.Metadata = map[string]string{"finishedOn": b.Date.UTC().Format(time.RFC3339)}
	out, err := json.MarshalIndent(s, "", "  ")
	return append(out, '\n'), err
}
