// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package stacks fetches the Python call stacks of a job's processes (Mycroft's py-spy integration, M11) from whatever
// serves `py-spy dump --json` on the nodes, and groups ranks by identical stack.
package stacks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
)

// maxBytes bounds one answer.
const maxBytes = 1 << 20

// concurrency is how many processes are asked at a time.
const concurrency = 32

// Process is where a rank runs: the labels of culprit_nccl_process_info with host, pid and rank as the exporter found them.
type Process struct {
	Rank   int
	Labels map[string]string
}

// Source asks the nodes.
type Source struct {
	URL     *template.Template // Over a process's labels.
	HTTP    *http.Client
	Timeout time.Duration // Of one request.
}

// Dump gives the main thread's stack of each process that answers, innermost frame last, by rank. The error joins what
// went wrong with the others.
func (s *Source) Dump(ctx context.Context, processes []Process) (map[int][]string, error) {
	var mu sync.Mutex
	var errs []error
	out := make(map[int][]string, len(processes))
	var wg sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for _, p := range processes {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			stack, err := s.one(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("stack of rank %d: %w", p.Rank, err))
				return
			}
			out[p.Rank] = stack
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

func (s *Source) one(ctx context.Context, p Process) ([]string, error) {
	var address strings.Builder
	if err := s.URL.Execute(&address, config.AddressLabels(p.Labels)); err != nil {
		return nil, fmt.Errorf("filling stacks.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	return Parse(io.LimitReader(resp.Body, maxBytes))
}

// Parse reads the output of py-spy dump --json and gives the stack that says what the process does, innermost frame last.
func Parse(r io.Reader) ([]string, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading py-spy's dump: %w", err)
	}
	processes, err := stackdump.Parse("", text)
	if err != nil {
		return nil, fmt.Errorf("reading py-spy's dump: %w", err)
	}
	stack := processes[0].Telling()
	if len(stack) == 0 {
		return nil, errors.New("py-spy saw no Python frames")
	}
	return stack, nil
}

// Group puts ranks with identical stacks together: the smallest group first, for that is where to look.
func Group(stacks map[int][]string) []incident.StackGroup {
	groups := map[string]*incident.StackGroup{}
	for rank, frames := range stacks {
		key := strings.Join(frames, "\n")
		if groups[key] == nil {
			groups[key] = &incident.StackGroup{Frames: frames}
		}
		groups[key].Ranks = append(groups[key].Ranks, rank)
	}
	out := make([]incident.StackGroup, 0, len(groups))
	for _, g := range groups {
		slices.Sort(g.Ranks)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b incident.StackGroup) int {
		return cmp.Or(cmp.Compare(len(a.Ranks), len(b.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	return out
}
