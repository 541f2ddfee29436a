// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tables are the files that hold weights and thresholds.
var tables = []string{"flaws.go", "weights.go", "thresholds.go"}

// noThresholds are fractions that decide nothing.
var noThresholds = map[string]string{
	"../slow/numbers.go 1.4826": "a normal distribution's spread over its median distance",
}

// TestFractionsAreInTheTables: every threshold and weight of hangs, slowness and the packages beside them stands in a table, with
// its reason.
func TestFractionsAreInTheTables(t *testing.T) {
	var files []string
	for _, room := range []string{"engine", "hang", "slow"} {
		found, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", room, len(found), err)
		}
		files = append(files, found...)
	}
	fs := token.NewFileSet()
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || slices.Contains(tables, name) {
			continue
		}
		f, err := parser.ParseFile(fs, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		rounding := map[*ast.BasicLit]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if l, ok := n.Y.(*ast.BasicLit); ok && l.Value == "0.5" && (n.Op == token.ADD || n.Op == token.SUB) {
					rounding[l] = true // Rounds to the nearest, or compares between two whole numbers.
				}
			case *ast.BasicLit:
				decides := n.Kind == token.FLOAT && strings.Contains(n.Value, ".") && n.Value != "0.0" && n.Value != "1.0" && !rounding[n]
				if decides && noThresholds[path+" "+n.Value] == "" {
					t.Errorf("%s: %s stands in no table", fs.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
	}
}
