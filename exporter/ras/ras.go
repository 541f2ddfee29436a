// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ras asks NCCL's RAS service, which every NCCL process since 2.24 offers on its host, for the state of a whole
// job. Asking has crashed jobs with some releases (2.26 and 2.27 among them), so nobody should ask without being told to,
// nor often.
package ras

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"strings"
	"time"
)

const (
	// DefaultAddress is where RAS listens unless NCCL_RAS_ADDR says otherwise.
	DefaultAddress = "localhost:28028"
	// maxReply bounds a reply; one of 512 ranks in 77 communicators takes 1.5 MB.
	maxReply = 64 << 20
	// maxLine bounds the lines of the handshake.
	maxLine = 4096
	// collectSeconds is how long RAS may spend asking the other processes.
	collectSeconds = 5
)

// ErrFormat means that the server has no JSON replies: NCCL before 2.28.7.
var ErrFormat = errors.New("RAS server offers no JSON (NCCL before 2.28.7)")

// Report is what RAS says of a job, as far as it is used.
type Report struct {
	NCCLVersion   string         `json:"nccl_version"`
	Communicators []Communicator `json:"communicators"`
	RAS           struct {
		CollectionSeconds float64 `json:"collection_time_sec"`
		Timeouts          int     `json:"timeouts_count"`
	} `json:"ras"`
}

// Communicator is a communicator as RAS sees it.
type Communicator struct {
	Hash    string        `json:"hash"` // Hexadecimal with 0x; the id that the profiler plugin sees too.
	Size    int           `json:"size"`
	Ranks   []Rank        `json:"ranks"`
	Missing []MissingRank `json:"missing_ranks"`
}

// Rank is a member that answered.
type Rank struct {
	Rank   int    `json:"rank"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Status struct {
		InitState  int  `json:"init_state"`
		AsyncError int  `json:"async_error"`
		Finalize   bool `json:"finalize_called"`
		Destroy    bool `json:"destroy_flag"`
		Abort      bool `json:"abort_flag"`
	} `json:"status"`
	// Counts are operations launched, by function; send and receive are not counted.
	Counts map[string]uint64 `json:"collective_counts"`
}

// MissingRank is a member that did not answer.
type MissingRank struct {
	Rank   int    `json:"rank"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Status struct {
		Unresponsive bool `json:"unresponsive"`
		Dead         bool `json:"considered_dead"`
	} `json:"status"`
}

// Query asks the RAS service at address for a report. The service may take some seconds; ctx bounds it.
func Query(ctx context.Context, address string) (*Report, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to RAS: %w", err)
	}
	defer conn.Close()
	deadline := time.Now().Add(time.Minute)
	if t, ok := ctx.Deadline(); ok {
		deadline = t
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("connecting to RAS: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	r := bufio.NewReaderSize(conn, maxLine)
	for _, c := range []struct {
		command, reply string
		err            error
	}{
		{"CLIENT PROTOCOL 2", "SERVER PROTOCOL", errors.New("unexpected greeting")},
		{fmt.Sprintf("TIMEOUT %d", collectSeconds), "OK", errors.New("timeout refused")},
		{"SET FORMAT json", "OK", ErrFormat},
	} {
		line, err := exchange(conn, r, c.command)
		if err != nil {
			return nil, fmt.Errorf("talking to RAS: %s: %w", c.command, err)
		}
		if !strings.HasPrefix(line, c.reply) {
			return nil, fmt.Errorf("talking to RAS: %w: %q", c.err, line)
		}
	}
	if _, err := io.WriteString(conn, "VERBOSE STATUS\n"); err != nil {
		return nil, fmt.Errorf("asking RAS: %w", err)
	}
	reply, err := io.ReadAll(io.LimitReader(r, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("reading the RAS report: %w", err)
	}
	if len(reply) > maxReply {
		return nil, fmt.Errorf("reading the RAS report: more than %d bytes", maxReply)
	}
	return Parse(reply)
}

func exchange(w io.Writer, r *bufio.Reader, command string) (string, error) {
	if _, err := io.WriteString(w, command+"\n"); err != nil {
		return "", err
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(line)), nil
}

// missingComma is the place where NCCL 2.28.7 to 2.28.9 leave a comma out.
var missingComma = regexp.MustCompile(`("nvml_dev":\s*-?\d+)(\s*")`)

// Parse reads a report.
func Parse(b []byte) (*Report, error) {
	var report Report
	err := json.Unmarshal(b, &report)
	if err != nil {
		err = json.Unmarshal(missingComma.ReplaceAll(b, []byte("$1,$2")), &report)
	}
	if err != nil {
		return nil, fmt.Errorf("parsing the RAS report: %w", err)
	}
	return &report, nil
}

// Lag is by how many launches the last member is behind the first, over all functions. RAS counts launches: members
// that launched alike may still all hang.
func (c *Communicator) Lag() uint64 {
	var lag uint64
	if len(c.Ranks) == 0 {
		return 0
	}
	for function := range c.Ranks[0].Counts {
		low, high := ^uint64(0), uint64(0)
		for i := range c.Ranks {
			n := c.Ranks[i].Counts[function]
			low, high = min(low, n), max(high, n)
		}
		lag = max(lag, high-low)
	}
	return lag
}

// Find gives the report's communicator that is the same as another report's; nil when there is none.
func (r *Report) Find(c *Communicator) *Communicator {
	if r == nil {
		return nil
	}
	for i := range r.Communicators {
		if other := &r.Communicators[i]; other.Hash == c.Hash && other.Size == c.Size {
			return other
		}
	}
	return nil
}

// Behind gives the members that have launched fewer operations of a function than another member, and by how many, when
// they have launched nothing at all since an earlier report. Members of a job that goes on are behind for moments only.
func (c *Communicator) Behind(before *Communicator) map[int]uint64 {
	if before == nil {
		return nil
	}
	earlier := map[int]map[string]uint64{}
	for i := range before.Ranks {
		earlier[before.Ranks[i].Rank] = before.Ranks[i].Counts
	}
	most := map[string]uint64{}
	for i := range c.Ranks {
		for function, n := range c.Ranks[i].Counts {
			most[function] = max(most[function], n)
		}
	}
	behind := map[int]uint64{}
	for i := range c.Ranks {
		r := &c.Ranks[i]
		counts, known := earlier[r.Rank]
		if !known || !maps.Equal(counts, r.Counts) {
			continue
		}
		for function, n := range most {
			if lag := n - r.Counts[function]; lag > 0 {
				behind[r.Rank] = max(behind[r.Rank], lag)
			}
		}
	}
	return behind
}
