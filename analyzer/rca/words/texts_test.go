// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// examples has an example of each argument of the texts.
var examples = map[string]any{
	"who": "rank 5 (node-1, GPU 1)", "Who": "Rank 5 (node-1, GPU 1)", "ranks": "ranks 3, 4", "Ranks": "Ranks 3, 4", "Rank": "Rank 5", "group operations": "AllReduce on dp_1", "others": "rank 7 (node-2, GPU 1)",
	"rank": 5, "other rank": 7, "pid": 4711, "count": "7 ranks", "Count": "7 ranks", "members": "8 members", "rest": "6 ranks", "processes": "2 processes", "n": 7, "of": 8, "number": "3,071", "total": "10,240",
	"peer": " to rank 7 (node-2, GPU 1)", "from": " rank 7 (node-2, GPU 1)", "op": "AllReduce #1204 on dp_1", "operation": "AllReduce #1204", "function": "AllReduce",
	"call": "ncclCommInitRank on a new communicator of 8 ranks", "comm": "dp_1", "channel": " on channel 3", "place": 1204, "field": "size",
	"age": " for 9 s", "length": "1.2 s", "waiting": "7 ranks have been waiting for it", "waiters": "7 ranks wait", "are": "are", "is": " is", "have": "have",
	"called": "Broadcast", "else": "AllReduce", "odd": fmt.Sprintf(CalledElsewhere, "Broadcast", 1204, "dp_1", "AllReduce"),
	"note": RunsOutside, "flaw": fmt.Sprintf(NoBuffers, "AllReduce #1204 on dp_1", ""), "back": ", from which 2 other members have returned",
	"finished": "3 members have finished", "source": "the kernel says ", "state": "stopped", "stands": "in torch.save at save_checkpoint (train.py:99)",
	"rest are": "the other 6 ranks are in all_reduce at step (train.py:120)", "site": "step (train.py:120)", "what": "exporter", "host": "node-1", "nic": "mlx5_0", "why": "no answer in time",
	"x": 1.58, "percent": 37.0, "limits": RecordsLost, "finding": fmt.Sprintf(Computes, 37.0), "seen": "2 iterations were", "group": "stage 3 (ranks 6, 7)",
	"gain": fmt.Sprintf(WithoutIt, 37.0), "computes": "computes for", "it": "it", "sends": "sends", "whose": "its", "how": "once", "cause": "gpu",
	"divided": "tensor parallelism: 8 of 2 ranks, data parallelism: 4 of 4 ranks", "parallelism": "tensor",
	"file": "read of /data/a on /data (nfs4 of nas1:/data)", "sysCall": "read", "path": "/data/a", "mount": "/data", "filesystem": "nfs4", "server": "nas1:/data",
	"operations": "2 operations", "rule": "each flow should complete", "component": "network", "ranksAre": "Ranks 3, 4 are", "ranksHave": "Ranks 3, 4 have", "kind": "fluctuation",
}

// texts gives the texts of this package, with examples for their arguments.
func texts(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "texts.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		fmt.Fprintf(&b, "# %s\n", d.Doc.Text())
		for _, s := range d.Specs {
			spec := s.(*ast.ValueSpec)
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if names := strings.TrimSpace(spec.Comment.Text()); names != "" {
				var args []any
				for name := range strings.SplitSeq(names, ", ") {
					if examples[name] == nil {
						t.Errorf("%s: no example of %q", spec.Names[0].Name, name)
					}
					args = append(args, examples[name])
				}
				text = fmt.Sprintf(text, args...)
			}
			if strings.Contains(text, "%!") {
				t.Errorf("%s: the comment does not name its arguments: %s", spec.Names[0].Name, text)
			}
			fmt.Fprintf(&b, "%s: %s\n", spec.Names[0].Name, text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The texts of verdicts are in testdata/texts.golden, which is reviewed as prose.
func TestTexts(t *testing.T) {
	got := texts(t)
	const golden = "testdata/texts.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal([]byte(got), want) {
		t.Errorf("texts differ from %s; read them as prose and run with -update:\n%s", golden, got)
	}
}

// No other package makes sentences of verdicts: the engine itself has names and short connectives only.
func TestTextsAreHere(t *testing.T) {
	const mostWords = 4
	for _, room := range []string{"engine", "hang", "slow"} {
		files, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(room, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if ok && lit.Kind == token.STRING && len(strings.Fields(lit.Value)) > mostWords {
					t.Errorf("%s: %s belongs into package words", set.Position(lit.Pos()), lit.Value)
				}
				return true
			})
		}
	}
}
