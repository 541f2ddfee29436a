// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// kept is a record that the exporter's history keeps, as a list of numbers in the order of the header.
type kept struct {
	name string
	skip []string // Members that are kept beside the list, or not at all; a name that ends in _ stands for all that begin so.
	list bool     // Written so often that it has an array of its own, filled without a walk.
	at   []string // Members whose places in that array package history names.
}

var history = []kept{
	{name: "direction"},
	{name: "completion", list: true},
	{name: "op", skip: []string{"version", "in_use", "datatype", "reserved"}},
	{name: "flow", skip: []string{"version", "in_use", "reserved0", "total_"}, list: true, at: []string{"op_index", "op_generation", "peer_polls"}},
}

// truths are members that package trace has as bool.
var truths = []string{"is_send"}

func (k *kept) fields(r record) []field {
	return slices.DeleteFunc(slices.Clone(r.fields), func(f field) bool {
		return slices.ContainsFunc(k.skip, func(s string) bool { return f.name == s || strings.HasSuffix(s, "_") && strings.HasPrefix(f.name, s) })
	})
}

// codec moves kept records to and from lists of numbers, for package history.
func codec(records []record) ([]byte, error) {
	byName := map[string]record{}
	for _, r := range records {
		byName[r.name] = r
	}
	lists := map[string]kept{}
	for _, k := range history {
		lists[k.name] = k
	}
	var b bytes.Buffer
	b.WriteString(licence + "\n// Code generated from ncclshim/culprit_trace.h by go generate. DO NOT EDIT.\n\npackage history\n\n" +
		"import \"github.com/culprit-project/culprit/trace\"\n")
	for _, k := range history {
		k.walk(&b, byName)
		if k.list {
			k.array(&b, byName, lists)
		}
	}
	return format.Source(b.Bytes())
}

// walk writes the method that moves a record's members both ways.
func (k *kept) walk(b *bytes.Buffer, records map[string]record) {
	fmt.Fprintf(b, "\nfunc (w *words) %s(r *trace.%s) {\n", k.name, goName(k.name))
	for _, f := range k.fields(records[k.name]) {
		name := goName(f.name)
		switch {
		case f.of != "":
			fmt.Fprintf(b, "\tw.%s(&r.%s)\n", f.of, name)
		case f.length != "":
			fmt.Fprintf(b, "\tfor i := range r.%s {\n\t\tnum(w, &r.%s[i])\n\t}\n", name, name)
		case slices.Contains(truths, f.name):
			fmt.Fprintf(b, "\tboolean(w, &r.%s)\n", name)
		default:
			fmt.Fprintf(b, "\tnum(w, &r.%s)\n", name)
		}
	}
	b.WriteString("}\n")
}

// array writes the array of a record's numbers and the method that fills it.
func (k *kept) array(b *bytes.Buffer, records map[string]record, lists map[string]kept) {
	list := k.name + "List"
	fmt.Fprintf(b, "\n// %s is what words.%s writes, in the same order.\ntype %s [%sFields]uint64\n", list, k.name, list, k.name)
	var values []string
	places := map[string]int{}
	k.values("r", records, lists, &values, places)
	b.WriteString("\nconst (\n")
	fmt.Fprintf(b, "\t%sFields = %d\n", k.name, len(values))
	for _, name := range k.at {
		fmt.Fprintf(b, "\t%s%s = %d\n", k.name, goName(name), places[name])
	}
	fmt.Fprintf(b, ")\n\nfunc (l *%s) set(r *trace.%s) {\n\t*l = %s{\n\t\t%s,\n\t}\n}\n", list, goName(k.name), list, strings.Join(values, ",\n\t\t"))
}

// values lists a record's numbers as Go has them, and the places of its own members.
func (k *kept) values(of string, records map[string]record, lists map[string]kept, values *[]string, places map[string]int) {
	for _, f := range k.fields(records[k.name]) {
		places[f.name] = len(*values)
		at := of + "." + goName(f.name)
		switch {
		case f.of != "":
			inner := lists[f.of]
			inner.values(at, records, lists, values, map[string]int{})
		case f.length != "":
			for i := range f.count {
				*values = append(*values, f.number(fmt.Sprintf("%s[%d]", at, i)))
			}
		default:
			*values = append(*values, f.number(at))
		}
	}
}

// number is a member's value as 64 bits.
func (f *field) number(at string) string {
	switch {
	case slices.Contains(truths, f.name):
		return "one(" + at + ")"
	case f.typ.golang == "int32":
		return "uint64(int64(" + at + "))"
	default:
		return "uint64(" + at + ")"
	}
}
