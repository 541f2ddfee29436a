// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/layout"
	"github.com/culprit-project/culprit/analyzer/rca"
)

type schema struct {
	object
	Defs map[string]object `json:"$defs"`
}

type object struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Enum       []string                   `json:"enum"`
}

func readSchema(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile("verdict.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema has the fields that the program writes, all of them and no others.
func TestSchemaMatchesTypes(t *testing.T) {
	s := readSchema(t)
	for name, v := range map[string]any{
		"": incident.Incident{}, "trigger": incident.Trigger{}, "analysis": incident.Analysis{}, "rank_view": incident.RankView{},
		"stack_group": incident.StackGroup{}, "verdict": rca.Verdict{}, "culprit": rca.Culprit{}, "link": rca.Link{}, "wait_group": rca.WaitGroup{},
		"candidate": rca.Candidate{}, "hypothesis": rca.Hypothesis{}, "repair": rca.Repair{}, "what_if": rca.WhatIf{},
		"feedback": incident.Feedback{}, "said": incident.Said{},
		"layout": layout.Layout{}, "axis": layout.Axis{}, "flow": incident.FlowView{}, "flow_end": incident.FlowEnd{}, "queue_pair": incident.QueuePair{},
		"round": incident.Round{}, "spell": incident.Spell{},
	} {
		def := s.object
		if name != "" {
			def = s.Defs[name]
		}
		var fields, required []string
		for f := range reflect.TypeOf(v).Fields() {
			field, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if field == "-" {
				continue
			}
			fields = append(fields, field)
			if option != "omitempty" {
				required = append(required, field)
			}
		}
		slices.Sort(fields)
		slices.Sort(required)
		slices.Sort(def.Required)
		if got := slices.Sorted(maps.Keys(def.Properties)); !slices.Equal(got, fields) {
			t.Errorf("%q: schema has %v, type has %v", name, got, fields)
		}
		if !slices.Equal(def.Required, required) {
			t.Errorf("%q: schema requires %v, type always writes %v", name, def.Required, required)
		}
	}
}

// Every class and cause of the engine is in the schema and explained.
func TestSchemaMatchesConstants(t *testing.T) {
	s := readSchema(t)
	file, err := parser.ParseFile(token.NewFileSet(), "../rca/verdict.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/verdict.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		typ, ok := spec.Type.(*ast.Ident)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[typ.Name] = append(found[typ.Name], value)
		}
		return true
	})
	for typ, def := range map[string]string{"Class": "class", "Cause": "cause"} {
		want, got := found[typ], s.Defs[def].Enum
		slices.Sort(want)
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("schema has %v, the engine %v", got, want)
		}
		for _, value := range want {
			if !strings.Contains(string(doc), "`"+value+"`") {
				t.Errorf("docs/verdict.md does not explain %s %s", def, value)
			}
		}
	}
}

// The example in the documentation is a verdict.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/verdict.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```json\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/verdict.md has no example")
	}
	dec := json.NewDecoder(strings.NewReader(example))
	dec.DisallowUnknownFields()
	var v rca.Verdict
	if err := dec.Decode(&v); err != nil || v.Version != rca.VerdictVersion || len(v.Culprits) != 1 {
		t.Errorf("example is %+v, %v", v, err)
	}
}
