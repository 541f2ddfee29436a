// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package layout infers how a job divides its ranks among pipeline stages, data-parallel replicas and tensor-parallel places, from
// the communicators that it made. Few of them are enough: a layout is regular, and one that is not is none that this package tells of.
package layout

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Kind is what the ranks of an axis share or divide.
type Kind string

// Kinds of parallelism.
const (
	Tensor   Kind = "tp"
	Context  Kind = "cp"
	Expert   Kind = "ep"
	Data     Kind = "dp"
	Pipeline Kind = "pp"
)

// Long is a kind's name in words.
func (k Kind) Long() string {
	switch k {
	case Tensor:
		return "tensor parallel"
	case Context:
		return "context parallel"
	case Expert:
		return "expert parallel"
	case Data:
		return "data parallel"
	case Pipeline:
		return "pipeline parallel"
	}
	return string(k)
}

// Group is a communicator: its members are global ranks in the order of their ranks in it, -1 where unknown.
type Group struct {
	Name    string
	Members []int
}

// Axis is one way in which ranks are divided: the place of a rank along it is rank / Stride modulo Size.
type Axis struct {
	Kind   Kind `json:"kind"`
	Size   int  `json:"size"`
	Stride int  `json:"stride"`
	Named  bool `json:"named"` // The communicators' names say so; else their shape does.
}

// Place gives a rank's place along the axis.
func (a Axis) Place(rank int) int { return rank / a.Stride % a.Size }

// Layout is how a job divides its ranks. Axes are in the order of their strides. Those but expert parallelism, which lies across
// others, divide the whole job.
type Layout struct {
	World int    `json:"world"`
	Axes  []Axis `json:"axes"`
}

// Axis gives the axis of a kind.
func (l *Layout) Axis(k Kind) (Axis, bool) {
	i := slices.IndexFunc(l.Axes, func(a Axis) bool { return a.Kind == k })
	if i < 0 {
		return Axis{}, false
	}
	return l.Axes[i], true
}

// KindOf gives what a communicator of so many ranks is for: by its name, or where neither it nor those of its size say, as the only axis
// of that size; empty: nobody knows. A nil layout knows names only.
func (l *Layout) KindOf(name string, size int) Kind {
	if k := kindOf(name); k != "" || l == nil {
		return k
	}
	kind := Kind("")
	for _, a := range l.Axes {
		if a.Size != size {
			continue
		}
		if a.Named || kind != "" {
			return ""
		}
		kind = a.Kind
	}
	return kind
}

// Infer gives the layout of a job of so many ranks, and nil where its communicators do not tell.
func Infer(world int, groups []Group) *Layout {
	if world < 2 {
		return nil
	}
	named := map[Kind]map[Axis]bool{}
	shapes := map[Axis]bool{}
	for i := range groups {
		g := &groups[i]
		if len(g.Members) < 2 || slices.Contains(g.Members, -1) {
			continue
		}
		shape, ok := shapeOf(g.Members, world)
		kind := kindOf(g.Name)
		if kind == "" {
			if ok {
				shapes[shape] = true
			}
			continue
		}
		if named[kind] == nil {
			named[kind] = map[Axis]bool{}
		}
		if !ok {
			shape = Axis{} // Irregular: the kind has no axis.
		}
		named[kind][shape] = true
	}
	l := &Layout{World: world}
	for kind, found := range named {
		shape, ok := single(found)
		if !ok {
			continue // Communicators of one name and different shapes.
		}
		shape.Kind, shape.Named = kind, true
		l.Axes = append(l.Axes, shape)
	}
	if len(l.Axes) == 0 {
		l.Axes = guess(shapes, world)
	}
	slices.SortFunc(l.Axes, func(a, b Axis) int { return cmp.Or(cmp.Compare(a.Stride, b.Stride), cmp.Compare(a.Kind, b.Kind)) })
	if !l.divides() {
		return nil
	}
	return l
}

func single(found map[Axis]bool) (Axis, bool) {
	if len(found) != 1 {
		return Axis{}, false
	}
	for a := range found {
		return a, a.Size > 1
	}
	return Axis{}, false
}

// divides reports whether the axes give each rank a place of its own: each begins where the one before it ends, and the last one
// ends with the job. What is missing between two named axes is data parallelism whose communicators were not seen.
func (l *Layout) divides() bool {
	if len(l.Axes) == 0 {
		return false
	}
	next := 1
	var missing *Axis
	for _, a := range l.Axes {
		if a.Kind == Expert {
			continue
		}
		if a.Stride != next {
			if a.Stride < next || a.Stride%next != 0 || missing != nil {
				return false
			}
			missing = &Axis{Size: a.Stride / next, Stride: next}
		}
		next = a.Stride * a.Size
	}
	if next != l.World {
		if next > l.World || l.World%next != 0 || missing != nil {
			return false
		}
		missing = &Axis{Size: l.World / next, Stride: next}
	}
	if missing == nil {
		return true
	}
	if _, has := l.Axis(Data); has {
		return false
	}
	missing.Kind = Data
	l.Axes = append(l.Axes, *missing)
	slices.SortFunc(l.Axes, func(a, b Axis) int { return cmp.Or(cmp.Compare(a.Stride, b.Stride), cmp.Compare(a.Kind, b.Kind)) })
	return true
}

// shapeOf gives the size and stride of a group of at least two, where its members lie at equal distances, and in a place where a group of that shape begins.
func shapeOf(members []int, world int) (Axis, bool) {
	n := len(members)
	stride := members[1] - members[0]
	if stride < 1 {
		return Axis{}, false
	}
	for i := 1; i < n; i++ {
		if members[i]-members[i-1] != stride {
			return Axis{}, false
		}
	}
	a := Axis{Size: n, Stride: stride}
	return a, a.Place(members[0]) == 0 && stride*n <= world && world%(stride*n) == 0
}

// mostTensor is the largest group that the shape alone makes tensor-parallel: what shares a host.
const mostTensor = 8

// guess makes axes of shapes without names. Communicators of the whole job say nothing beside others.
func guess(shapes map[Axis]bool, world int) []Axis {
	var out []Axis
	for a := range shapes {
		if a.Size < world || len(shapes) == 1 {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b Axis) int { return cmp.Compare(a.Stride, b.Stride) })
	kinds := map[int][]Kind{1: {Data}, 2: {Tensor, Data}, 3: {Tensor, Data, Pipeline}}[len(out)]
	if kinds == nil || len(out) > 1 && (out[0].Stride != 1 || out[0].Size > mostTensor) {
		return nil
	}
	for i := range out {
		out[i].Kind = kinds[i]
	}
	return out
}

// words are parts of the names that frameworks give communicators, such as "tp_0", "mesh_dp" or "TENSOR_MODEL_PARALLEL_GROUP". "mp" is
// left out: with some it is tensor, with others the product of tensor and pipeline.
var words = map[string]Kind{
	"tp": Tensor, "tensor": Tensor, "cp": Context, "context": Context, "sp": Context, "sequence": Context, "ep": Expert, "expert": Expert, "moe": Expert,
	"dp": Data, "data": Data, "fsdp": Data, "ddp": Data, "replicate": Data, "pp": Pipeline, "pipeline": Pipeline, "pipe": Pipeline,
}

// kindOf gives what a communicator is for by its name; empty: the name does not say, or says several things.
func kindOf(name string) Kind {
	kind := Kind("")
	for _, w := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
		k := words[w]
		if k == "" {
			continue
		}
		if kind != "" && kind != k {
			return ""
		}
		kind = k
	}
	return kind
}
