// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Record is how a step ended last time.
type Record struct {
	Last time.Time `json:"last"`
	OK   bool      `json:"ok"`
	Tree string    `json:"tree,omitempty"` // The sources that it ran on.
}

// State is what is known of earlier runs, by name of the step.
type State map[string]Record

func (s State) failed(name string) bool {
	r, ok := s[name]
	return ok && !r.OK
}

// Load reads a state; a file that is not there is an empty one.
func Load(file string) (State, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading how earlier runs ended: %w", err)
	}
	state := State{}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("reading how earlier runs ended from %s: %w", file, err)
	}
	return state, nil
}

// note adds one record to the file. Steps that run side by side, and other runs, add theirs meanwhile: one at a time does.
func note(file, name string, r Record) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing how a run ended: %w", err)
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("writing how a run ended: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for %s: %w", lock.Name(), err)
	}
	state, err := Load(file)
	if err != nil {
		return err
	}
	state[name] = r
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("writing how a run ended: %w", err)
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".state-")
	if err != nil {
		return fmt.Errorf("writing how a run ended: %w", err)
	}
	_, err = next.Write(append(text, '\n'))
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		os.Remove(next.Name())
		return fmt.Errorf("writing how a run ended: %w", err)
	}
	return nil
}
