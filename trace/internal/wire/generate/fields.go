// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// record is a struct of the trace file.
type record struct {
	name   string // As in the header, without the prefix culprit_.
	about  []string
	fields []field
	bytes  int
}

// field is a member of a record.
type field struct {
	name    string
	typ     kind
	of      string // The record's name where typ is one.
	length  string // Of an array, as the header has it; empty: no array.
	meaning string
	count   int // Elements: 1 without an array.
	offset  int
	bytes   int
}

// kind is a type of the header.
type kind struct {
	c, golang, short string
	bytes            int
}

var kinds = []kind{
	{"uint8_t", "uint8", "u8", 1},
	{"uint16_t", "uint16", "u16", 2},
	{"uint32_t", "uint32", "u32", 4},
	{"uint64_t", "uint64", "u64", 8},
	{"int32_t", "int32", "i32", 4},
	{"char", "byte", "char", 1},
}

// lengths are what the header calls an array's length, and what package wire calls it.
var lengths = map[string]string{"CULPRIT_MAX_SECTIONS": "MaxSections", "CULPRIT_FUNC_COUNT": "NumFunc"}

var (
	opens   = regexp.MustCompile(`^struct culprit_(\w+) \{$`)
	member  = regexp.MustCompile(`^  (?:struct culprit_)?(\w+) (\w+)(?:\[(\w+)\])?;(?:\s*// (.*))?$`)
	number  = regexp.MustCompile(`(?m)^(?:#define |  )(CULPRIT_\w+)(?: =)? (\d+)\b`)
	comment = regexp.MustCompile(`^(?:  )?// ?(.*)$`)
)

// parse reads the records of the header, which is written in one style: a member a line, its meaning behind it.
func parse(header string) ([]record, error) {
	numbers := map[string]int{}
	for _, m := range number.FindAllStringSubmatch(header, -1) {
		numbers[m[1]], _ = strconv.Atoi(m[2])
	}
	var records []record
	var about []string
	var inside *record
	for i, line := range strings.Split(header, "\n") {
		said := comment.FindStringSubmatch(line)
		switch {
		case inside == nil && opens.MatchString(line):
			inside = &record{name: opens.FindStringSubmatch(line)[1], about: about}
		case inside == nil && said != nil:
			about = append(about, said[1])
		case inside == nil:
			about = nil
		case line == "};":
			records = append(records, *inside)
			inside, about = nil, nil
		case line == "" || said != nil:
		default:
			f, err := inside.member(line, records, numbers)
			if err != nil {
				return nil, fmt.Errorf("line %d of struct culprit_%s: %w", i+1, inside.name, err)
			}
			inside.fields = append(inside.fields, f)
			inside.bytes = f.offset + f.bytes
		}
	}
	return records, nil
}

// member reads one, which lies behind those before it without a hole.
func (r *record) member(line string, before []record, numbers map[string]int) (field, error) {
	m := member.FindStringSubmatch(line)
	if m == nil {
		return field{}, fmt.Errorf("%q is no member", line)
	}
	f := field{name: m[2], length: m[3], meaning: m[4], count: 1, offset: r.bytes}
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.c == m[1] }); i >= 0 {
		f.typ = kinds[i]
	}
	for _, b := range before {
		if b.name == m[1] {
			f.of, f.typ = b.name, kind{golang: goName(b.name), short: b.name, bytes: b.bytes}
		}
	}
	if f.typ.bytes == 0 {
		return field{}, fmt.Errorf("type %s is not known", m[1])
	}
	if f.length != "" {
		n, err := strconv.Atoi(f.length)
		if err != nil {
			n = numbers[f.length]
		}
		if f.count = n; n == 0 {
			return field{}, fmt.Errorf("the length %s is not known", f.length)
		}
	}
	f.bytes = f.count * f.typ.bytes
	if align := min(f.typ.bytes, 8); f.of == "" && f.offset%align != 0 {
		return field{}, fmt.Errorf("%s would leave a hole at %d", f.name, f.offset)
	}
	return f, nil
}

// initialisms are words that Go writes in capitals.
var initialisms = strings.Fields("abi gid gpu id lid ns pci pid qp tid uid uuid")

// goName is what Go calls a name of the header.
func goName(c string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(c, "_") {
		switch {
		case word == "qps":
			b.WriteString("QPs")
		case word == "nranks" || word == "nnodes":
			b.WriteString("N" + strings.ToUpper(word[1:2]) + word[2:])
		default:
			if slices.Contains(initialisms, word) {
				word = strings.ToUpper(word)
			}
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

const licence = "// Copyright 2026 The Culprit Authors\n// SPDX-License-Identifier: Apache-2.0\n"

// goFile declares the records in Go.
func goFile(records []record) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(licence + "\n// Code generated from ncclshim/culprit_trace.h by go generate. DO NOT EDIT.\n\npackage wire\n")
	for _, r := range records {
		fmt.Fprintf(&b, "\n// %s is struct culprit_%s.\ntype %s struct {\n", goName(r.name), r.name, goName(r.name))
		for _, f := range r.fields {
			typ := f.typ.golang
			if f.length != "" {
				length, ok := lengths[f.length]
				if !ok {
					length = f.length
				}
				typ = "[" + length + "]" + typ
			}
			fmt.Fprintf(&b, "\t%s %s `c:\"%s\"`\n", goName(f.name), typ, f.name)
		}
		b.WriteString("}\n")
	}
	return format.Source(b.Bytes())
}

const tableHead = `# Fields of the trace file

<!-- Generated from culprit_trace.h by go generate ./trace/...; change the header instead. -->

[docs/trace-format.md](../docs/trace-format.md) explains what the records mean. Offsets and sizes are in bytes.
`

// table lists the records for people.
func table(records []record) []byte {
	var b bytes.Buffer
	b.WriteString(tableHead)
	for _, r := range records {
		fmt.Fprintf(&b, "\n## %s: %d bytes\n", r.name, r.bytes)
		if len(r.about) > 0 {
			b.WriteString("\n" + strings.Join(r.about, "\n") + "\n")
		}
		b.WriteString("\n| field | offset | bytes | type | meaning |\n|---|---|---|---|---|\n")
		for _, f := range r.fields {
			typ := f.typ.short
			if f.length != "" {
				typ += fmt.Sprintf("[%d]", f.count)
			}
			fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", f.name, f.offset, f.bytes, typ, strings.ReplaceAll(f.meaning, "|", "\\|"))
		}
	}
	return b.Bytes()
}
