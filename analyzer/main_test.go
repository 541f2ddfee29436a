// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/offline"
)

// patience is how long anything may take before a test gives up on it.
const patience = 4 * time.Minute

// asAnalyzer in the environment of the test's own program makes it the analyzer, so that no test links one.
const asAnalyzer = "CULPRIT_TEST_AS_ANALYZER"

// asOwner in its environment takes the right to read everything from it, which root has.
const asOwner = "CULPRIT_TEST_AS_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(asOwner) != "" && os.Geteuid() == 0 {
		onlyOwner()
	}
	if os.Getenv(asAnalyzer) != "" {
		main()
	}
	os.Exit(m.Run())
}

// onlyOwner begins the program again without the right to read everything. What it cannot drop fails the test.
func onlyOwner() {
	runtime.LockOSThread()
	err := errors.Join(
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_OVERRIDE, 0, 0, 0),
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_READ_SEARCH, 0, 0, 0),
		os.Unsetenv(asOwner),
	)
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "beginning again as the owner of files:", err)
	os.Exit(1)
}

// analyzer is a call of the program.
func analyzer(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), asAnalyzer+"=1", "GOGC=") // As it is run, whatever the tests are run with.
	return cmd
}

// TestWrongCalls runs the program as people call it wrongly. It exits with an answer that says what to do.
func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"password.yml": "basic_auth_users: {alice: secret}\n", "runbook.yml": "runbook_url: 'http://x/{{ .Couse }}'\n",
		"query.yml": "prometheus: {queries: {up: 'sum(culprit_nccl_process_up{ {{- .Selector -}} }'}}\n",
		"node.yml":  "prometheus: {node_evidence: [{query: 'DCGM_FI_DEV_XID_ERRORS{', component: gpu, kind: xid, host_label: Hostname}]}\n",
		"line.yml":  "analysis:\n  confirm_after: 1s\n\n  workers: many\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"serve --prometheus.url=http://localhost:9090", "no Alertmanager is configured, so verdicts would page nobody: set --alertmanager.url"},
		{"serve --alertmanager.url=http://localhost:9093 --web.config.file=password.yml", "a password of basic_auth_users is no bcrypt hash: write what htpasswd -nB USER prints"},
		{"serve --config.check --config.file=runbook.yml", "runbook_url, a template over .Class and .Cause: "},
		{"serve --config.check --config.file=query.yml", "prometheus.queries.up: "},
		{"serve --config.check --config.file=node.yml", "prometheus.node_evidence[0]: query: "},
		{"serve --config.check --config.file=line.yml", "configuration line.yml: line 4: cannot read `many` as a whole number"},
		{"serve --config.check --web.external-command=x", "external_command: set external_url"},
		{"inject", "the API server only calls webhooks over TLS: set --web.config.file"},
		{"inject --web.config.file=x --shim.dir=shim", "--shim.dir=shim must be an absolute path, since pods mount it"},
	} {
		cmd := analyzer(t, append(strings.Fields(c.args), "--web.listen-address=127.0.0.1:0")...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: status %d, want %q:\n%s", c.args, cmd.ProcessState.ExitCode(), c.want, out)
		}
	}
}

