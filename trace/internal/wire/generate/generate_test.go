// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"
)

// TestGenerated holds the generated files to the header.
func TestGenerated(t *testing.T) {
	files, err := generated("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the header says: run go generate ./trace/...", name)
		}
	}
}

// TestMadeUpField adds a field to the header: the structs that follow from it build, and the table has its row.
func TestMadeUpField(t *testing.T) {
	header, err := os.ReadFile("../" + root + "/ncclshim/culprit_trace.h")
	if err != nil {
		t.Fatal(err)
	}
	const last = "  uint64_t active_ns;        // Time with a send outstanding.\n};"
	text := strings.Replace(string(header), last, strings.TrimSuffix(last, "};")+"  uint64_t made_up_gpu_ns[3];  // A made-up field.\n};", 1)
	records, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	code, err := goFile(records)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "records.go", code, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants, err := parser.ParseFile(set, "wire.go", "package wire\nconst (MaxSections = 16; NumFunc = 16)", 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("wire", set, []*ast.File{file, constants}, nil)
	if err != nil {
		t.Fatal(err)
	}
	qp := pkg.Scope().Lookup("QP").Type().Underlying().(*types.Struct)
	if f := qp.Field(qp.NumFields() - 1); f.Name() != "MadeUpGPUNS" || f.Type().String() != "[3]uint64" {
		t.Errorf("the field is %s %s", f.Name(), f.Type())
	}
	if row := "| `made_up_gpu_ns` | 192 | 24 | u64[3] | A made-up field. |\n"; !strings.Contains(string(table(records)), row) {
		t.Errorf("the table has no row %q", row)
	}
}

// TestParseRefuses: what the generator does not understand is an error, not a field less.
func TestParseRefuses(t *testing.T) {
	for _, member := range []string{"  uint32_t bits : 3;", "  float ratio;", "  uint32_t a[CULPRIT_UNKNOWN];", "  uint32_t a;\n  uint64_t b;"} {
		if got, err := parse("struct culprit_x {\n" + member + "\n};\n"); err == nil {
			t.Errorf("%q is taken as %+v", member, got)
		}
	}
}
