// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kept holds on to what verdicts rest on: the evidence outlives the job, and gives the same verdict again.
package kept

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Format names the document, and Version its form. New fields do not raise it.
const (
	Format  = "culprit-evidence"
	Version = 1
)

// Bounds of a record, unpacked. A file of evidence may come from anywhere, and "{}" becomes a record of several hundred bytes.
const (
	maxBytes   = 256 << 20
	maxObjects = 1 << 22
)

// Errors of a record.
var (
	ErrTooLarge = errors.New("the evidence is too large to be kept")
	ErrFormat   = errors.New("not evidence of a verdict")
	ErrVersion  = errors.New("evidence kept by a newer version")
)

// Record is all that a verdict rests on.
type Record struct {
	Format   string       `json:"format"`
	Version  int          `json:"version"`
	Incident string       `json:"incident,omitempty"`
	At       time.Time    `json:"at"` // When the analysis ended.
	Options  rca.Options  `json:"options"`
	Context  Context      `json:"context"`
	Verdict  rca.Verdict  `json:"verdict"` // As it was told.
	Evidence rca.Evidence `json:"evidence"`
	// Topology and Operators say that the engine knew the network, or a trained model, which are not in the record.
	Topology  bool `json:"topology,omitempty"`
	Operators bool `json:"operators,omitempty"`
}

// New makes a record of a verdict.
func New(at time.Time, opt rca.Options, ev rca.Evidence, c Context, v rca.Verdict) *Record {
	r := &Record{Format: Format, Version: Version, At: at, Options: opt, Context: c, Verdict: v, Evidence: ev, Topology: opt.Topology.Known(), Operators: opt.Operators != nil}
	r.Options.Topology, r.Options.Operators = nil, nil
	return r
}

// Sniff recognises a record.
func Sniff(data []byte) bool {
	return bytes.Contains(data[:min(len(data), 256)], []byte(`"`+Format+`"`))
}

// Parse reads a record.
func Parse(data []byte) (*Record, error) {
	if len(data) > maxBytes || bytes.Count(data, []byte{'{'}) > maxObjects {
		return nil, ErrTooLarge
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("reading kept evidence: %w", err)
	}
	switch {
	case r.Format != Format:
		return nil, ErrFormat
	case r.Version > Version:
		return nil, ErrVersion
	}
	return &r, nil
}

// Read reads a record from the archive that Write made of it.
func Read(r io.Reader) (*Record, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("reading kept evidence: %w", err)
	}
	tr := tar.NewReader(zr)
	if _, err := tr.Next(); err != nil {
		return nil, fmt.Errorf("reading kept evidence: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(tr, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading kept evidence: %w", err)
	}
	return Parse(text)
}

// Write writes a record as the archive that analyze reads.
func (r *Record) Write(w io.Writer) error {
	if r.objects() > maxObjects {
		return ErrTooLarge
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	if len(text) > maxBytes || bytes.Count(text, []byte{'{'}) > maxObjects {
		return ErrTooLarge
	}
	zw, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	name := "evidence.json"
	if r.Incident != "" {
		name = r.Incident + "/" + name
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: r.At}); err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	_, err = tw.Write(text)
	return errors.Join(err, tw.Close(), zw.Close())
}

// objects is about how many objects the record is made of, cheaply, before any of them is written.
func (r *Record) objects() int {
	n := len(r.Evidence.Timeline) + len(r.Evidence.Facts) + len(r.Evidence.Comms)
	for i := range r.Evidence.Ranks {
		n += 1 + len(r.Evidence.Ranks[i].Memberships)
		for k := range r.Evidence.Ranks[i].Memberships {
			m := &r.Evidence.Ranks[i].Memberships[k]
			n += len(m.InFlight) + len(m.Recent)
			for o := range m.InFlight {
				n += len(m.InFlight[o].Flows)
			}
		}
	}
	return n
}
