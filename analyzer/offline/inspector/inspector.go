// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package inspector reads what NCCL's Inspector plugin, and RCCL's, write: JSON records of finished operations (formats v4.0 to v5),
// and Prometheus text with averages. Inspector never sees an operation that hangs.
package inspector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrNotLog is given for what Inspector did not write.
var ErrNotLog = errors.New("not an Inspector log")

// Log is what one file holds.
type Log struct {
	File    string
	Records []Record
	// Averages: the records are averages over a window (Prometheus text), not single operations.
	Averages bool
	CutOff   bool
	Skipped  int // Records that could not be read.
}

// Record is one finished operation of one process.
type Record struct {
	Comm       string // Communicator's hash, or its name where that is all there is.
	CommName   string
	Rank       int // In the communicator; -1 unknown.
	Size       int
	Host       string
	PID        int
	GPU        string
	Func       string
	Seq        int64 // -1 unknown.
	Peer       int   // Send/recv: rank in the communicator, else -1.
	Bytes      int64
	Took       time.Duration
	Start, End int64 // Unix ns of the kernel, or of the calls; 0 unknown.
	DumpedAt   int64 // Unix ns.
	// Slowest and fastest channel's kernel time, with the slowest channel; 0 and -1 unknown.
	SlowestChannel    int
	SlowestNS, FastNS int64
	Channels          int
}

type jsonRecord struct {
	Header struct {
		ID       string `json:"id"`
		CommName string `json:"comm_name"`
		Rank     *int   `json:"rank"`
		Size     int    `json:"n_ranks"`
	} `json:"header"`
	Metadata struct {
		DumpedUS int64  `json:"dump_timestamp_us"`
		Host     string `json:"hostname"`
		PID      int    `json:"pid"`
	} `json:"metadata"`
	Coll *jsonColl `json:"coll_perf"`
	P2P  *jsonP2P  `json:"p2p_perf"`
}

type jsonColl struct {
	Func   string    `json:"coll"`
	Seq    int64     `json:"coll_sn"`
	Bytes  int64     `json:"coll_msg_size_bytes"`
	TookUS float64   `json:"coll_exec_time_us"`
	Trace  jsonTrace `json:"event_trace_ts"`
}

type jsonP2P struct {
	Func   string    `json:"p2p"`
	Seq    int64     `json:"p2p_sn"`
	Peer   *int      `json:"p2p_peer"`
	Bytes  int64     `json:"p2p_msg_size_bytes"`
	TookUS float64   `json:"p2p_exec_time_us"`
	Trace  jsonTrace `json:"event_trace_ts"`
}

type jsonTrace struct {
	CollStart int64 `json:"coll_start_ts"`
	P2PStart  int64 `json:"p2p_start_ts"`
	Kernels   []struct {
		Channel int   `json:"channel_id"`
		Start   int64 `json:"kernel_start_ts"`
		Stop    int64 `json:"kernel_stop_ts"`
	} `json:"kernel_events"`
}

// maxSize bounds what a record may claim of a communicator.
const maxSize = 1 << 18

// SniffJSON recognises a JSON log.
func SniffJSON(data []byte) bool {
	head := data[:min(len(data), 4096)]
	return bytes.Contains(head, []byte(`"header"`)) &&
		(bytes.Contains(head, []byte(`"coll_perf"`)) || bytes.Contains(head, []byte(`"p2p_perf"`)) || bytes.Contains(head, []byte(`"inspector_output_format_version"`)))
}

// ParseJSON reads records one after another, or a list of them. A log that ends in the middle of one gives those before.
func ParseJSON(file string, data []byte) (*Log, error) {
	l := &Log{File: file}
	data = bytes.TrimLeft(data, " \t\r\n\ufeff")
	dec := json.NewDecoder(bytes.NewReader(data))
	list := bytes.HasPrefix(data, []byte("["))
	if list {
		_, _ = dec.Token() // The bracket that was seen.
	}
	for {
		if list && !dec.More() {
			break
		}
		var j jsonRecord
		err := dec.Decode(&j)
		if errors.Is(err, io.EOF) {
			break
		}
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			l.Skipped++
			continue
		}
		if err != nil {
			if len(l.Records) == 0 {
				return nil, fmt.Errorf("decoding: %w", err)
			}
			l.CutOff = true
			break
		}
		if r, ok := j.record(); ok {
			l.Records = append(l.Records, r)
		}
	}
	if len(l.Records) == 0 {
		return nil, ErrNotLog
	}
	return l, nil
}

