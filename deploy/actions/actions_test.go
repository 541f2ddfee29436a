// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package actions tests the receivers of actions.
package actions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// script gives a receiver as the configuration names it.
func script(t *testing.T, name string) action.Command {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return action.Command{path}
}

func request(hosts ...string) *action.Request {
	return &action.Request{
		Version: 1,
		Subject: action.Subject{
			Action: "drain", Incident: "abcdefghijkl", JobID: "train", Class: rca.Fault, Cause: rca.CauseGPU, Confidence: 0.97, Hosts: hosts,
		},
	}
}

// play puts a program on the PATH that writes down how it is called, and fails for the node "lost".
func play(t *testing.T, name, says string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	text := "#!/bin/sh\necho \"$*\" >> " + dir + "/calls\ncase \"$*\" in *lost*) echo no such node >&2; exit 1;; esac\n" + says + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// The calls of kubectl, which is played: every host is cordoned, also behind one that fails.
func TestKubernetes(t *testing.T) {
	calls := play(t, "kubectl", "")
	out, err := script(t, "cordon-kubernetes.sh").Do(t.Context(), request("lost", "GPU-17.example.org"))
	if err == nil || !strings.Contains(out, "lost: no such node") || !strings.Contains(out, "gpu-17.example.org: cordoned") {
		t.Errorf("%q, %v", out, err)
	}
	if got := calls(); !strings.Contains(got, "annotate node gpu-17.example.org --overwrite culprit-project.github.io/incident=abcdefghijkl") ||
		!strings.HasSuffix(got, "cordon gpu-17.example.org\n") {
		t.Errorf("calls:\n%s", got)
	}
	if out, err := script(t, "cordon-kubernetes.sh").Do(t.Context(), request("gpu-1")); err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// The calls of scontrol, which is played here; go run ./tools/ci run test-slurm has a real one.
func TestSlurmCalls(t *testing.T) {
	calls := play(t, "scontrol", `case "$*" in *show*busy*) echo "NodeName=busy State=IDLE+DRAIN Reason=fan";; *show*) echo "State=MIXED";; esac`)
	out, err := script(t, "drain-slurm.sh").Do(t.Context(), request("lost", "busy", "gpu-17.example.org"))
	if err == nil || out != "lost: no such node\nbusy: drained already\ngpu-17: draining\n" {
		t.Errorf("%q, %v", out, err)
	}
	if got := calls(); strings.Contains(got, "update NodeName=busy") || !strings.Contains(got, "update NodeName=gpu-17 State=DRAIN Reason=culprit abcdefghijkl: gpu, confidence 0.970") {
		t.Errorf("calls:\n%s", got)
	}
}
