// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// entry converts one recorded operation; false when it lacks what identifies one (cut off, or something else).
func entry(o fields) (Entry, bool) {
	if o == nil {
		return Entry{}, false
	}
	e := Entry{
		GroupID:       number(o.get("pg_id"), -1),
		RecordID:      number(o.get("record_id"), -1),
		CollectiveSeq: number(o.get("collective_seq_id"), -1),
		P2PSeq:        number(o.get("p2p_seq_id"), -1),
		OpID:          number(o.get("op_id"), -1),
		State:         EntryState(text(o.get("state"))),
		CreatedNS:     number(o.get("time_created_ns"), 0),
		StartedNS:     number(o.get("time_discovered_started_ns"), 0),
		CompletedNS:   number(o.get("time_discovered_completed_ns"), 0),
		TimeoutMS:     number(o.get("timeout_ms"), 0),
		Input:         shape(o.get("input_sizes"), o.get("input_dtypes")),
		Output:        shape(o.get("output_sizes"), o.get("output_dtypes")),
		Stack:         stack(o.get("frames")),
		Src:           -1, Dst: -1,
	}
	e.Retired, _ = o.get("retired").(bool)
	e.P2P, _ = o.get("is_p2p").(bool)
	if d, ok := real(o.get("duration_ms")); ok && d > 0 && d < math.MaxInt64/1e6 {
		e.DurationNS = int64(d * 1e6)
	}
	if g, ok := list(o.get("process_group")); ok {
		if len(g) > 0 {
			e.Group = text(g[0])
		}
		if len(g) > 1 {
			e.Desc = text(g[1])
		}
	} else {
		e.Group = firstText(o.get("process_group"), o.get("pg_name"))
	}
	if e.CollectiveSeq < 0 {
		e.CollectiveSeq = number(o.get("seq_id"), -1) // Before format 2.0.
	}
	profiling := text(o.get("profiling_name"))
	if profiling == "" || (e.State != Scheduled && e.State != Started && e.State != Completed) {
		return Entry{}, false
	}
	e.name(profiling)
	e.undoAbort()
	return e, true
}

// name takes a profiling name apart: "nccl:recv 0<-8", "gloo:all_reduce", "nccl:all_reduce_barrier".
func (e *Entry) name(s string) {
	if backend, rest, ok := strings.Cut(s, ":"); ok {
		s, e.Backend = rest, backend
		e.Host = !deviceEvents[backend]
		// Backends without device events never report a state: for them retired is completed. With events an operation
		// that was retired without having completed has timed out.
		if e.Retired && !deviceEvents[backend] {
			e.State, e.Assumed = Completed, true
		}
	}
	kind, ends, _ := strings.Cut(strings.TrimSpace(s), " ")
	kind = strings.ToLower(kind)
	if a, b, ok := strings.Cut(ends, "->"); ok {
		e.Src, e.Dst = place(a), place(b)
	} else if b, a, ok := strings.Cut(ends, "<-"); ok {
		e.Src, e.Dst = place(a), place(b)
	}
	e.Barrier = strings.Contains(kind, "barrier")
	e.Name = Canonical(kind)
	e.P2P = e.P2P || e.Name == "send" || e.Name == "recv"
}

// undoAbort takes back a completion that the watchdog brought about: aborting the communicator ends the kernels of what
// has timed out, and a dump written after that shows them completed.
func (e *Entry) undoAbort() {
	const perMS = 1_000_000
	if e.State != Completed || e.Retired || e.TimeoutMS <= 0 || e.CreatedNS <= 0 || e.CompletedNS <= 0 {
		return
	}
	if (e.CompletedNS-e.CreatedNS)/perMS >= e.TimeoutMS {
		e.State = Scheduled
		if e.StartedNS > 0 && e.StartedNS < e.CompletedNS {
			e.State = Started
		}
	}
}

// deviceEvents are the backends whose recorder asks the device how far operations are.
var deviceEvents = map[string]bool{"nccl": true, "ncclx": true, "rccl": true, "xccl": true, "hccl": true, "mccl": true}

