// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package kineto reads Chrome traces with NCCL kernels, as PyTorch's profiler (Kineto) writes them: one file a rank.
// Kernels are operations; what other kernels do between them is computation. Operations of ranks are matched by their
// sequence number or, without one, by their place in each step.
package kineto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotTrace is given for JSON that is no Chrome trace, ErrNoKernels for a trace without NCCL kernels.
var (
	ErrNotTrace  = errors.New("not a Chrome trace")
	ErrNoKernels = errors.New("the trace has no NCCL kernels: profile with CUDA activities")
)

// Trace is one rank's trace.
type Trace struct {
	File  string
	Rank  int // -1 unknown.
	World int // 0 unknown.
	Host  string
	Ops   []Op   // By start.
	Busy  []Span // Computation: spans in which other kernels ran, by start, not overlapping.
	Steps []Step // By start.
	// CutOff: the file ends before the trace does.
	CutOff bool
	// groups are the members that the trace's header gives, by the group's name.
	groups map[string][]int
}

// Op is an NCCL kernel.
type Op struct {
	Span
	Func      string
	Group     string // Process group's name; empty unknown.
	GroupDesc string
	Ranks     []int // Members' global ranks; empty unknown.
	GroupSize int
	Seq       int64 // -1 unknown.
	Bytes     int64
	Src, Dst  int // Send/recv; -1.
	Stream    int64
	cut       string // Members as far as they are written, where the list is cut off.
}

// Span is a piece of time, ns.
type Span struct{ Start, End int64 }

// Step is a profiler step.
type Step struct {
	Span
	Number int
}

// Sniff recognises a Chrome trace.
func Sniff(data []byte) bool {
	head := data[:min(len(data), 256<<10)]
	if bytes.Contains(head, []byte(`"traceEvents"`)) {
		return true
	}
	// What the profiler says of the job comes before the events, and may be long.
	if bytes.Contains(head, []byte(`"schemaVersion"`)) && (bytes.Contains(head, []byte(`"deviceProperties"`)) || bytes.Contains(head, []byte(`"distributedInfo"`))) {
		return true
	}
	trimmed := bytes.TrimSpace(head)
	return len(trimmed) > 0 && trimmed[0] == '[' && bytes.Contains(head, []byte(`"ph"`)) && bytes.Contains(head, []byte(`"ts"`))
}

// Event is one event of a Chrome trace.
type Event struct {
	Name     string          `json:"name"`
	Phase    string          `json:"ph"`
	Category string          `json:"cat"`
	Process  any             `json:"pid"`
	Thread   any             `json:"tid"`
	TS       json.Number     `json:"ts"`
	Duration json.Number     `json:"dur"`
	Args     json.RawMessage `json:"args"`
}

// Events hands over the events of a Chrome trace one after another, and the decoder at each member that stands beside them. An error
// says that the file ends before the trace does, unless it is ErrNotTrace.
func Events(data []byte, each func(*Event) error, member func(name string, dec *json.Decoder) error) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	first, err := dec.Token()
	switch {
	case err == nil && first == json.Delim('['):
		return list(dec, each)
	case err != nil || first != json.Delim('{'):
		return ErrNotTrace
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if name, _ := key.(string); name != "traceEvents" {
			if err := member(name, dec); err != nil {
				return err
			}
			continue
		}
		if start, err := dec.Token(); err != nil || start != json.Delim('[') {
			return ErrNotTrace
		}
		if err := list(dec, each); err != nil {
			return err
		}
	}
	return nil
}

func list(dec *json.Decoder, each func(*Event) error) error {
	for dec.More() {
		var e Event
		if err := dec.Decode(&e); err != nil {
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				continue // Somebody's own event.
			}
			return err
		}
		if err := each(&e); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// Skip passes over a member.
func Skip(_ string, dec *json.Decoder) error {
	var skip json.RawMessage
	return dec.Decode(&skip)
}

type arguments struct {
	Stream    any `json:"stream"`
	Name      any `json:"Collective name"`
	GroupName any `json:"Process Group Name"`
	GroupDesc any `json:"Process Group Description"`
	Ranks     any `json:"Process Group Ranks"`
	Size      any `json:"Group size"`
	In        any `json:"In msg nelems"`
	Type      any `json:"dtype"`
	Seq       any `json:"Seq"`
	Src       any `json:"Src Rank"`
	Dst       any `json:"Dst Rank"`
}

type distributedInfo struct {
	Rank   *int `json:"rank"`
	World  int  `json:"world_size"`
	Groups any  `json:"pg_config"` // Several forms, depending on the version.
}

const (
	maxEvents = 256 << 20
	maxWorld  = 1 << 18
	// joinGap: computation kernels closer than this are one span.
	joinGap = 20_000
)

// Parse reads a trace. rank is used where the trace names none, -1 unknown. What was read before a cut counts.
func Parse(file string, data []byte, rank int) (*Trace, error) {
	t := &Trace{File: file, Rank: rank}
	p := parser{trace: t}
	t.CutOff = Events(data, p.take, p.member) != nil
	if !p.any {
		return nil, ErrNotTrace
	}
	p.finish()
	if len(t.Ops) == 0 {
		return nil, ErrNoKernels
	}
	return t, nil
}

type parser struct {
	trace *Trace
	any   bool
	count int
}

// member takes what the profiler says of the job.
func (p *parser) member(name string, dec *json.Decoder) error {
	switch name {
	case "distributedInfo":
		var d distributedInfo
		if err := dec.Decode(&d); err != nil {
			return err
		}
		if d.Rank != nil && *d.Rank >= 0 && *d.Rank < maxWorld {
			p.trace.Rank = *d.Rank
		}
		if d.World > 0 && d.World <= maxWorld {
			p.trace.World = d.World
		}
		p.groups(d.Groups)
		return nil
	case "hostName", "hostname":
		return dec.Decode(&p.trace.Host)
	}
	return Skip(name, dec)
}

// groups takes the members of the process groups from a list of their descriptions.
func (p *parser) groups(v any) {
	list, _ := v.([]any)
	for _, item := range list {
		g, _ := item.(map[string]any)
		members := numbers(g["ranks"])
		if name := text(g["pg_name"]); name != "" && len(members) > 0 {
			if p.trace.groups == nil {
				p.trace.groups = map[string][]int{}
			}
			p.trace.groups[name] = members
		}
	}
}

// numbers gives the ranks in a list, or in its text.
func numbers(v any) []int {
	var out []int
	for f := range strings.FieldsFuncSeq(text(v), func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil && n < maxWorld && len(out) < maxWorld {
			out = append(out, n)
		}
	}
	return out
}

func (p *parser) take(e *Event) error {
	if p.count++; p.count > maxEvents {
		return fmt.Errorf("more than %d events", maxEvents)
	}
	p.any = p.any || e.Phase != ""
	p.event(e)
	return nil
}

var stepName = regexp.MustCompile(`^ProfilerStep#(\d+)$`)

func (p *parser) event(e *Event) {
	if e.Phase != "X" {
		return
	}
	start, ok1 := nanoseconds(e.TS)
	duration, ok2 := nanoseconds(e.Duration)
	if !ok1 || !ok2 || duration < 0 {
		return
	}
	span := Span{start, start + duration}
	if m := stepName.FindStringSubmatch(e.Name); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && e.Category != "gpu_user_annotation" {
			p.trace.Steps = append(p.trace.Steps, Step{span, n})
		}
		return
	}
	switch category := strings.ToLower(e.Category); {
	case strings.HasPrefix(strings.ToLower(e.Name), "nccl") && strings.Contains(strings.ToLower(e.Name), "kernel"),
		strings.HasPrefix(e.Name, "ncclDev"):
		p.trace.Ops = append(p.trace.Ops, operation(span, e))
	case category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset":
		p.trace.Busy = append(p.trace.Busy, span)
	}
}

