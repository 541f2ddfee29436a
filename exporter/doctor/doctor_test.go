// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"
)

// Environment variables with files that a process of the test, and one that it starts, have mapped.
const (
	mapped      = "DOCTOR_TEST_MAPPED"
	mappedChild = "DOCTOR_TEST_MAPPED_CHILD"
)

func TestMain(m *testing.M) {
	if files := os.Getenv(mapped); files != "" {
		if err := beJob(strings.Split(files, ":")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beJob maps files, as a training process has its libraries, until standard input ends.
func beJob(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return err
		}
	}
	if files := os.Getenv(mappedChild); files != "" {
		child := exec.Command(os.Args[0])
		child.Env, child.Stdin, child.Stdout, child.Stderr = []string{mapped + "=" + files}, os.Stdin, os.Stdout, os.Stderr
		return child.Run()
	}
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadByte()
	if err != nil {
		return nil // The end of input ends the process.
	}
	return nil
}

// job starts a process that has files mapped; it ends with the test.
func job(t *testing.T, env []string, files ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append([]string{mapped + "=" + strings.Join(files, ":")}, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd.Process.Pid
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append([]byte(content), make([]byte, 4096)...), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// want fails the test unless one of the findings is in a state and says the words.
func want(t *testing.T, findings []Finding, state State, words ...string) {
	t.Helper()
	for _, f := range findings {
		text := f.Check + ": " + f.Fact + " " + f.Do
		all := f.State == state
		for _, w := range words {
			all = all && strings.Contains(text, w)
		}
		if all {
			return
		}
	}
	t.Errorf("nothing is %v and says %q in %+v", state, words, findings)
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string, mode os.FileMode, owner int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	other := 4711
	if os.Geteuid() != 0 {
		other = os.Geteuid()
	}
	for _, c := range []struct {
		name, dir string
		want      []string
	}{
		{"missing", filepath.Join(dir, "none"), []string{"does not exist", "--trace.prepare"}},
		{"a link", link, []string{"is not a directory", "rm "}},
		{"one user's", folder("one", 0o755, other), []string{"mode 0755", "cannot write", "--trace.prepare"}},
		{"not sticky", folder("loose", 0o777, other), []string{"sticky", "--trace.prepare"}},
		{"a stranger's", folder("strange", os.ModeSticky|0o777, other), []string{fmt.Sprintf("belongs to user %d", other), "--trace.prepare"}},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, directory(c.dir), Failed, c.want...) })
	}
	if os.Geteuid() == 0 {
		good := directory(folder("good", os.ModeSticky|0o777, 0))
		want(t, good, OK, "mode 1777")
		for _, f := range good {
			if f.State == Failed {
				t.Errorf("%+v", f)
			}
		}
	}
}

// TestProcesses has running processes with the mappings and environments of jobs that are set up wrongly. The libraries are played by
// files of their names.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	nccl := write(t, filepath.Join(dir, "libnccl.so.2"), "\x00\x00NCCL version 2.27.5+cuda12.9\x00")
	old := write(t, filepath.Join(dir, "libnccl.so.2.21.5"), "")
	shim := write(t, filepath.Join(dir, "lib", plugin), "")
	traces := filepath.Join(dir, "traces")
	trace := write(t, filepath.Join(traces, "u1000", "1.trace"), "")
	elsewhere := write(t, filepath.Join(dir, "elsewhere", "u1000", "1.trace"), "")
	on := "NCCL_PROFILER_PLUGIN=" + plugin
	for _, c := range []struct {
		name  string
		env   []string
		files []string
		state State
		want  []string
	}{
		{"no plugin is named", nil, []string{nccl}, Failed, []string{"NCCL 2.27.5", "NCCL_PROFILER_PLUGIN is not set", "do"}},
		{"another plugin", []string{"NCCL_PROFILER_PLUGIN=inspector"}, []string{nccl}, Failed, []string{"another profiler plugin", "CULPRIT_CHAIN=inspector"}},
		{"not on the library path", []string{on, "LD_LIBRARY_PATH=/usr/none"}, []string{nccl}, Failed, []string{"LD_LIBRARY_PATH has no folder"}},
		{"a path", []string{"NCCL_PROFILER_PLUGIN=" + shim}, []string{nccl}, Failed, []string{"refuse a path", "LD_LIBRARY_PATH=" + filepath.Dir(shim)}},
		{"not loaded yet", []string{on, "LD_LIBRARY_PATH=" + filepath.Dir(shim)}, []string{nccl}, Warning, []string{"first communicator"}},
		{"an NCCL without profilers", []string{on}, []string{old}, Failed, []string{"NCCL 2.21.5", "LD_PRELOAD=libculprit-preload.so"}},
		{"switched off", []string{on, "CULPRIT_DISABLE=1"}, []string{nccl, shim}, Failed, []string{"CULPRIT_DISABLE"}},
		{"another directory", []string{on, "CULPRIT_DIR=" + filepath.Join(dir, "elsewhere")}, []string{nccl, shim, elsewhere}, Failed, []string{"--trace.dir=" + filepath.Join(dir, "elsewhere")}},
		{"no trace file", []string{on}, []string{nccl, shim}, Failed, []string{"no trace file", "mount"}},
		{"torchrun's agent", []string{on, "LD_LIBRARY_PATH=" + filepath.Dir(shim), mappedChild + "=" + nccl + ":" + shim + ":" + trace}, []string{nccl}, OK, []string{"has started ranks"}},
		{"all is well", []string{on}, []string{nccl, shim, trace}, OK, []string{"writes a trace file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid := job(t, c.env, c.files...)
			want(t, processes("/proc", []string{traces}), c.state, append(slices.Clone(c.want), fmt.Sprintf("Process %d ", pid))...)
		})
	}
}

