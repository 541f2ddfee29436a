// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kept holds on to what verdicts rest on: the evidence outlives the job, and gives the same verdict again.
package kept

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// Format names the document, and Version its form. New fields do not raise it. Since version 2 the timeline stands beside the other
// evidence, so that it can be written piece by piece; since version 3 it is written by columns.
const (
	Format  = "culprit-evidence"
	Version = 3
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
	// Topology says that the engine knew the network, which is not in the record.
	Topology bool `json:"topology,omitempty"`
	// Timeline is the evidence's where the document is written, and empty in a record that was read.
	Timeline timeline `json:"timeline,omitempty"`
}

// New makes a record of a verdict.
func New(at time.Time, opt rca.Options, ev rca.Evidence, c Context, v rca.Verdict) *Record {
	r := &Record{Format: Format, Version: Version, At: at, Options: opt, Context: c, Verdict: v, Evidence: ev, Topology: opt.Topology.Known()}
	r.Options.Topology = nil
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
	if r.Timeline != nil {
		r.Evidence.Timeline, r.Timeline = r.Timeline, nil
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

// Write writes a record as the archive that analyze reads. It holds a piece of the document at a time in memory: a timeline of several
// minutes is tens of megabytes as text.
func (r *Record) Write(w io.Writer) error {
	if r.objects() > maxObjects {
		return ErrTooLarge
	}
	var size measure
	if err := r.encode(&size); err != nil {
		return err
	}
	if size.bytes > maxBytes || size.objects > maxObjects {
		return ErrTooLarge
	}
	zw := gzip.NewWriter(w)
	tw := tar.NewWriter(zw)
	name := "evidence.json"
	if r.Incident != "" {
		name = r.Incident + "/" + name
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(size.bytes), ModTime: r.At}); err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	return errors.Join(r.encode(tw), tw.Close(), zw.Close())
}

// encode writes the document.
func (r *Record) encode(w io.Writer) error {
	head := *r
	head.Evidence.Timeline, head.Timeline = nil, nil
	text, err := json.Marshal(&head)
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	b := bufio.NewWriter(w)
	if len(r.Evidence.Timeline) == 0 {
		_, _ = b.Write(text)
		return b.Flush() // Which gives the first error of all writes.
	}
	_, _ = b.Write(bytes.TrimSuffix(text, []byte{'}'}))
	_, _ = b.WriteString(`,"timeline":`)
	if err := timeline(r.Evidence.Timeline).write(b); err != nil {
		return err
	}
	_ = b.WriteByte('}')
	return b.Flush()
}

// measure counts what is written to it.
type measure struct{ bytes, objects int }

func (m *measure) Write(p []byte) (int, error) {
	m.bytes += len(p)
	m.objects += bytes.Count(p, []byte{'{'})
	return len(p), nil
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
