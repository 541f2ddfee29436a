// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ras

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/cutoff"
	"github.com/culprit-project/culprit/analyzer/offline/told"
)

type jsonReport struct {
	Version       string     `json:"nccl_version"`
	Timestamp     string     `json:"timestamp"`
	Communicators []jsonComm `json:"communicators"`
	RAS           struct {
		Timeouts int `json:"timeouts_count"`
	} `json:"ras"`
	// Monitoring mode.
	Event string `json:"event"`
	Peer  struct {
		Host string `json:"host"`
		PID  int    `json:"pid"`
		CUDA []int  `json:"cuda_devs"`
		NVML []int  `json:"nvml_devs"`
	} `json:"peer"`
}

type jsonComm struct {
	Hash      string     `json:"hash"`
	Secondary string     `json:"secondary_hash"`
	Size      int        `json:"size"`
	Ranks     []jsonRank `json:"ranks"`
	Missing   []jsonRank `json:"missing_ranks"`
}

type jsonRank struct {
	Rank   int    `json:"rank"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	CUDA   int    `json:"cuda_dev"`
	NVML   *int   `json:"nvml_dev"`
	Status struct {
		Init         int  `json:"init_state"`
		Async        int  `json:"async_error"`
		Finalize     bool `json:"finalize_called"`
		Destroy      bool `json:"destroy_flag"`
		Abort        bool `json:"abort_flag"`
		Unresponsive bool `json:"unresponsive"`
		Dead         bool `json:"considered_dead"`
	} `json:"status"`
	Counts map[string]int64 `json:"collective_counts"`
}

// NCCL's result codes that are no error.
const (
	ncclSuccess    = 0
	ncclInProgress = 7
)

// SniffJSON says whether data looks like RAS JSON.
func SniffJSON(data []byte) bool {
	const headOf, noted = 4 << 10, 256 << 10 // RCCL explains its members first, in "field_notes".
	head := Bare(data[:min(len(data), headOf)])
	if bytes.Contains(head, []byte(`"field_notes"`)) {
		head = Bare(data[:min(len(data), noted)])
	}
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return false
	}
	// Tools that sort members put the version behind the communicators.
	return bytes.Contains(head, []byte(`"communicators"`)) && (bytes.Contains(head, []byte(`"nccl_version"`)) || bytes.Contains(data, []byte(`"collective_counts"`))) ||
		bytes.Contains(head, []byte(`"PEER_`))
}

// betweenLine is what stands between reports, a line by itself: what NCCL's RAS service answers to a command that sets something,
// what its client says of the monitoring mode, and what people print to tell one report from the next.
var betweenLine = regexp.MustCompile(`(?m)^(?:OK|SERVER PROTOCOL \d+|RAS Monitor Mode.*|Monitoring stopped.*|Connection closed by.*|[=#+*-]{2,}.*|\[?\d{4}-\d\d-\d\d[T ][^{"]*|[A-Z][a-z]{2},? +[^{"]*\d\d:\d\d:\d\d[^{"]*)[ \t\r]*$`)

// Bare gives a capture without what stands between reports, from its first report on.
func Bare(data []byte) []byte {
	return bytes.TrimLeft(betweenLine.ReplaceAll(data, nil), " \t\r\n\ufeff")
}

// ParseJSON reads one or several JSON reports or monitoring events, one after another in one file. Of one that is cut off
// come those before it, and of the last what was whole; the error says so.
func ParseJSON(file string, data []byte) ([]*Report, error) {
	data = repair(Bare(data))
	var out []*Report
	for {
		at := bytes.IndexByte(data, '{') // Reports may be in a list, too.
		if at < 0 {
			break
		}
		data = data[at:]
		dec := json.NewDecoder(bytes.NewReader(data))
		var j jsonReport
		err := dec.Decode(&j)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			if json.Unmarshal(cutoff.JSON(data), &j) == nil && len(j.Communicators) > 0 {
				return append(out, j.report(file)), fmt.Errorf("decoding report %d: %w", len(out)+1, err)
			}
		}
		if err != nil {
			if len(out) > 0 {
				return out, fmt.Errorf("decoding report %d: %w", len(out)+1, err)
			}
			return nil, fmt.Errorf("decoding: %w", err)
		}
		out = append(out, j.report(file))
		data = data[dec.InputOffset():]
	}
	if len(out) == 0 {
		return nil, ErrNotReport
	}
	return out, nil
}

