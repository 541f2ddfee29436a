// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// The glossary explains every class and cause of the engine, and no other.
func TestGlossary(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../verdict.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ, _ := spec.Type.(*ast.Ident)
		lit, _ := spec.Values[0].(*ast.BasicLit)
		if typ == nil || lit == nil {
			return true
		}
		value, _ := strconv.Unquote(lit.Value)
		switch typ.Name {
		case "Class":
			found["Class"]++
			if text := Class(rca.Class(value)); !strings.HasSuffix(text, ".") {
				t.Errorf("class %s: %q", value, text)
			}
		case "Cause":
			found["Cause"]++
			if text := Cause(rca.Cause(value)); !strings.HasSuffix(text, ".") {
				t.Errorf("cause %s: %q", value, text)
			}
		}
		return true
	})
	if found["Class"] != len(Classes()) || found["Cause"] != len(Causes()) {
		t.Errorf("the engine has %v; %d classes and %d causes are explained", found, len(Classes()), len(Causes()))
	}
}
