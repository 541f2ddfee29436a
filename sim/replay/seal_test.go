// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const module = "github.com/culprit-project/culprit/"

// Nothing of the analyzer, nor anything that it is built from, knows the simulator: what it cannot import it cannot ask.
func TestAnalyzerDoesNotKnowTheSimulator(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-f", "{{.ImportPath}} {{.ForTest}}", module+"analyzer/...").Output()
	if err != nil {
		t.Fatalf("listing what the analyzer is built from: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(path, module+"analyzer/") {
			seen++
		}
		if strings.HasPrefix(path, module+"sim/") {
			t.Errorf("the analyzer depends on %s", path)
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages of the analyzer were looked at", seen)
	}
}

// No type that carries evidence, from the node to the engine, holds anything of the simulator or of an answer.
func TestEvidenceHoldsNoAnswer(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(typ reflect.Type, at string)
	walk = func(typ reflect.Type, at string) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		if strings.HasPrefix(typ.PkgPath(), module+"sim/") {
			t.Errorf("%s is a %s of the simulator", at, typ)
		}
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(typ.Elem(), at)
		case reflect.Map:
			walk(typ.Key(), at)
			walk(typ.Elem(), at)
		case reflect.Struct:
			for f := range typ.Fields() {
				if !f.IsExported() && strings.HasSuffix(typ.PkgPath(), "/trace") {
					continue // The reader's own: documents are JSON, which has exported fields only.
				}
				walk(f.Type, at+"."+f.Name)
			}
		case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			t.Errorf("%s is a %s: anything could be behind it", at, typ)
		}
	}
	walk(reflect.TypeFor[rca.Evidence](), "Evidence")
	walk(reflect.TypeFor[nodeapi.State](), "State")
	walk(reflect.TypeFor[nodeapi.TraceLine](), "TraceLine")
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
