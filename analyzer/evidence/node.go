// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/culprit-project/culprit/analyzer/fetch"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// NodeAPI is what the analyzer asks of exporters. Nodes implements it over HTTP.
type NodeAPI interface {
	// State asks an exporter for the state of a job's processes. It returns the answer and its size in bytes. With ranks or
	// comms, it asks only for those. It calls take with the objects of each process before it decodes the process.
	State(ctx context.Context, base, jobID string, ranks []int, comms []string, take func(objects int64) bool) (*nodeapi.State, int64, error)
	// Trace asks an exporter for a job's history and passes each line to yield. The first line is a header; another header means
	// that the request was repeated and everything begins again. Of a process, only file, job and rank are always filled in.
	Trace(ctx context.Context, base, jobID string, history time.Duration, yield func(*nodeapi.TraceLine)) (int64, error)
}

// Nodes queries the exporters.
type Nodes struct {
	HTTP    *http.Client
	Timeout time.Duration // For one attempt to read present state.
	// HistoryTimeout is for one attempt to read finished work; 0: the same as Timeout.
	HistoryTimeout time.Duration
	Retries        int
	Observe        func(err error)
}

// retryAfter is the pause before a request is tried again.
const retryAfter = 100 * time.Millisecond

// errStatus is an answer other than 200.
type errStatus struct {
	code int
	text string
}

func (e errStatus) Error() string { return fmt.Sprintf("it answered %d: %s", e.code, e.text) }

// errReached marks a request that timed out although the host accepts connections: the host is up, and either the exporter hangs
// or all of the host's processes do.
type errReached struct{ error }

func (e errReached) Unwrap() error { return e.error }

// reachWithin is how long a host may take to accept a connection.
const reachWithin = time.Second

// reaches reports whether the host of an address accepts a connection.
func reaches(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// errFinal marks errors that another attempt cannot fix.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// State implements NodeAPI.
func (n *Nodes) State(ctx context.Context, base, jobID string, ranks []int, comms []string, take func(objects int64) bool) (*nodeapi.State, int64, error) {
	q := url.Values{"job_id": {jobID}}
	for _, r := range ranks {
		q.Add("rank", strconv.Itoa(r))
	}
	if len(comms) > 0 {
		q["comm"] = comms
	}
	var state *nodeapi.State
	bytes, err := n.get(ctx, n.Timeout, base+nodeapi.StatePath+"?"+q.Encode(), func(r io.Reader) error {
		var err error
		if state, err = decodeState(r, take); err != nil {
			return fmt.Errorf("reading its answer: %w", err)
		}
		return checkVersion(state.Version)
	})
	if err != nil {
		return nil, bytes, err
	}
	return state, bytes, nil
}

// Trace implements NodeAPI.
func (n *Nodes) Trace(ctx context.Context, base, jobID string, history time.Duration, yield func(*nodeapi.TraceLine)) (int64, error) {
	q := url.Values{"job_id": {jobID}, "last": {history.String()}, "samples": {"false"}, "lifecycle": {"false"}}
	return n.get(ctx, cmp.Or(n.HistoryTimeout, n.Timeout), base+nodeapi.TracePath+"?"+q.Encode(), func(r io.Reader) error {
		dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
		for whole := false; ; {
			var line traceLine
			if err := dec.Decode(&line); errors.Is(err, io.EOF) && whole {
				return nil
			} else if err != nil {
				return fmt.Errorf("reading its answer: %w", err)
			}
			if line.Header != nil {
				if err := checkVersion(line.Header.Version); err != nil {
					return err
				}
			}
			whole = whole || line.Trailer != nil
			yield(line.used())
		}
	})
}

func checkVersion(v int) error {
	if v != nodeapi.Version {
		return errFinal{fmt.Errorf("node API version %d, want %d", v, nodeapi.Version)}
	}
	return nil
}

func (n *Nodes) get(ctx context.Context, timeout time.Duration, address string, read func(io.Reader) error) (size int64, err error) {
	for attempt := 0; ; attempt++ {
		size, err = n.once(ctx, timeout, address, read)
		n.Observe(err)
		if errors.Is(err, context.DeadlineExceeded) && reaches(ctx, address) {
			return size, errReached{err}
		}
		if err == nil || attempt >= n.Retries || !passing(err) {
			return size, err
		}
		select {
		case <-ctx.Done():
			return size, err
		case <-time.After(retryAfter):
		}
	}
}

// lacksAPI reports whether an exporter is too old for the request.
func lacksAPI(err error) bool {
	status := errStatus{}
	return errors.As(err, &status) && status.code == http.StatusNotFound
}

func passing(err error) bool {
	if status := (errStatus{}); errors.As(err, &status) {
		return status.code >= 500 || status.code == http.StatusTooManyRequests
	}
	// An exporter that has timed out will hardly answer the next attempt, and the verdict waits. The analysis itself is repeated.
	return !errors.As(err, &errFinal{}) && !errors.Is(err, fetch.ErrTooLarge) && !errors.Is(err, fetch.ErrBudget) && !errors.Is(err, context.DeadlineExceeded)
}

func (n *Nodes) once(ctx context.Context, timeout time.Duration, address string, read func(io.Reader) error) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, errFinal{err}
	}
	resp, err := n.HTTP.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return 0, errStatus{resp.StatusCode, string(text)}
	}
	counted := &counter{r: resp.Body}
	err = read(counted)
	return counted.read, err
}

// counter counts the bytes that are read.
type counter struct {
	r    io.Reader
	read int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	return n, err
}
