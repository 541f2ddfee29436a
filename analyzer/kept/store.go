// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/culprit-project/culprit/analyzer/clock"
)

// Bounds of what is kept. A zero one keeps nothing.
type Bounds struct {
	PerIncident int64 // Bytes of one incident's archive.
	Total       int64 // Bytes of all of them; the oldest go first.
	Retention   time.Duration
}

// mostInMemory bounds what is kept where there is no folder for it, bytes.
const mostInMemory = 64 << 20

// ErrNotKept says that nothing is kept of an incident.
var ErrNotKept = errors.New("no evidence is kept of this incident")

// suffix of an archive's name in the folder.
const suffix = ".tar.gz"

var (
	namePattern = regexp.MustCompile(`^[a-z2-7]{12}\.tar\.gz$`)
	// temporaryPattern is what a crash while writing leaves.
	temporaryPattern = regexp.MustCompile(`^\.[a-z2-7]{12}-[0-9]+$`)
)

// sweepEvery is how often what is too old is looked for.
const sweepEvery = 10 * time.Minute

// Store keeps one archive an incident: that of its standing verdict. It writes in Run; the newest record of an incident wins.
type Store struct {
	dir    string // Empty: in memory.
	logger *slog.Logger
	clock  clock.Clock
	wake   chan struct{}

	mu      sync.Mutex
	bounds  Bounds
	pending map[string]*Record // To be written.
	held    map[string]archive

	writing sync.Mutex // One archive at a time: each takes as much memory as its evidence does as text.
}

// archive is what is kept of an incident.
type archive struct {
	at   time.Time
	size int64
	data []byte // Nil: it is in the folder.
	why  error  // Why it is not kept.
}

// NewStore makes a store in a folder, which need not exist, or with none in memory. What the folder holds is taken over.
func NewStore(dir string, bounds Bounds, logger *slog.Logger, clk clock.Clock) (*Store, error) {
	s := &Store{dir: dir, logger: logger, clock: clk, wake: make(chan struct{}, 1), bounds: bounds, pending: map[string]*Record{}, held: map[string]archive{}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the folder of kept evidence: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of kept evidence: %w", err)
	}
	for _, f := range files {
		if temporaryPattern.MatchString(f.Name()) {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return nil, fmt.Errorf("clearing the folder of kept evidence: %w", err)
			}
		}
		info, err := f.Info()
		if err != nil || !namePattern.MatchString(f.Name()) || !info.Mode().IsRegular() {
			continue
		}
		s.held[strings.TrimSuffix(f.Name(), suffix)] = archive{at: info.ModTime(), size: info.Size()}
	}
	s.sweep()
	return s, nil
}

// Apply changes the bounds.
func (s *Store) Apply(b Bounds) {
	s.mu.Lock()
	s.bounds = b
	s.mu.Unlock()
	s.sweep()
}

// Keep has a record written soon.
func (s *Store) Keep(id string, r *Record) {
	r.Incident = id
	s.mu.Lock()
	s.pending[id] = r
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Forget drops what is kept of an incident.
func (s *Store) Forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
	s.drop(id)
}

// Run writes records until the context ends, and then the rest.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.Flush()
			return
		case <-s.wake:
			s.Flush()
		case <-tick.C:
			s.sweep()
		}
	}
}

// Flush writes what is to be written now.
func (s *Store) Flush() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.pending))
	for id := range s.pending {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		s.flush(id)
	}
}

func (s *Store) flush(id string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	r := s.pending[id]
	delete(s.pending, id)
	bounds := s.bounds
	s.mu.Unlock()
	if r == nil {
		return
	}
	a, err := s.write(id, r, bounds.PerIncident)
	if err != nil {
		s.logger.Warn("evidence not kept", "incident", id, "err", err)
		a = archive{why: err}
	}
	a.at = s.clock.Now()
	s.mu.Lock()
	if err != nil {
		s.drop(id) // What is there is of another verdict.
	}
	s.held[id] = a
	s.mu.Unlock()
	s.sweep()
}

// write makes an archive of a record.
func (s *Store) write(id string, r *Record, most int64) (archive, error) {
	if s.dir == "" {
		var b bytes.Buffer
		w := &bounded{w: &b, left: most}
		if err := r.Write(w); err != nil {
			return archive{}, err
		}
		return archive{size: int64(b.Len()), data: bytes.Clone(b.Bytes())}, nil
	}
	f, err := os.CreateTemp(s.dir, "."+id+"-*")
	if err != nil {
		return archive{}, err
	}
	w := &bounded{w: f, left: most}
	err = r.Write(w)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path(id))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return archive{}, err
	}
	return archive{size: most - w.left}, nil
}

// bounded fails once more is written than it may hold.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, ErrTooLarge
	}
	n, err := b.w.Write(p)
	b.left -= int64(n)
	return n, err
}

// Open gives the archive of an incident's standing verdict, with its size.
func (s *Store) Open(id string) (io.ReadCloser, int64, error) {
	s.flush(id) // The one that is asked for may wait to be written.
	s.mu.Lock()
	a, ok := s.held[id]
	s.mu.Unlock()
	switch {
	case !ok:
		return nil, 0, ErrNotKept
	case a.why != nil:
		return nil, 0, fmt.Errorf("%w: %w", ErrNotKept, a.why)
	case a.data != nil:
		return io.NopCloser(bytes.NewReader(a.data)), a.size, nil
	}
	f, err := os.Open(s.path(id))
	if err != nil {
		return nil, 0, fmt.Errorf("opening kept evidence: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("opening kept evidence: %w", err), f.Close())
	}
	return f, info.Size(), nil // Of the open file: another may have taken its place.
}

// Size gives how many bytes are kept of an incident; false: none.
func (s *Store) Size(id string) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.held[id]
	_, soon := s.pending[id]
	return a.size, ok && a.why == nil || soon
}

// sweep drops what is too old, and the oldest of what is too much.
func (s *Store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.held))
	total := int64(0)
	for id, a := range s.held {
		ids = append(ids, id)
		total += a.size
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(s.held[a].at.Compare(s.held[b].at), cmp.Compare(a, b)) })
	now, most := s.clock.Now(), s.bounds.Total
	if s.dir == "" {
		most = min(most, mostInMemory)
	}
	for _, id := range ids {
		a := s.held[id]
		if total > most || now.Sub(a.at) > s.bounds.Retention {
			total -= a.size
			s.drop(id)
		}
	}
}

// drop removes an archive. The caller holds the lock.
func (s *Store) drop(id string) {
	a, ok := s.held[id]
	delete(s.held, id)
	if !ok || s.dir == "" || a.why != nil {
		return
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Error("kept evidence not removed", "incident", id, "err", err)
	}
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+suffix) }