func (j *jsonReport) report(file string) *Report {
	r := &Report{File: file, Version: j.Version, Timeouts: j.RAS.Timeouts}
	if t, err := time.Parse(time.DateTime, j.Timestamp); err == nil {
		r.At = t
	}
	name, _ := strings.CutPrefix(j.Event, "PEER_")
	if kind := peerEvents[name]; kind != "" && j.Peer.Host != "" {
		devices := j.Peer.NVML
		if len(devices) == 0 {
			devices = j.Peer.CUDA
		}
		r.Events = append(r.Events, Event{Process{j.Peer.Host, j.Peer.PID, join(devices)}, kind})
	}
	for _, jc := range j.Communicators {
		c := &Comm{
			Hash:      strings.TrimLeft(strings.ToLower(strings.TrimPrefix(jc.Hash, "0x")), "0"),
			Secondary: jc.Secondary, Size: max(0, min(jc.Size, maxImplied)),
		}
		for i := range jc.Ranks {
			jc.Ranks[i].fill(c, false)
		}
		for i := range jc.Missing {
			jc.Missing[i].fill(c, true)
		}
		r.Comms = append(r.Comms, c)
	}
	return r
}

func join(numbers []int) string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ",")
}

func (j *jsonRank) fill(c *Comm, missing bool) {
	if j.Rank < 0 || j.Rank > maxImplied {
		return
	}
	r := c.rank(j.Rank)
	device := j.CUDA
	if j.NVML != nil {
		device = *j.NVML
	}
	r.Place = Process{Host: j.Host, PID: j.PID, GPU: strconv.Itoa(device)}
	r.Missing = missing
	r.Unresponsive, r.Dead = j.Status.Unresponsive, j.Status.Dead
	r.Finalizing, r.Aborted = j.Status.Finalize || j.Status.Destroy, j.Status.Abort
	switch j.Status.Init {
	case ncclSuccess:
	case ncclInProgress:
		r.Initializing = true
	default:
		r.InitError = told.NCCLResult(j.Status.Init)
	}
	if a := j.Status.Async; a != ncclSuccess && a != ncclInProgress {
		r.AsyncError = told.NCCLResult(a)
	}
	maps.Copy(r.Launched, j.Counts)
}

// repair inserts the commas that NCCL 2.28.7 to 2.28.9 forgot between members, and takes out those before a closing
// bracket.
func repair(data []byte) []byte {
	out := make([]byte, 0, len(data)+64)
	var last byte // Last byte that was no space, outside of strings.
	inString, escaped := false, false
	comma := -1 // Where the last comma was written, while nothing followed it.
	for _, b := range data {
		if inString {
			out = append(out, b)
			switch {
			case escaped:
				escaped = false
			case b == '\\':
				escaped = true
			case b == '"':
				inString, last = false, '"'
			}
			continue
		}
		switch b {
		case ' ', '\t', '\r', '\n':
			out = append(out, b)
			continue
		case '"':
			if endsValue(last) {
				out = append(out, ',')
			}
			inString = true
		case '}', ']':
			if comma >= 0 {
				out[comma] = ' '
			}
		}
		out = append(out, b)
		comma = -1
		if b == ',' {
			comma = len(out) - 1
		}
		last = b
	}
	return out
}

// endsValue says whether a value ends with this byte, so that a string cannot follow it without a comma.
func endsValue(b byte) bool {
	return b == '}' || b == ']' || b == '"' || b == 'e' || b == 'l' || (b >= '0' && b <= '9')
}
