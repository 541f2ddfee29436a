// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// defaultRecords and maxRecords bound an answer's length; limit= chooses below the latter.
	defaultRecords = 200_000
	maxRecords     = 2_000_000
)

func (a *API) trace(w http.ResponseWriter, r *http.Request) {
	nowNS := a.sampler.Now()
	q, err := parseTraceQuery(r.URL.Query(), nowNS)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	transfers, err := parseSwitch(r.URL.Query(), "transfers", false)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	body, finish := compressed(w, r)
	enc := json.NewEncoder(body)
	err = enc.Encode(nodeapi.TraceLine{Header: &nodeapi.TraceHeader{
		Version: nodeapi.Version, Node: a.sampler.HostName(), AtUnixNS: a.now().UnixNano(), NowNS: nowNS,
	}})
	if err == nil {
		err = a.writeLines(enc, q, transfers, r)
	}
	if err := errors.Join(err, finish()); err != nil {
		a.log.Debug("Writing trace", "remote", r.RemoteAddr, "err", err)
	}
}

// writeLines writes the records and the trailer. An answer that breaks off has no trailer.
func (a *API) writeLines(enc *json.Encoder, q history.Query, transfers bool, r *http.Request) error {
	var writing error
	write := func(line *nodeapi.TraceLine) bool {
		if writing = r.Context().Err(); writing == nil {
			writing = enc.Encode(line)
		}
		return writing == nil
	}
	trailer, err := a.store.Lines(q, write)
	if transfers && err == nil && writing == nil {
		a.writeTransfers(q, &trailer, write)
	}
	if err := errors.Join(writing, err); err != nil {
		return err
	}
	return enc.Encode(nodeapi.TraceLine{Trailer: &trailer})
}

// writeTransfers adds what the files hold of single transfers now.
func (a *API) writeTransfers(q history.Query, trailer *nodeapi.TraceTrailer, write func(*nodeapi.TraceLine) bool) {
	a.sampler.Transfers(node.Query{JobIDs: q.JobIDs, Ranks: q.Ranks, Comms: q.Comms},
		func(p *nodeapi.Process, moved []trace.Transfer, lost uint64) bool {
			trailer.Lost += lost
			if !write(&nodeapi.TraceLine{Process: p}) {
				return false
			}
			for i := range moved {
				if moved[i].EndedNS < q.FromNS || moved[i].EndedNS > q.ToNS {
					continue
				}
				if trailer.Records >= q.MaxRecords {
					trailer.Truncated = true
					return false
				}
				trailer.Records++
				if !write(&nodeapi.TraceLine{Transfer: &nodeapi.ProcessTransfer{File: p.File, Transfer: moved[i]}}) {
					return false
				}
			}
			return true
		})
}

func parseTraceQuery(v url.Values, nowNS uint64) (history.Query, error) {
	q := history.Query{ToNS: ^uint64(0), MaxRecords: defaultRecords}
	state, err := parseQuery(v)
	if err != nil {
		return q, err
	}
	q.JobIDs, q.Ranks, q.Comms = state.JobIDs, state.Ranks, state.Comms
	for name, dst := range map[string]*uint64{"from": &q.FromNS, "to": &q.ToNS} {
		if s := v.Get(name); s != "" {
			if *dst, err = strconv.ParseUint(s, 10, 64); err != nil {
				return q, fmt.Errorf("%s %q is not a number of nanoseconds", name, s)
			}
		}
	}
	if s := v.Get("last"); s != "" {
		last, err := time.ParseDuration(s)
		if err != nil || last < 0 {
			return q, fmt.Errorf("last %q is not a duration such as 30s", s)
		}
		if uint64(last) < nowNS {
			q.FromNS = max(q.FromNS, nowNS-uint64(last))
		}
	}
	if s := v.Get("limit"); s != "" {
		if q.MaxRecords, err = strconv.ParseInt(s, 10, 64); err != nil || q.MaxRecords < 1 || q.MaxRecords > maxRecords {
			return q, fmt.Errorf("limit %q is not a number from 1 to %d", s, maxRecords)
		}
	}
	for name, dst := range map[string]*bool{"completions": &q.NoCompletions, "lifecycle": &q.NoLifecycle, "samples": &q.NoSamples} {
		on, err := parseSwitch(v, name, true)
		if err != nil {
			return q, err
		}
		*dst = !on
	}
	return q, nil
}

func parseSwitch(v url.Values, name string, otherwise bool) (bool, error) {
	s := v.Get(name)
	if s == "" {
		return otherwise, nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%s %q is neither true nor false", name, s)
	}
	return on, nil
}