func TestSearch(t *testing.T) {
	// The text lies across the end of the first buffer.
	text := strings.Repeat("x", 1<<20-8) + "NCCL version 2.30.7+cuda13.0"
	if got := search(strings.NewReader(text), versionInText); got != "2.30.7" {
		t.Errorf("%q", got)
	}
	if got := search(strings.NewReader("nothing"), versionInText); got != "" {
		t.Errorf("%q", got)
	}
}

// TestDocumented has docs/install.md quote what the doctor says.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources []byte
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			sources = append(sources, source...)
		}
	}
	_, table, _ := strings.Cut(string(text), "| it says | why |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	quoted := 0
	for line := range strings.Lines(table) {
		says, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for i, quote := range strings.Split(says, "`") {
			for part := range strings.SplitSeq(quote, "…") {
				if i%2 == 0 || part == "" { // Between two quotations, or before a value.
					continue
				}
				quoted++
				if !bytes.Contains(sources, []byte(strings.TrimSpace(part))) {
					t.Errorf("nothing says %q", part)
				}
			}
		}
	}
	if quoted < 20 {
		t.Errorf("%d parts are quoted", quoted)
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if Print(&out, []Finding{ok("a", "Fine."), {"b", Failed, "Broken.", "mend it"}}) {
		t.Error("nothing failed")
	}
	if !strings.Contains(out.String(), "FAILED     b") || !strings.Contains(out.String(), "do: mend it") || !strings.Contains(out.String(), "1 failed, 0 warnings, 1 ok") {
		t.Errorf("%s", out.String())
	}
}

// TestOthersTexts has a job's user choose variables and names that look like other findings, that a terminal obeys, and that a shell would
// run as root where they stand in a command.
func TestOthersTexts(t *testing.T) {
	dir := t.TempDir()
	nccl := write(t, filepath.Join(dir, "libnccl.so.2"), "")
	shim := write(t, filepath.Join(dir, "lib", plugin), "")
	const evil = "\x1b[2J\n0 failed\n\x9b1m\u202e;touch pwned;`touch pwned`$(touch pwned)'\"|touch pwned&"
	for _, c := range []struct {
		name  string
		env   []string
		files []string
	}{
		{"a plugin", []string{"NCCL_PROFILER_PLUGIN=" + evil}, []string{nccl}},
		{"a plugin's path", []string{"NCCL_PROFILER_PLUGIN=/" + evil + "/" + plugin}, []string{nccl}},
		{"a directory", []string{"NCCL_PROFILER_PLUGIN=" + plugin, "CULPRIT_DIR=/" + evil}, []string{nccl, shim}},
		{"a long one", []string{"NCCL_PROFILER_PLUGIN=" + strings.Repeat("\n", 100_000)}, []string{nccl}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job(t, c.env, c.files...)
			var out bytes.Buffer
			findings := processes("/proc", []string{dir})
			Print(&out, findings)
			if n := strings.Count(out.String(), "\n"); n != 2*len(findings)+2 || out.Len() > 8000 {
				t.Errorf("%d lines of %d bytes tell %d findings", n, out.Len(), len(findings))
			}
			if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), unicode.IsControl) || strings.ContainsRune(out.String(), '\u202e') {
				t.Errorf("%q", out.String())
			}
			// Whoever pastes what is to be done into a shell runs nothing of the user's.
			for _, f := range findings {
				_, settings, _ := strings.Cut(f.Do, ": ")
				settings, _, _ = strings.Cut(settings, ", or")
				if settings == "" {
					settings = strings.TrimPrefix(f.Do, "culprit-exporter ")
					settings, _, _ = strings.Cut(settings, ", or unset")
				}
				shell := exec.Command("sh", "-c", "echo "+settings)
				shell.Dir = t.TempDir()
				if text, err := shell.CombinedOutput(); err != nil {
					t.Errorf("%q: %v: %s", settings, err, text)
				}
				if left, err := os.ReadDir(shell.Dir); err != nil || len(left) != 0 {
					t.Errorf("%q ran: %v, %v", settings, left, err)
				}
			}
		})
	}
}

// TestServicesTexts has what services answer printed on the lines of its finding.
func TestServicesTexts(t *testing.T) {
	var out bytes.Buffer
	Print(&out, []Finding{{"route", Failed, "receiver a\nok  all\x1b[2J, ", "b\nFAILED"}})
	if strings.Count(out.String(), "\n") != 4 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", out.String())
	}
}

// TestOpenRegular opens nothing that is no file: opening a device or a FIFO does something already.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, link, dir, filepath.Join(dir, "none")} {
		if f, err := openRegular(name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	f, err := openRegular(write(t, filepath.Join(dir, "a"), "text"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := make([]byte, 4)
	if n, err := f.Read(text); n != 4 || string(text) != "text" {
		t.Errorf("%q, %v", text[:n], err)
	}
}

// TestClusterAlone leaves this node out: what a job in a cluster runs on is no GPU node.
func TestClusterAlone(t *testing.T) {
	o := Options{Dirs: []string{filepath.Join(t.TempDir(), "absent")}, ProcFS: "/proc", ExporterURL: "http://127.0.0.1:1"}
	for _, node := range []bool{false, true} {
		o.Node = node
		if failed := !Print(io.Discard, Examine(t.Context(), o)); failed != node {
			t.Errorf("with the node %t, something failed: %t", node, failed)
		}
	}
}
