// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package corpus keeps moments of jobs with what was true, so that a change of the engine is judged in minutes: the evidence of each
// as the archive that `culprit-analyzer analyze` reads, and the truths apart from it.
package corpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
	"github.com/culprit-project/culprit/sim/jsonl"
	"github.com/culprit-project/culprit/sim/scorecard/judge"
)

// truthsFile has what was true of each case. No reader of the analyzer takes it.
const truthsFile = "truths.sealed.jsonl"

// Case is a moment of a job: where its evidence lies, and what was true.
type Case struct {
	Name   string          `json:"name"`
	Set    string          `json:"set"`   // Where it comes from.
	Group  string          `json:"group"` // hang, slow, healthy or benign.
	Level  string          `json:"level,omitempty"`
	Harm   string          `json:"harm,omitempty"`
	Liar   string          `json:"liar,omitempty"` // The host that lies.
	Effect bool            `json:"effect"`         // The fault had any.
	Answer *cluster.Answer `json:"answer"`
	Where  *Places         `json:"where"`
	File   string          `json:"file"` // In the corpus.
}

// Places tells on which hosts ranks are, and which ranks the members of communicators are.
type Places struct {
	Hosts   []string         `json:"hosts"`
	Ranks   []int            `json:"ranks"` // The index of the host of each rank; -1 unknown.
	Members map[string][]int `json:"members,omitempty"`
}

// World implements judge.Places.
func (p *Places) World() int { return len(p.Ranks) }

// HostOf implements judge.Places.
func (p *Places) HostOf(rank int) int {
	if rank >= len(p.Ranks) {
		return -1
	}
	return p.Ranks[rank]
}

// HostName implements judge.Places. An unknown host has a name that no verdict holds.
func (p *Places) HostName(host int) string {
	if host < 0 {
		return "host?"
	}
	return p.Hosts[host]
}

// Member implements judge.Places.
func (p *Places) Member(comm string, rank int) (int, bool) {
	if m := p.Members[comm]; rank >= 0 && rank < len(m) {
		return m[rank], true
	}
	return -1, false
}

// placesOf copies the places of a job, as far as a verdict on the evidence can name them.
func placesOf(from judge.Places, ev *rca.Evidence) *Places {
	p := &Places{Members: map[string][]int{}}
	at := map[string]int{}
	for rank := range from.World() {
		name := from.HostName(from.HostOf(rank))
		if _, ok := at[name]; !ok {
			at[name] = len(p.Hosts)
			p.Hosts = append(p.Hosts, name)
		}
		p.Ranks = append(p.Ranks, at[name])
	}
	for _, c := range ev.Comms {
		var members []int
		for r, ok := from.Member(c.Name, 0); ok; r, ok = from.Member(c.Name, len(members)) {
			members = append(members, r)
		}
		p.Members[c.Name] = members
	}
	return p
}

// placesSeen are those that the evidence itself shows.
func placesSeen(ev *rca.Evidence) *Places {
	p := &Places{Members: map[string][]int{}}
	at := map[string]int{}
	for i := range ev.Ranks {
		r := &ev.Ranks[i]
		for len(p.Ranks) <= max(r.ID, ev.WorldSize-1) {
			p.Ranks = append(p.Ranks, -1)
		}
		if _, ok := at[r.Host]; !ok {
			at[r.Host] = len(p.Hosts)
			p.Hosts = append(p.Hosts, r.Host)
		}
		if r.ID >= 0 && r.Host != "" {
			p.Ranks[r.ID] = at[r.Host]
		}
	}
	for _, c := range ev.Comms {
		p.Members[c.Name] = c.Members
	}
	return p
}

// Writer writes a corpus into a directory.
type Writer struct {
	dir    string
	truths *jsonl.File[Case]
	n      int
}

// Create begins a corpus in a directory, in place of what is there.
func Create(dir string) (*Writer, error) {
	if err := os.RemoveAll(filepath.Join(dir, "evidence")); err != nil {
		return nil, fmt.Errorf("making room for the corpus: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "evidence"), 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the corpus: %w", err)
	}
	truths, _, err := jsonl.Open[Case](filepath.Join(dir, truthsFile), false)
	if err != nil {
		return nil, fmt.Errorf("creating the truths of the corpus: %w", err)
	}
	return &Writer{dir: dir, truths: truths}, nil
}

// Add writes a case and what is known of it.
func (w *Writer) Add(c Case, rests *kept.Record) (err error) {
	w.n++
	c.File = filepath.Join("evidence", strconv.Itoa(w.n)+".tar.gz")
	f, err := os.Create(filepath.Join(w.dir, c.File))
	if err != nil {
		return fmt.Errorf("creating evidence of the corpus: %w", err)
	}
	if err := errors.Join(rests.Write(f), f.Close()); err != nil {
		return fmt.Errorf("writing evidence of %s: %w", c.Name, err)
	}
	return w.truths.Add(&c)
}

// Close ends the corpus and gives the number of its cases.
func (w *Writer) Close() (int, error) { return w.n, w.truths.Close() }

// Read gives the cases of a corpus.
func Read(dir string) ([]Case, error) {
	cases, err := jsonl.Read[Case](filepath.Join(dir, truthsFile))
	if err != nil {
		return nil, fmt.Errorf("opening the corpus: %w", err)
	}
	return cases, nil
}

// rests reads the evidence of a case.
func (c *Case) rests(dir string) (*kept.Record, error) {
	f, err := os.Open(filepath.Join(dir, c.File))
	if err != nil {
		return nil, fmt.Errorf("opening the evidence of %s: %w", c.Name, err)
	}
	defer f.Close()
	r, err := kept.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return r, nil
}
