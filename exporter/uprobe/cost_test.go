// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package uprobe

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkCall measures what a call takes without a probe, with one whose program returns at once, and with one that records. It
// needs root.
func BenchmarkCall(b *testing.B) {
	program := filepath.Join(b.TempDir(), "libnccl.so.caller")
	if out, err := exec.Command("cc", "-O2", "-g", "-rdynamic", "-o", program, "testdata/caller.c").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	l, err := openLibrary(program)
	if err != nil {
		b.Fatal(err)
	}
	if l.comm == nil {
		b.Fatal("the layout of a communicator is not known")
	}
	for _, probed := range []string{"nothing", "empty", "record"} {
		b.Run(probed, func(b *testing.B) {
			caller := exec.Command(program)
			in, err := caller.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := caller.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := caller.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { in.Close(); _ = caller.Wait() }()
			answers := bufio.NewReader(out)
			if probed != "nothing" {
				p, err := loadProbes()
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = p.close() }()
				a, err := p.attach(caller.Process.Pid, l)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = a.close() }()
				if probed == "empty" {
					if err := a.processes.Delete(a.pid); err != nil {
						b.Fatal(err)
					}
				}
				defer drain(b, p)()
			}
			fmt.Fprintln(in, b.N)
			line, err := answers.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			ns, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(ns, "ns/call")
		})
	}
}

// drain reads records as the follower does, until the returned function is called.
func drain(b *testing.B, p *probes) (stop func()) {
	b.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				_ = p.read(func(*head, *enter) {})
			}
		}
	}()
	return func() { close(done); <-ended }
}
