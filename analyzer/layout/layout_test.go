// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func members(from, stride, size int) []int {
	out := make([]int, size)
	for i := range out {
		out[i] = from + i*stride
	}
	return out
}

// show writes a layout as "tp8/1 dp4/8", a question mark after what no name says.
func show(l *Layout) string {
	if l == nil {
		return ""
	}
	var out []string
	for _, a := range l.Axes {
		s := fmt.Sprintf("%s%d/%d", a.Kind, a.Size, a.Stride)
		if !a.Named {
			s += "?"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestInfer(t *testing.T) {
	for name, c := range map[string]struct {
		world  int
		groups []Group
		want   string
	}{
		"three axes":              {64, []Group{{"tp_0", members(0, 1, 4)}, {"dp_3", members(3, 4, 4)}, {"pp_1", members(1, 16, 4)}}, "tp4/1 dp4/4 pp4/16"},
		"Megatron's names":        {16, []Group{{"TENSOR_MODEL_PARALLEL_GROUP", members(4, 1, 4)}, {"PIPELINE_MODEL_PARALLEL_GROUP", members(0, 8, 2)}, {"DATA_PARALLEL_GROUP", members(0, 4, 2)}}, "tp4/1 dp2/4 pp2/8"},
		"context":                 {16, []Group{{"tp", members(0, 1, 2)}, {"cp", members(0, 2, 2)}, {"mesh_dp", members(0, 4, 4)}}, "tp2/1 cp2/2 dp4/4"},
		"experts lie across":      {16, []Group{{"tp", members(0, 1, 2)}, {"dp", members(0, 2, 8)}, {"ep", members(0, 2, 4)}}, "tp2/1 dp8/2 ep4/2"},
		"replicas not seen":       {64, []Group{{"tp_0", members(0, 1, 8)}, {"pp_1", members(1, 32, 2)}}, "tp8/1 dp4/8? pp2/32"},
		"replicas outermost":      {64, []Group{{"tp_0", members(0, 1, 8)}, {"pp_1", members(1, 8, 2)}}, "tp8/1 pp2/8 dp4/16?"},
		"one name":                {32, []Group{{"dp", members(0, 1, 32)}}, "dp32/1"},
		"shape of one":            {32, []Group{{"", members(0, 1, 32)}}, "dp32/1?"},
		"shape of two":            {32, []Group{{"", members(8, 1, 8)}, {"x", members(0, 8, 4)}, {"world", members(0, 1, 32)}}, "tp8/1? dp4/8?"},
		"shape of three":          {64, []Group{{"", members(0, 1, 4)}, {"", members(0, 4, 4)}, {"", members(0, 16, 4)}}, "tp4/1? dp4/4? pp4/16?"},
		"too wide for a host":     {64, []Group{{"", members(0, 1, 16)}, {"", members(0, 16, 4)}}, ""},
		"four shapes":             {64, []Group{{"", members(0, 1, 2)}, {"", members(0, 2, 2)}, {"", members(0, 4, 4)}, {"", members(0, 16, 4)}}, ""},
		"two shapes of one name":  {16, []Group{{"dp", members(0, 1, 4)}, {"dp", members(0, 2, 8)}}, ""},
		"irregular":               {16, []Group{{"tp", []int{0, 1, 3, 4}}}, ""},
		"begins amid":             {16, []Group{{"tp", members(2, 1, 4)}}, ""},
		"does not divide the job": {18, []Group{{"tp", members(0, 1, 4)}}, ""},
		"overlap":                 {16, []Group{{"tp", members(0, 1, 4)}, {"dp", members(0, 2, 8)}}, ""},
		"unknown member":          {4, []Group{{"tp", []int{0, -1, 2, 3}}}, ""},
		"in another order":        {4, []Group{{"tp", []int{3, 2, 1, 0}}}, ""},
		"no groups":               {8, nil, ""},
		"one rank":                {1, []Group{{"dp", []int{0}}}, ""},
		"no world":                {0, []Group{{"dp", members(0, 1, 8)}}, ""},
	} {
		if got := show(Infer(c.world, c.groups)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Each rank has a place of its own.
func TestPlaces(t *testing.T) {
	l := Infer(64, []Group{{"tp_0", members(0, 1, 4)}, {"dp_3", members(3, 4, 4)}, {"pp_1", members(1, 16, 4)}})
	var seen []string
	for rank := range 64 {
		s := ""
		for _, a := range l.Axes {
			s += fmt.Sprint(a.Place(rank), " ")
		}
		if slices.Contains(seen, s) {
			t.Fatalf("rank %d shares its place %s", rank, s)
		}
		seen = append(seen, s)
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{
		"tp_0": Tensor, "dp0": Data, "FSDP": Data, "expert-dp": "", "EXPERT_MODEL_PARALLEL_GROUP": Expert, "default_pg": "", "": "", "mp": "", "tip": "",
		"CONTEXT_PARALLEL_GROUP": Context, "DATA_PARALLEL_GROUP_WITH_CP": "",
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestKindOfCommunicator(t *testing.T) {
	guessed := &Layout{World: 32, Axes: []Axis{{Kind: Tensor, Size: 8, Stride: 1}, {Kind: Data, Size: 2, Stride: 8}, {Kind: Pipeline, Size: 2, Stride: 16}}}
	named := &Layout{World: 16, Axes: []Axis{{Kind: Tensor, Size: 8, Stride: 1, Named: true}, {Kind: Data, Size: 2, Stride: 8, Named: true}}}
	for _, tt := range []struct {
		l    *Layout
		name string
		size int
		want Kind
	}{
		{named, "tp_0", 8, Tensor},
		{named, "mesh_fsdp", 4, Data},
		{nil, "ep", 4, Expert},
		{nil, "", 4, ""},
		{named, "", 8, ""}, // Its tensor-parallel communicators have names, and this one has none.
		{guessed, "", 8, Tensor},
		{guessed, "", 2, ""}, // Two axes are as long.
		{guessed, "", 32, ""},
	} {
		if got := tt.l.KindOf(tt.name, tt.size); got != tt.want {
			t.Errorf("%q of %d ranks: %q, want %q", tt.name, tt.size, got, tt.want)
		}
	}
}
