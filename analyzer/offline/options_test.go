// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/learn"
	"github.com/culprit-project/culprit/analyzer/methods/holmes"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

const (
	ownTopology   = "hosts:\n  - names: n[0-3]\n    nics: {0: mlx5_0, 3: mlx5_7}\n"
	slurmTopology = "# Leafs.\nSwitchName=leaf0 Nodes=n[0-3]\n"
)

// With a topology a verdict of files names the NIC, as the service's does.
func TestTopologyNamesTheNIC(t *testing.T) {
	dir := t.TempDir()
	dump := filepath.Join("ras", "testdata", "2.26-functions.txt") // Rank 3 is GPU 3 of n1.
	file, conf := put(t, dir, "topology.yaml", []byte(ownTopology)), put(t, dir, "topology.conf", []byte(slurmTopology))
	for want, args := range map[string][]string{"": nil, "mlx5_7": {"--topology", file, "--topology", conf}} {
		code, out, errs := run(t, "", append(args, "--json", dump)...)
		var d report.Document
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != ExitFound {
			t.Fatalf("exit code %d, %v: %s", code, err, errs)
		}
		if c := d.Verdict.Culprits; len(c) != 1 || c[0].Rank != 3 || c[0].NIC != want {
			t.Errorf("%v: %+v, want rank 3 with NIC %q", args, c, want)
		}
	}
}

func TestTopologyForms(t *testing.T) {
	for text, want := range map[string]string{
		slurmTopology:                           "slurm",
		"\n<system version=\"1\">\n</system>\n": "nccl",
		ownTopology:                             "own",
		"BlockName=b1 Nodes=a[1-4]\n":           "slurm",
	} {
		var f topology.Files
		form := topologyForm([]byte(text), &f)
		got := map[*string]string{&f.Slurm: "slurm", &f.NCCL: "nccl", &f.File: "own"}[form]
		if got != want {
			t.Errorf("%q is taken as %s, want %s", text, got, want)
		}
	}
}

func TestKnowledgeOfBadFiles(t *testing.T) {
	dir := t.TempDir()
	own, broken := put(t, dir, "a.yaml", []byte(ownTopology)), put(t, dir, "b.yaml", []byte("hosts: 3\n"))
	for name, args := range map[string][]string{
		"same form": {"--topology", own, "--topology", own},
		"syntax":    {"--topology", broken},
		"no file":   {"--topology", filepath.Join(dir, "no")},
		"no model":  {"--operator-model", filepath.Join(dir, "no")},
		"bad model": {"--operator-model", own},
	} {
		if code, _, errs := run(t, "", append(args, "-")...); code != ExitNoInput || !strings.HasPrefix(errs, "culprit-analyzer: ") {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}

// A trained model that is named is read.
func TestOperatorModel(t *testing.T) {
	var ops []holmes.Operator
	for i := range 200 {
		slow := i%20 == 19
		seconds := 1.0
		if slow {
			seconds = 3
		}
		ops = append(ops, holmes.Operator{
			Rank: i % 4, Communicator: "dp", Pattern: "AllReduce", Bytes: 1 << 20, Like: "one", Iteration: i / 4, Seconds: seconds, IterationSeconds: 4, Abnormal: slow,
		})
	}
	model, err := learn.Train(t.Context(), learn.Samples(ops), learn.Options{Seed: 1, Trees: 3})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := model.Write(&text); err != nil {
		t.Fatal(err)
	}
	c := &config{operators: put(t, t.TempDir(), "operators.json", text.Bytes())}
	opt, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	if opt.Operators == nil {
		t.Error("the model is not read")
	}
}
