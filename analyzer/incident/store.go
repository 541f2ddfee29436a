// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Store keeps incidents as files, one each, named by id. A file is written beside its place and renamed, so that a
// crash leaves the old one or the new one. Writing happens in Run; the newest state of each incident wins.
//
// They are files and not rows of an embedded database: there are at most a few hundred, always read and written whole and asked for by id
// alone, so that a database has nothing to make simpler, and one that is damaged costs one incident.
type Store struct {
	dir    string
	logger *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	pending map[string]*Incident // Nil: to be deleted.
	failed  error                // Of the last flush.
}

// retryStore is how long after a failure the store is tried again.
const retryStore = 5 * time.Second

var (
	idPattern = regexp.MustCompile(`^[a-z2-7]{12}$`)
	// temporaryPattern is what a crash while writing leaves.
	temporaryPattern = regexp.MustCompile(`^\.[a-z2-7]{12}-[0-9]+$`)
)

// NewStore makes the folder, if need be, and a store in it.
func NewStore(dir string, logger *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the storage folder: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the storage folder: %w", err)
	}
	for _, f := range files {
		if temporaryPattern.MatchString(f.Name()) {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return nil, fmt.Errorf("clearing the storage folder: %w", err)
			}
		}
	}
	return &Store{dir: dir, logger: logger, wake: make(chan struct{}, 1), pending: map[string]*Incident{}}, nil
}

// Load reads all incidents. One that cannot be read is left where it is and logged.
func (s *Store) Load() ([]Incident, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the storage folder: %w", err)
	}
	var out []Incident
	for _, f := range files {
		id, isIncident := strings.CutSuffix(f.Name(), ".json")
		if !isIncident || !idPattern.MatchString(id) {
			continue
		}
		inc, err := s.read(id)
		if err != nil {
			s.logger.Warn("stored incident skipped", "incident", id, "err", err)
			continue
		}
		out = append(out, inc)
	}
	return out, nil
}

func (s *Store) read(id string) (Incident, error) {
	text, err := os.ReadFile(s.path(id))
	if err != nil {
		return Incident{}, err
	}
	var inc Incident
	if err := json.Unmarshal(text, &inc); err != nil {
		return Incident{}, err
	}
	switch {
	case inc.Version != Version:
		return Incident{}, fmt.Errorf("it has version %d, want %d", inc.Version, Version)
	case inc.ID != id:
		return Incident{}, fmt.Errorf("it says it is %q", inc.ID)
	case inc.State != Open && inc.State != Resolved:
		return Incident{}, fmt.Errorf("its state is %q", inc.State)
	}
	return inc, nil
}

// Save has an incident written soon.
func (s *Store) Save(inc Incident) { s.put(inc.ID, &inc) }

// Delete has an incident's file removed soon.
func (s *Store) Delete(id string) { s.put(id, nil) }

func (s *Store) put(id string, inc *Incident) {
	s.mu.Lock()
	s.pending[id] = inc
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes what is to be written until the context ends, and then the rest.
func (s *Store) Run(ctx context.Context) {
	for {
		var retry <-chan time.Time
		if s.Failed() != nil {
			retry = time.After(retryStore)
		}
		select {
		case <-ctx.Done():
			s.Flush()
			return
		case <-s.wake:
			s.Flush()
		case <-retry:
			s.Flush()
		}
	}
}

// Failed tells why the last attempt did not write everything; nil: it did. What is not written is tried again.
func (s *Store) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Flush writes what is to be written now.
func (s *Store) Flush() {
	s.mu.Lock()
	pending := s.pending
	s.pending = map[string]*Incident{}
	s.mu.Unlock()
	var failed error
	for id, inc := range pending {
		var err error
		if inc == nil {
			if err = errors.Join(os.Remove(s.path(id)), s.End(id)); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		} else {
			err = s.write(inc)
		}
		if err != nil {
			s.logger.Error("incident not stored", "incident", id, "err", err)
			failed = errors.Join(failed, err)
			s.mu.Lock()
			if _, newer := s.pending[id]; !newer {
				s.pending[id] = inc
			}
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.failed = failed
	s.mu.Unlock()
}

// An analysis that ends the process is begun again at the next start, because its incident is stored. So it is noted
// before it begins how often it has begun and not ended.

// Begin notes that an incident's analysis begins, for the nth time without an end.
func (s *Store) Begin(id string, nth int) error {
	return os.WriteFile(s.attempts(id), []byte(strconv.Itoa(nth)), 0o600)
}

// End notes that an incident's analysis has ended.
func (s *Store) End(id string) error {
	err := os.Remove(s.attempts(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Unended gives how often an incident's analysis has begun since it last ended.
func (s *Store) Unended(id string) int {
	text, err := os.ReadFile(s.attempts(id))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 1 // It was noted, and the end of the process cut the note off.
	}
	return n
}

func (s *Store) attempts(id string) string { return filepath.Join(s.dir, id+".analysing") }

func (s *Store) write(inc *Incident) error {
	text, err := json.Marshal(inc)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "."+inc.ID+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path(inc.ID))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+".json") }
