// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	results := []Result{
		{Case: Case{"2.24.3", Net, "link-stall"}, Build: "a", Judgement: Judgement{Status: Wrong, Why: "an older state"}},
		{Case: Case{"2.24.3", Net, "link-stall"}, Build: "b", Judgement: Judgement{Status: Right, PageSeconds: 5.25}},
		{Case: Case{"2.30.7", Net, "link-stall"}, Build: "b", Judgement: Judgement{Status: Wrong, Why: "paged for rank [1]"}, Evidence: "/e"},
		{Case: Case{"2.30.7", Net, "none"}, Build: "b", Judgement: Judgement{Status: Right}},
		{Case: Case{"2.30.7", Hooks, "gpu-slow"}, Build: "b", Judgement: Judgement{Status: Unknown}},
	}
	var text strings.Builder
	if !Report(&text, Latest(results, "b")) {
		t.Error("nothing is wrong")
	}
	const want = `
net: the plugin alone; every transfer over NET

| NCCL   | link-stall | none  |
|--------|------------|-------|
| 2.30.7 | WRONG      | quiet |
| 2.24.3 | 5.2 s      |       |

hooks: the preload hooks alone; NET

| NCCL   | gpu-slow |
|--------|----------|
| 2.30.7 | unnamed  |

4 cases: 2 right, 1 unnamed where the source cannot always tell, 1 wrong, 0 not to be run
longest time from fault to page: 5.2 s (net/2.24.3/link-stall)

WRONG net/2.30.7/link-stall (fault at rank 0): paged for rank [1]
  evidence: /e
`
	if text.String() != want {
		t.Errorf("%s\nwant %s", text.String(), want)
	}
	if len(Latest(results, "")) != 4 || Latest(results, "")[results[0].Case].Status != Right {
		t.Error("the last result of a case does not stand")
	}
	if Report(&text, Latest(results[3:], "")) {
		t.Error("something is wrong")
	}
}

// TestBuild: what decides how a case ends changes the hash, what does not leaves it.
func TestBuild(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := Build(root)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for _, room := range rooms {
		if room != "go.mod" {
			write(room+"/file.go", "x")
		}
	}
	write("go.mod", "x")
	before := hash()
	write("docs/x.md", "y")
	write("analyzer/x_test.go", "y")
	write("ncclshim/tests/x.c", "y")
	if hash() != before {
		t.Error("documents and tests change the hash")
	}
	write("ncclshim/step.c", "y")
	after := hash()
	if after == before {
		t.Error("a source does not change the hash")
	}
	write("ncclshim/step.c", "z")
	if hash() == after {
		t.Error("a source's content does not change the hash")
	}
}