// TestFoldersOfOthers: a folder that cannot be looked into costs itself, and is named.
func TestFoldersOfOthers(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(
		os.Mkdir(closed, 0o000),
		os.WriteFile(filepath.Join(dir, "train.log"), []byte("[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	cmd := analyzer(t, "analyze", "--quiet", dir)
	cmd.Env = append(cmd.Env, asOwner+"=1")
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), closed+": opening: permission denied") || !strings.Contains(string(out), "rank 1") {
		t.Errorf("status %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}

// TestInterruptOnFIFO: analyze reads a FIFO that nobody writes to, and ends when it is told to.
func TestInterruptOnFIFO(t *testing.T) {
	for _, number := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(number.String(), func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "dump")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := analyzer(t, "analyze", "--quiet", fifo)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			// There is somebody to write to as soon as the analyzer has opened it, and that was after it had asked for signals.
			writer, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			tick := time.Tick(5 * time.Millisecond)
			for deadline := time.Now().Add(patience); errors.Is(err, syscall.ENXIO) && time.Now().Before(deadline); {
				<-tick
				writer, err = os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			if err := cmd.Process.Signal(number); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if cmd.ProcessState.ExitCode() != offline.ExitCanceled {
					t.Errorf("it ended with %v, want code %d", err, offline.ExitCanceled)
				}
			case <-time.After(patience):
				_ = cmd.Process.Kill()
				t.Error("it goes on reading")
			}
		})
	}
}

// TestFileSizeLimit: units are powers of 1024, a limit of n takes n bytes and no more, and what is larger is refused unread.
func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	sparse := func(name string, bytes int64) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, bytes); err != nil {
			t.Fatal(err)
		}
		return path
	}
	packed := func(name string, size int) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(make([]byte, size))
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name, limit, file string
		refused           bool
	}{
		{"a GiB and one", "1GiB", sparse("a", 1<<30+1), true},
		{"a GB is a GiB", "1GB", sparse("b", 1<<30+1), true},
		{"4 MiB", "4MiB", sparse("c", 4<<20), false},
		{"4 MiB and one", "4MiB", sparse("d", 4<<20+1), true},
		{"4 MiB, unpacked", "4MB", packed("e.gz", 4<<20), false},
		{"4 MiB and one, unpacked", "4MB", packed("f.gz", 4<<20+1), true},
		{"just over what is guessed, unpacked", "4MB", packed("g.gz", 1<<20+1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := analyzer(t, "analyze", "--quiet", "--max-file-size="+tt.limit, tt.file)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != offline.ExitData {
				t.Errorf("%v, want code %d\n%s", err, offline.ExitData, out)
			}
			if strings.Contains(string(out), "larger than --max-file-size") != tt.refused {
				t.Errorf("refused: want %v\n%s", tt.refused, out)
			}
			if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && usage.Maxrss > 512<<10 {
				t.Errorf("%d KiB of memory", usage.Maxrss)
			}
		})
	}
}

// TestFilesThatTakeAllMemory: files of a few kilobytes that become gigabytes in memory cost themselves a line, in each format, several together
// and beside those of a job that hangs. Its verdict stays. A file that ends the process is no unknown verdict where it is alone.
func TestFilesThatTakeAllMemory(t *testing.T) {
	dumps := "../examples/op-not-entered"
	bomb := func(head, each, tail string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		many := strings.Repeat(each, 1<<20/len(each))
		_, err := w.Write([]byte(head))
		for range 8 {
			_, more := w.Write([]byte(many))
			err = errors.Join(err, more)
		}
		_, more := w.Write([]byte(tail))
		if err = errors.Join(err, more, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"answer.gz":    bomb(`{"version":1,"exporter":"x","now_ns":1,"processes":[`, "{},", "{}]}"),
		"processes.gz": bomb(`{"version":1,"exporter":"x","now_ns":1,"processes":[{"job_id":"a","ops":[`, "{},", "{}]}]}"),
		"ras.gz":       bomb(`{"nccl_version":"2.28.9","communicators":[{"ranks":[`, "{},", "{}]}]}"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name  string
		paths []string
		code  int
	}{
		{"beside dumps", []string{dumps, dir}, offline.ExitFound},
		{"alone", []string{filepath.Join(dir, "answer.gz")}, offline.ExitData},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := analyzer(t, append([]string{"analyze", "--quiet", "--explain"}, tt.paths...)...)
			cmd.Args = append([]string{"/bin/sh", "-c", `ulimit -d 524288 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...) // KiB.
			cmd.Path = "/bin/sh"
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != tt.code {
				t.Fatalf("%v, want status %d\n%s", err, tt.code, out)
			}
			if !strings.Contains(string(out), "answer.gz: reading it takes all memory") {
				t.Errorf("nothing says so:\n%s", out)
			}
		})
	}
}
