// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		code, says string
		kind       grammar.Kind
	}{
		{"-9", "was ended by signal 9 (SIGKILL)", grammar.Killed},
		{"137", "was ended by signal 9 (SIGKILL)", grammar.Killed}, // As shells and containers write it.
		{"-11", "was ended by signal 11 (SIGSEGV)", grammar.Crashed},
		{"-6", "was ended by signal 6 (SIGABRT)", grammar.Aborted},
		{"143", "was ended by signal 15 (SIGTERM)", grammar.Terminated},
		{"1", "ended with exit code 1", grammar.Exited},
		{"0", "ended with exit code 0", grammar.Warning},
		{"200", "ended with exit code 200", grammar.Exited}, // No signal has that number.
	} {
		if kind, says := End(grammar.ProcessEnd, c.code); kind != c.kind || says != c.says {
			t.Errorf("%s: %s, %q", c.code, kind, says)
		}
	}
}

func TestSignalCode(t *testing.T) {
	for name, want := range map[string]string{"SIGKILL": "-9", "Killed": "-9", "Bus error": "-7", "SIGTERM": "-15", "unheard of": ""} {
		if got := SignalCode(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestMagic(t *testing.T) {
	for hex, want := range map[string]string{
		"74656d2f20544547": `"GET /met"`,  // A scrape of metrics, its bytes in the order of the machine.
		"1b2c3d4e5f607182": "another job", // NCCL's own magic, of another run.
		"none":             "",
	} {
		if got := Magic(hex); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", hex, got)
		}
	}
}

func TestBarrier(t *testing.T) {
	if kind, _ := Barrier(4, 2); kind != grammar.Leftovers {
		t.Errorf("more than the job has: %s", kind)
	}
	if kind, says := Barrier(15, 16); kind != grammar.ClientsMissing || !strings.Contains(says, "15 of 16") {
		t.Errorf("fewer: %s, %q", kind, says)
	}
}

func TestLauncherSignalled(t *testing.T) {
	for signal, want := range map[string]string{"1": "terminal", "SIGHUP": "terminal", "2": "Ctrl-C", "15": "scheduler", "10": "signal 10"} {
		if got := LauncherSignalled(signal); !strings.Contains(got, want) {
			t.Errorf("%s: %q", signal, got)
		}
	}
}
