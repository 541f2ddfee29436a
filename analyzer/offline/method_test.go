// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/analyzer/methods/record"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestMethodModel: --method=model prints what the model says beside the verdict, and with --explain the score of its best world.
func TestMethodModel(t *testing.T) {
	said := func(flags ...string) string {
		app, cfg := kingpin.New("culprit-analyzer", ""), &config{columns: map[string]string{}}
		cfg.register(app)
		if _, err := app.Parse(append([]string{"analyze", "--quiet", "--method=model", "../../examples/stalled-nic/nodes"}, flags...)); err != nil {
			t.Fatalf("parsing the command line: %v", err)
		}
		var stdout, stderr bytes.Buffer
		if code := cfg.run(t.Context(), strings.NewReader(""), &stdout, &stderr); code != ExitFound {
			t.Errorf("exit status %d, want %d: %s", code, ExitFound, stderr.String())
		}
		return stdout.String()
	}
	short, long := said(), said("--explain")
	if !strings.HasPrefix(short, "The model says fault. Rank 9 (") || !strings.HasSuffix(short, "The model decides nothing yet. Culprit's verdict on the same evidence is fault and names rank 9.\n") {
		t.Errorf("printed %q", short)
	}
	for _, want := range []string{"Fault 1", "worlds that cannot be told apart", "how rare such faults are", "in all", "Left unexplained: "} {
		if !strings.Contains(long, want) || strings.Contains(short, want) {
			t.Errorf("%q is not in the explanation alone:\n%s", want, long)
		}
	}
	var v rca.Verdict
	if err := json.Unmarshal([]byte(said("--json")), &v); err != nil {
		t.Fatalf("reading the JSON: %v", err)
	}
	if len(v.Culprits) != 1 || v.Culprits[0].Rank != 9 || v.Page {
		t.Errorf("JSON holds %+v", v)
	}
}

// TestMethod: --method prints what one paper's method says in place of the verdict, and the exit status is by its answer. On the stalled NIC of
// the examples Mycroft's flows show the fault, CCL-D and Pulse name the rank for an operation that it cannot begin for it, and Holmes has no
// word on hangs.
func TestMethod(t *testing.T) {
	for _, c := range []struct {
		method string
		code   int
		want   string
	}{
		{"mycroft", ExitFound, "Mycroft names rank 9: fault — CheckMinData on pp_1: not delivered"},
		{"ccl-d", ExitFound, "CCL-D names rank 9: not_entered — H1"},
		{"pulse", ExitFound, "Pulse names rank 9: not_entered"},
		{"holmes", ExitUnknown, "Holmes names nobody — no irregular iteration."},
	} {
		t.Run(c.method, func(t *testing.T) {
			said := func(flags ...string) string {
				app, cfg := kingpin.New("culprit-analyzer", ""), &config{columns: map[string]string{}}
				cfg.register(app)
				if _, err := app.Parse(append([]string{"analyze", "--quiet", "--method=" + c.method, "../../examples/stalled-nic/nodes"}, flags...)); err != nil {
					t.Fatalf("parsing the command line: %v", err)
				}
				var stdout, stderr bytes.Buffer
				if code := cfg.run(t.Context(), strings.NewReader(""), &stdout, &stderr); code != c.code {
					t.Errorf("exit status %d, want %d: %s", code, c.code, stderr.String())
				}
				return stdout.String()
			}
			text := said()
			if !strings.HasPrefix(text, c.want) || !strings.HasSuffix(text, "Culprit's verdict on the same evidence is fault and names rank 9.\n") {
				t.Errorf("printed %q", text)
			}
			var votes []record.Vote
			if err := json.Unmarshal([]byte(said("--json")), &votes); err != nil {
				t.Fatalf("reading the JSON: %v", err)
			}
			if c.code == ExitFound && (len(votes) != 1 || !slices.Contains(votes[0].Ranks, 9)) || c.code == ExitUnknown && len(votes[0].Ranks) > 0 {
				t.Errorf("JSON holds %+v", votes)
			}
		})
	}
}