// kernelFunc finds the operation in a kernel's name: ncclDevKernel_AllReduce_Sum_f32_RING_LL(…).
var kernelFunc = regexp.MustCompile(`(?i)(AllReduce|AllGather|ReduceScatter|Broadcast|AllToAll|SendRecv|Reduce|Gather|Scatter|Send|Recv)`)

func operation(span Span, e *Event) Op {
	op := Op{Span: span, Seq: -1, Bytes: -1, Src: -1, Dst: -1, Func: "kernel"}
	if m := kernelFunc.FindString(e.Name); m != "" {
		op.Func = m
	}
	var a arguments
	if len(e.Args) == 0 || json.Unmarshal(e.Args, &a) != nil {
		return op
	}
	if name := text(a.Name); name != "" {
		op.Func = name
	}
	op.Group, op.GroupDesc = text(a.GroupName), text(a.GroupDesc)
	op.Stream = number(a.Stream, -1)
	op.Seq = number(a.Seq, -1)
	op.Src, op.Dst = int(number(a.Src, -1)), int(number(a.Dst, -1))
	if n := number(a.Size, 0); n > 0 && n <= maxWorld {
		op.GroupSize = int(n)
	}
	op.Ranks = numbers(a.Ranks)
	// Long lists are written with an ellipsis.
	if op.GroupSize > 0 && len(op.Ranks) != op.GroupSize {
		op.Ranks, op.cut = nil, text(a.Ranks)
	}
	if n := number(a.In, -1); n >= 0 && n < math.MaxInt64/16 {
		op.Bytes = n * datatypeBytes[strings.ToLower(text(a.Type))]
	}
	return op
}

var datatypeBytes = map[string]int64{
	"byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "half": 2, "bfloat16": 2, "float": 4, "double": 8,
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		return fmt.Sprint(v)
	}
	return ""
}

func number(v any, otherwise int64) int64 {
	switch v := v.(type) {
	case float64:
		if math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return otherwise
}

// nanoseconds converts microseconds, with fractions, without losing any in a float.
func nanoseconds(n json.Number) (int64, bool) {
	whole, fraction, _ := strings.Cut(string(n), ".")
	us, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || us > math.MaxInt64/2000 || us < -math.MaxInt64/2000 {
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil || math.Abs(f) > math.MaxInt64/2000 {
			return 0, false
		}
		return int64(f * 1e3), true
	}
	fraction = (fraction + "000")[:3]
	ns, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return 0, false
	}
	if strings.HasPrefix(whole, "-") {
		ns = -ns
	}
	return us*1000 + ns, true
}

// finish sorts, and joins computation into spans.
func (p *parser) finish() {
	t := p.trace
	slices.SortStableFunc(t.Ops, func(a, b Op) int { return compare(a.Span, b.Span) })
	slices.SortFunc(t.Busy, compare)
	slices.SortFunc(t.Steps, func(a, b Step) int { return compare(a.Span, b.Span) })
	joined := t.Busy[:0]
	for _, s := range t.Busy {
		if n := len(joined); n > 0 && s.Start <= joined[n-1].End+joinGap {
			joined[n-1].End = max(joined[n-1].End, s.End)
			continue
		}
		joined = append(joined, s)
	}
	t.Busy = slices.Clip(joined)
}

func compare(a, b Span) int {
	switch {
	case a.Start != b.Start:
		if a.Start < b.Start {
			return -1
		}
		return 1
	case a.End < b.End:
		return -1
	case a.End > b.End:
		return 1
	}
	return 0
}
