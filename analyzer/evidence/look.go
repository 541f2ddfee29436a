// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Looker has exporters take close looks at processes. Nodes implements it over HTTP.
type Looker interface {
	// Look takes the numbers of the processes by their ranks.
	Look(ctx context.Context, base, jobID string, pids map[int]int) (*nodeapi.Look, int64, error)
}

// Bounds of one answer: its bytes, and what its lists can hold.
const (
	maxLookBytes  = 16 << 20
	maxLookCommas = 1 << 18
	// lookTimeout is for one request. An exporter itself takes up to 5 s.
	lookTimeout = 6 * time.Second
	// lookConcurrency is how many exporters are asked at a time.
	lookConcurrency = 8
)

// Look implements Looker.
func (n *Nodes) Look(ctx context.Context, base, jobID string, pids map[int]int) (*nodeapi.Look, int64, error) {
	q := url.Values{"job_id": {jobID}}
	for _, r := range slices.Sorted(maps.Keys(pids)) {
		q.Add("rank", strconv.Itoa(r))
		q.Add("pid", strconv.Itoa(pids[r]))
	}
	var look *nodeapi.Look
	// A refusal is no failure of the exporter: it may not be allowed to look.
	size, err := n.once(ctx, lookTimeout, base+nodeapi.LookPath+"?"+q.Encode(), func(r io.Reader) error {
		var err error
		look, err = decodeLook(r)
		return err
	})
	return look, size, err
}

func decodeLook(r io.Reader) (*nodeapi.Look, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxLookBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading its answer: %w", err)
	case len(text) > maxLookBytes || bytes.Count(text, []byte{','}) > maxLookCommas:
		return nil, errFinal{errors.New("its answer is too large for a close look")}
	}
	look := new(nodeapi.Look)
	if err := json.Unmarshal(text, look); err != nil {
		return nil, fmt.Errorf("reading its answer: %w", err)
	}
	return look, checkVersion(look.Version)
}

// Look has exporters look closely at some ranks. Of a rank that was not looked at it says why. It gives nothing where no exporter can be
// asked for it.
func (s *Session) Look(ctx context.Context, ranks []int) map[int]*nodeapi.LookedAt {
	looker, ok := s.g.Nodes.(Looker)
	if !ok {
		return nil
	}
	byNode := map[*Node]map[int]int{}
	for _, r := range ranks {
		n, pid := s.byRank[r], s.pidOf(r)
		if n == nil || pid <= 0 || len(byNode[n]) >= nodeapi.MaxLooked || s.Disputed(r) != "" {
			continue
		}
		if byNode[n] == nil {
			byNode[n] = map[int]int{}
		}
		byNode[n][r] = pid
	}
	var mu sync.Mutex
	out := map[int]*nodeapi.LookedAt{}
	each(slices.SortedFunc(maps.Keys(byNode), byBase), lookConcurrency, func(n *Node) int64 {
		look, size, err := looker.Look(ctx, n.Base, s.job.ID, byNode[n])
		mu.Lock()
		defer mu.Unlock()
		for rank, pid := range byNode[n] {
			out[rank] = looked(look, s.job.ID, rank, pid, err)
		}
		return size
	}, &s.bytes)
	return out
}

// pidOf gives the process that is believed to be a rank, as its exporter's procfs numbers it; 0 unknown. Another user of the host may run
// processes of the same job and rank.
func (s *Session) pidOf(rank int) int {
	if n := s.byRank[rank]; n != nil && n.state != nil {
		for i := range n.state.Processes {
			p := &n.state.Processes[i]
			if p.JobID == s.job.ID && int(p.Rank) == rank && s.believes(p) && p.Kernel != nil && alive(p.Kernel.State) {
				return p.Kernel.HostPID
			}
		}
	}
	return s.processes[rank].PID
}

// looked finds a process in an answer.
func looked(look *nodeapi.Look, jobID string, rank, pid int, err error) *nodeapi.LookedAt {
	if err != nil {
		return &nodeapi.LookedAt{Missing: []string{"Its exporter did not look at it closely: " + reason(err) + "."}}
	}
	for i := range look.Processes {
		if p := &look.Processes[i]; p.JobID == jobID && int(p.Rank) == rank && p.PID == pid {
			return p
		}
	}
	return &nodeapi.LookedAt{Missing: []string{"Its exporter did not look at it closely: it does not see the process."}}
}
