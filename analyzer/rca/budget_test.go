// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The budget of the engine. A count that falls is written down here; none may rise.
const (
	mostLines   = 22_824 // Of analyzer/rca and the packages below it, without tests.
	mostRows    = 114    // Of the tables of the engine.
	mostNumbers = 293    // That decide.
)

// slack is the share of a budget that may be unused before the test asks for a lower one.
const slack = 0.02

// TestBudget holds the engine to its size: what is added has to make room for itself.
func TestBudget(t *testing.T) {
	var got struct{ lines, rows, numbers int }
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "rcatest/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			return err
		}
		got.lines += bytes.Count(text, []byte{'\n'})
		got.rows += rowsIn(file)
		got.numbers += numbersIn(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		what      string
		got, most int
	}{{"lines", got.lines, mostLines}, {"rows", got.rows, mostRows}, {"numbers that decide", got.numbers, mostNumbers}} {
		switch {
		case b.got > b.most:
			t.Errorf("%d %s, at most %d", b.got, b.what, b.most)
		case float64(b.got) < (1-slack)*float64(b.most):
			t.Errorf("%d %s: lower the budget from %d to it", b.got, b.what, b.most)
		}
	}
}

// tables are the variables that are tables, and the type of which each variable is a row.
var tables = []string{"hypotheses", "readings", "doubts", "silences"}

const rowType = "row"

// rowsIn counts the rows of the engine's tables: elements of the tables, and variables that are a row or the weaker form of one.
func rowsIn(file *ast.File) int {
	n := 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, value := range v.Values {
				switch value := value.(type) {
				case *ast.CompositeLit:
					if id, ok := value.Type.(*ast.Ident); ok && id.Name == rowType {
						n++
					} else if slices.Contains(tables, v.Names[i].Name) {
						n += len(value.Elts)
					}
				case *ast.CallExpr: // row.at(weight), row.perhaps(weight)
					if f, ok := value.Fun.(*ast.SelectorExpr); ok && file.Name.Name == "hang" && (f.Sel.Name == "at" || f.Sel.Name == "perhaps") {
						n++
					}
				}
			}
		}
	}
	return n
}

// neutral are numbers that decide nothing: nothing, one, both, the parts of units, and how text is written.
var neutral = []string{"0", "1", "2", "0.0", "1.0", "10", "16", "32", "64", "1e3", "1e6", "1e9", "1000", "1000000"}

// numbersIn counts the numbers that decide something: all literals, of constants or in the code, but for the neutral ones, places in
// lists, lengths of lists that are made, bit patterns and what is handed to a package that formats.
func numbersIn(file *ast.File) int {
	skipped := map[ast.Node]bool{}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IndexExpr:
			skipped[node.Index] = true
		case *ast.SliceExpr:
			skipped[node.Low], skipped[node.High] = true, true
		case *ast.ArrayType:
			skipped[node.Len] = true
		case *ast.CallExpr:
			if formats(node) {
				for _, a := range node.Args {
					skipped[a] = true
				}
			}
		case *ast.BinaryExpr:
			if node.Op == token.SHL || node.Op == token.SHR {
				skipped[node.Y] = true
			}
		case *ast.BasicLit:
			if (node.Kind == token.INT || node.Kind == token.FLOAT) && !skipped[node] && !slices.Contains(neutral, node.Value) {
				n++
			}
		}
		return true
	})
	return n
}

func formats(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "make"
	case *ast.SelectorExpr:
		id, ok := f.X.(*ast.Ident)
		return ok && slices.Contains([]string{"strconv", "fmt", "strings"}, id.Name)
	}
	return false
}