func (j *jsonRecord) record() (Record, bool) {
	r := Record{
		Comm: strings.TrimLeft(strings.ToLower(strings.TrimPrefix(j.Header.ID, "0x")), "0"), CommName: j.Header.CommName,
		Rank: -1, Size: j.Header.Size, Host: j.Metadata.Host, PID: j.Metadata.PID, Peer: -1, Seq: -1, SlowestChannel: -1,
		DumpedAt: microseconds(j.Metadata.DumpedUS),
	}
	if j.Header.Rank != nil {
		r.Rank = *j.Header.Rank
	}
	var trace *jsonTrace
	switch {
	case j.Coll != nil:
		r.Func, r.Seq, r.Bytes, r.Took, trace = j.Coll.Func, j.Coll.Seq, j.Coll.Bytes, took(j.Coll.TookUS), &j.Coll.Trace
	case j.P2P != nil:
		r.Func, r.Seq, r.Bytes, r.Took, trace = j.P2P.Func, j.P2P.Seq, j.P2P.Bytes, took(j.P2P.TookUS), &j.P2P.Trace
		if j.P2P.Peer != nil {
			r.Peer = *j.P2P.Peer
		}
	default:
		return r, false
	}
	if r.Rank < 0 || r.Size <= r.Rank || r.Size > maxSize || r.Func == "" || r.Took < 0 || r.Seq < 0 {
		return r, false
	}
	r.times(trace)
	return r, true
}

// times takes start and end from the kernels, and the slowest channel.
func (r *Record) times(t *jsonTrace) {
	for _, k := range t.Kernels {
		start, stop := microseconds(k.Start), microseconds(k.Stop)
		if start <= 0 || stop < start {
			continue
		}
		if r.Start == 0 || start < r.Start {
			r.Start = start
		}
		r.End = max(r.End, stop)
		r.Channels++
		d := stop - start
		if d > r.SlowestNS {
			r.SlowestNS, r.SlowestChannel = d, k.Channel
		}
		if r.FastNS == 0 || d < r.FastNS {
			r.FastNS = d
		}
	}
	if r.Start == 0 {
		if at := microseconds(max(t.CollStart, t.P2PStart)); at > 0 {
			r.Start, r.End = at, at+int64(r.Took)
		}
	}
}

func microseconds(us int64) int64 {
	if us < 0 || us > math.MaxInt64/1000 {
		return 0
	}
	return us * 1000
}

func took(us float64) time.Duration {
	if us < 0 || us > math.MaxInt64/2000 {
		return -1
	}
	return time.Duration(us * float64(time.Microsecond))
}

// Metrics of the Prometheus form.
const (
	collectiveTime = "nccl_collective_exec_time_microseconds{"
	p2pTime        = "nccl_p2p_exec_time_microseconds{"
)

// SniffText recognises the Prometheus form.
func SniffText(data []byte) bool {
	return bytes.Contains(data, []byte(collectiveTime)) || bytes.Contains(data, []byte(p2pTime))
}

// ParseText reads the Prometheus form: one record a series, numbered by nothing.
func ParseText(file string, data []byte) (*Log, error) {
	l := &Log{File: file, Averages: true}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, collectiveTime)
		operation := "collective"
		if !ok {
			if rest, ok = strings.CutPrefix(line, p2pTime); !ok {
				continue
			}
			operation = "p2p_operation"
		}
		labels, value, ok := series(rest)
		if !ok {
			continue
		}
		size, _ := strconv.Atoi(labels["nranks"])
		r := Record{
			Comm: labels["comm_name"] + "/" + labels["nranks"], CommName: labels["comm_name"], Rank: -1, Size: size,
			Host: labels["node"], GPU: strings.TrimPrefix(labels["gpu"], "GPU"), Func: labels[operation], Seq: -1, Peer: -1,
			Bytes: -1, SlowestChannel: -1, Took: time.Duration(value * 1e3),
		}
		r.Func += prefixed(" ", labels["message_size"]) + prefixed(" ", labels["algo_proto"])
		if r.Host != "" && labels[operation] != "" && size > 0 && size <= maxSize {
			l.Records = append(l.Records, r)
		}
	}
	if len(l.Records) == 0 {
		return nil, ErrNotLog
	}
	return l, nil
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

// series takes labels and value of a sample apart, after its opening brace.
func series(s string) (map[string]string, float64, bool) {
	labels := map[string]string{}
	for {
		name, rest, ok := strings.Cut(s, `="`)
		if !ok {
			return nil, 0, false
		}
		var value strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '"'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			value.WriteByte(rest[i])
		}
		if i >= len(rest) {
			return nil, 0, false
		}
		labels[strings.TrimSpace(name)] = value.String()
		s = strings.TrimSpace(rest[i+1:])
		if next, ok := strings.CutPrefix(s, ","); ok && !strings.HasPrefix(strings.TrimSpace(next), "}") {
			s = next
			continue
		}
		s = strings.TrimSpace(strings.TrimPrefix(s, ","))
		rest, ok = strings.CutPrefix(s, "}")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			return nil, 0, false
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		return labels, v, err == nil && v >= 0 && v < 1e15
	}
}