func place(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Canonical maps the spellings that PyTorch has for one operation, in any case, onto one name, so that only real
// differences differ.
func Canonical(kind string) string {
	kind = strings.Trim(strings.ToLower(kind), "_")
	switch kind {
	case "all_gather", "all_gather_base", "allgather", "allgather_base", "allgather_into_tensor_coalesced",
		"all_gather_into_tensor_coalesced", "all_gather_into_tensor", "allgather_coalesced", "all_gather_single":
		return "all_gather"
	case "reduce_scatter", "reduce_scatter_base", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced", "reduce_scatter_single":
		return "reduce_scatter"
	case "all_reduce", "allreduce", "all_reduce_sparse", "allreduce_coalesced", "all_reduce_coalesced":
		return "all_reduce"
	case "all_to_all", "alltoall", "alltoall_base", "all_to_all_single", "all_to_all_base", "all_to_all_v_single":
		return "all_to_all"
	case "gather_single":
		return "gather"
	case "all_reduce_barrier", "barrier", "monitored_barrier":
		return "barrier"
	}
	return kind
}

func shape(sizes, types any) Shape {
	s := Shape{Elements: -1, Even: true}
	tensors, ok := list(sizes)
	if ok {
		s.Tensors = len(tensors)
		s.Elements = 0
	}
	var one int64
	for i, t := range tensors {
		dims, _ := list(t)
		n := int64(1)
		for _, d := range dims {
			v := number(d, 0)
			if v < 0 || (v > 0 && n > math.MaxInt64/v) {
				n = 0
				break
			}
			n *= v
		}
		if i > 0 && n != one {
			s.Even = false
		}
		one = n
		if s.Elements > math.MaxInt64-n {
			s.Elements = -1
			return s
		}
		s.Elements += n
	}
	names, isList := list(types)
	if !isList {
		s.Datatype = text(types)
	} else if len(names) > 0 {
		s.Datatype = text(names[0])
	}
	return s
}

// stack gives frames innermost last. The dump has them innermost first.
func stack(v any) []string {
	frames, _ := list(v)
	if len(frames) > maxStack {
		frames = frames[:maxStack]
	}
	out := make([]string, 0, len(frames))
	for _, f := range slices.Backward(frames) {
		if o := object(f); o != nil {
			out = append(out, fmt.Sprintf("%s (%s:%d)", text(o.get("name")), text(o.get("filename")), number(o.get("line"), 0)))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Size gives what is comparable between the ranks of a collective: the elements that every member must agree on; -1
// where members may differ (all-to-all, uneven gathers) or it is unknown. The datatype likewise, empty if unknown.
func (e *Entry) Size(groupSize int) (elements int64, datatype string) {
	in, out := e.Input, e.Output
	datatype = in.Datatype
	if datatype == "" {
		datatype = out.Datatype
	}
	switch e.Name {
	case "all_reduce", "barrier", "reduce", "broadcast", "gather", "send":
		elements = in.Elements
		if in.Tensors == 0 {
			elements = out.Elements
		}
	case "recv", "scatter":
		elements = out.Elements
		if out.Tensors == 0 {
			elements = in.Elements
		}
	case "all_gather":
		// One even input on all ranks, or a list that may be uneven.
		elements = in.Elements
		if !out.Even || (groupSize > 0 && out.Elements != in.Elements*int64(groupSize)) {
			elements = -1
		}
	case "reduce_scatter":
		elements = out.Elements
		if !in.Even || (groupSize > 0 && in.Elements != out.Elements*int64(groupSize)) {
			elements = -1
		}
	default:
		elements = -1
	}
	return elements, datatype
}

var datatypeBytes = map[string]int64{
	"Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Int": 4, "Long": 8, "Half": 2, "BFloat16": 2, "Float": 4, "Double": 8,
	"ComplexFloat": 8, "ComplexDouble": 16, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
	"UInt16": 2, "UInt32": 4, "UInt64": 8,
}
