// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build pyspy

package stackdump

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const program = `
import sys, threading

def waits_here():
    print("ready", flush=True)
    sys.stdin.read()

def train():
    waits_here()

threading.Thread(target=threading.Event().wait, daemon=True, name="helper").start()
train()
`

// The real py-spy on a real Python process, in all its forms. PY_SPY and PYTHON name the programs.
func TestRealPySpy(t *testing.T) {
	spy, python := os.Getenv("PY_SPY"), os.Getenv("PYTHON")
	if spy == "" || python == "" {
		t.Fatal("PY_SPY and PYTHON name the programs: run this by the make target that installs them")
	}
	script := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	pid := func(args ...string) []string {
		return append(args, "--pid", strconv.Itoa(cmd.Process.Pid))
	}
	recorded := filepath.Join(t.TempDir(), "folded")
	for name, args := range map[string][]string{
		"dump":   pid("dump"),
		"json":   pid("dump", "--json"),
		"folded": pid("record", "--format", "raw", "--duration", "1", "--idle", "--output", recorded),
	} {
		out, err := exec.CommandContext(t.Context(), spy, args...).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "folded" {
			if out, err = os.ReadFile(recorded); err != nil {
				t.Fatal(err)
			}
		}
		if !Sniff(out) {
			t.Errorf("%s is not recognised:\n%s", name, bytes.TrimSpace(out))
		}
		ps, err := Parse(name, out)
		if err != nil || len(ps) != 1 {
			t.Errorf("%s: %d processes, %v\n%s", name, len(ps), err, out)
			continue
		}
		if name != "folded" && ps[0].PID != cmd.Process.Pid {
			t.Errorf("%s: pid %d, want %d", name, ps[0].PID, cmd.Process.Pid)
		}
		if stack := ps[0].Main(); len(stack) == 0 || !strings.HasPrefix(stack[len(stack)-1], "waits_here (train.py:") {
			t.Errorf("%s: main thread is in %q\n%s", name, stack, out)
		}
	}
}
