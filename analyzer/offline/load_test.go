// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/alecthomas/kingpin/v2"

	"github.com/klauspost/compress/zstd"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/timeline"
)

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// tarred packs the files of a directory.
func tarred(t testing.TB, dir string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zipped(t testing.TB, dir string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func put(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPacked(t *testing.T) {
	dumps, dir := write(t, moe()), t.TempDir()
	archive := tarred(t, dumps)
	for name, data := range map[string][]byte{
		"tar": archive, "tar.gz": gzipped(t, archive), "tar.gz.gz": gzipped(t, gzipped(t, archive)), "tar.zst": zstandard(t, archive),
		"zip": zipped(t, dumps), "zip.zip": zipped(t, filepath.Dir(put(t, t.TempDir(), "dumps.zip", zipped(t, dumps)))),
	} {
		t.Run(name, func(t *testing.T) {
			wantVerdict(t, analyze(t, put(t, dir, "dumps."+name, data)), rca.NotEntered, rca.CauseNotCalled, 9, 14)
		})
	}
	t.Run("a zip on standard input", func(t *testing.T) {
		if code, out, _ := run(t, string(zipped(t, dumps)), "-"); code != ExitFound || !strings.Contains(out, "Ranks 9 and 14") {
			t.Errorf("code %d\n%s", code, out)
		}
	})
	each := t.TempDir()
	for r := range 16 {
		data, err := os.ReadFile(dumpFile(dumps, r))
		if err != nil {
			t.Fatal(err)
		}
		put(t, each, fmt.Sprintf("rank_%d.pkl.gz", r), gzipped(t, data))
	}
	wantVerdict(t, analyze(t, each), rca.NotEntered, rca.CauseNotCalled, 9, 14)
}

// Whatever else lies around costs a line, not the verdict.
func TestBadFiles(t *testing.T) {
	dir := write(t, moe())
	bomb := gzipped(t, make([]byte, 8<<20))
	good, err := os.ReadFile(dumpFile(dir, 3))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]struct {
		data []byte
		want string
	}{
		"empty":       {nil, "empty"},
		"text.log":    {[]byte("hello\nworld\n"), "not recognised: text"},
		"binary":      {[]byte("\x00\x01\x02\x03"), "not recognised: binary"},
		"program":     {[]byte("\x7fELF...."), "not recognised: a program"},
		"other.json":  {[]byte(`{"a": 1}`), "not recognised: JSON of another kind"},
		"early.json":  {[]byte(`{"a": [1,`), "not recognised: JSON that ends early, after 9 bytes"},
		"table.csv":   {[]byte("a,b\n1,2\n"), "name them with --column"},
		"zip":         {[]byte("PK\x03\x04...."), "not recognised: a zip"},
		"text.bz2":    {packedText, "not recognised: text"},
		"text.xz":     {[]byte("\xfd7zXZ\x00\x00\x04"), "unpack it first"},
		"cut.zip":     {zipped(t, dir)[:1<<10], "unpacking zip"},
		"secret.zip":  {encryptedZip(t), "secret.zip/x: reading: encrypted"},
		"model.pt":    {zipOf(t, 1, "archive/data.pkl", []byte("x")), "such as a model"},
		"mac.zip":     {zipOf(t, 1, "__MACOSX/._x", []byte("x")), ""},
		"evil":        {[]byte("\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."), "os.system"},
		"weights.pkl": {frtest.Pickle(frtest.Dict{"w", int64(1)}), "something else"},
		"bomb.gz":     {bomb, "larger than"},
		"bomb.zst":    {zstandard(t, make([]byte, 8<<20)), "larger than"},
		"cut.zst":     {zstandard(t, good)[:20], "EOF"},
		"broken.zst":  {[]byte{0x28, 0xb5, 0x2f, 0xfd, 9, 9, 9, 9, 9, 9, 9, 9}, "reserved bit"},
		"cut.gz":      {gzipped(t, good)[:len(gzipped(t, good))/2], "EOF"},
		"broken.gz":   {[]byte{0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, "gzip"},
		"deep.gz":     {gzipped(t, gzipped(t, gzipped(t, gzipped(t, []byte("x"))))), "packed too often"},
		"cut.pkl":     {[]byte{0x80, 2, '}', '('}, "something else"},
	}
	for name, tc := range files {
		put(t, dir, name, tc.data)
	}
	l := load.Loader{MaxFile: 4 << 20, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(context.Background(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
	said := map[string]string{}
	for _, f := range got.Files {
		name, member, _ := strings.Cut(strings.TrimPrefix(f.Path, dir+"/"), "/")
		if said[name] += f.Error + f.Warning; member != "" {
			said[name] = f.Path + ": " + said[name]
		}
	}
	for name, tc := range files {
		if !strings.Contains(said[name], tc.want) {
			t.Errorf("%s: %q, want %q", name, said[name], tc.want)
		}
	}
}

func TestMissingPath(t *testing.T) {
	l := load.Loader{MaxFile: 1, Progress: load.NewProgress(io.Discard, false)}
	if _, err := l.Load(context.Background(), []string{filepath.Join(t.TempDir(), "no")}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Load(ctx, []string{write(t, moe())}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// run parses a command line and runs it.
func run(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	app := kingpin.New("culprit-analyzer", "").Terminate(nil)
	c := &config{columns: map[string]string{}}
	c.register(app)
	if _, err := app.Parse(append([]string{"analyze"}, args...)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = c.run(t.Context(), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	hang := write(t, moe())
	healthy := allReduce(4, 5)
	healthy.Ring = 10
	fine, nothing := write(t, healthy), t.TempDir()
	put(t, nothing, "x", []byte("hello\n"))
	for name, tc := range map[string]struct {
		args  []string
		stdin string
		want  int
	}{
		"culprit":        {[]string{hang}, "", ExitFound},
		"healthy":        {[]string{fine}, "", ExitHealthy},
		"unknown":        {[]string{"-"}, "#0-0 (aa) MISMATCH\n Communicator ranks have different AllReduce operation counts\n 30 ranks have launched up to operation 6\n 2 ranks have launched up to operation 64\n Rank 1 -- GPU 1 managed by process 1 on node n\n Rank 2 -- GPU 2 managed by process 2 on node n\n", ExitUnknown},
		"no such path":   {[]string{filepath.Join(nothing, "no")}, "", ExitNoInput},
		"nothing of use": {[]string{nothing}, "", ExitData},
		"unwritable":     {[]string{hang, "--timeline", filepath.Join(nothing, "no", "t.json")}, "", ExitCannot},
	} {
		if code, out, errs := run(t, tc.stdin, tc.args...); code != tc.want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, tc.want, out, errs)
		}
	}
}

func TestJSONOutput(t *testing.T) {
	dir := write(t, moe())
	if err := os.Remove(dumpFile(dir, 12)); err != nil {
		t.Fatal(err)
	}
	_, out, _ := run(t, "", "--json", dir)
	var d report.Document
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Version != report.JSONVersion || d.Verdict.Version != rca.VerdictVersion || d.Verdict.Class != rca.NotEntered || len(d.Sources) != 1 || len(d.Files) != 15 || len(d.NextSteps) == 0 {
		t.Errorf("%s", out)
	}
}

func TestTimeline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	j := moe()
	j.Ring = 20
	if code, _, errs := run(t, "", "--timeline", path, write(t, j)); code != ExitFound {
		t.Fatal(errs)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		Events []timeline.Event `json:"traceEvents"`
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		t.Fatal(err)
	}
	pending := 0
	for _, e := range trace.Events {
		if e.Category == "pending" && e.Duration > 0 {
			pending++
		}
	}
	if pending < 14 {
		t.Errorf("%d pending operations among %d events", pending, len(trace.Events))
	}
}

func TestColor(t *testing.T) {
	dir := write(t, moe())
	if _, out, _ := run(t, "", "--color", "always", dir); !strings.Contains(out, "\x1b[1;31m") {
		t.Error("no colour where it is asked for")
	}
	if _, out, _ := run(t, "", dir); strings.Contains(out, "\x1b[") {
		t.Error("colour where there is no terminal")
	}
}

// A profiler's trace describes the groups of the job as a dump does, and is none.
func TestTraceIsNoDump(t *testing.T) {
	path := put(t, t.TempDir(), "trace.json", []byte(`{"schemaVersion":1,"deviceProperties":[],"distributedInfo":{"backend":"nccl","rank":0,"world_size":1,`+
		`"pg_config":[{"pg_name":"0","ranks":[0]}]},"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":2}]}`))
	if _, _, errs := run(t, "", path); !strings.Contains(errs, "Chrome trace: ") {
		t.Errorf("%s", errs)
	}
}

// One record of one operation says nothing of who is slow: unknown, not healthy.
func TestSingleRecord(t *testing.T) {
	path := put(t, t.TempDir(), "log.json", []byte(`{"header":{"id":"0x9","rank":4,"n_ranks":8},"metadata":{"inspector_output_format_version":"v4.0",`+
		`"hostname":"h","pid":7},"coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974}}`))
	code, out, errs := run(t, "", path)
	if code != ExitUnknown || !strings.Contains(out, "ranks 0-3, 5-7: no Inspector log") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// A job's log that also holds a RAS report counts as both; a rank in the log only is joined with the dumps' ranks.
func TestJobLog(t *testing.T) {
	log := "[rank0]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5\n" +
		"[rank1]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 5.\n" +
		"[rank2]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 2]  failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5\n"
	wantVerdict(t, analyze(t, put(t, t.TempDir(), "slurm-4711.out", []byte(log))), rca.NotEntered, rca.CauseNotCalled, 1)
	code, out, _ := run(t, log+"#0-0 (aa) MISMATCH\n Communicator ranks have different AllReduce operation counts\n 2 ranks have launched up to operation 6\n 1 rank has launched up to operation 2\n Rank 1 -- GPU 1 managed by process 1 on node n\n", "-", "--explain")
	if code != ExitFound || !strings.Contains(out, "job log, 1 file") || !strings.Contains(out, "NCCL RAS, 1 file") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// watchdogLine is what PyTorch's watchdog says when a rank's operation has timed out.
func watchdogLine(rank int) string {
	return fmt.Sprintf("[rank%d]:[E1121 10:40:00.584 ProcessGroupNCCL.cpp:629] [Rank %d] Watchdog caught collective operation timeout: "+
		"WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n", rank, rank) +
		fmt.Sprintf("[rank%d]:[E1121 10:40:00.585 ProcessGroupNCCL.cpp:2168] [PG ID 0 PG GUID 0(default_pg) Rank %d]  failure detected by watchdog at "+
			"work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8\n", rank, rank)
}

// A rank whose own log has no word on communication is one of whose watchdog nothing was heard, as in one log for all.
func TestQuietLogs(t *testing.T) {
	dir := t.TempDir()
	for r := range 4 {
		text := fmt.Sprintf("[rank%d]: model loaded\n", r)
		if r != 2 {
			text += watchdogLine(r)
		}
		put(t, dir, fmt.Sprintf("slurm-4711_%d.err", r), []byte(text))
	}
	r := analyze(t, dir)
	wantVerdict(t, r, rca.NotEntered, rca.CauseUnknown, 2)
	l := load.Loader{MaxFile: 1 << 20, Progress: load.NewProgress(io.Discard, false)}
	alone, err := l.Load(t.Context(), []string{filepath.Join(dir, "slurm-4711_2.err")})
	if err != nil || alone.Understood() != 0 {
		t.Errorf("%d files understood, %v", alone.Understood(), err)
	}
}

// TestNothingToAnalyze says why there is nothing, and names what could not be read.
func TestNothingToAnalyze(t *testing.T) {
	empty, strange, broken := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, strange, "x", []byte("hello\n"))
	put(t, broken, "x.gz", []byte{0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9})
	for dir, want := range map[string]string{
		empty: "no files in " + empty, strange: "none of 1 files is of a kind that is understood", broken: "none of 1 files could be read",
	} {
		if code, _, errs := run(t, "", dir); code != ExitData || !strings.Contains(errs, "nothing to analyze: "+want) {
			t.Errorf("exit code %d, %q; want %q", code, errs, want)
		}
	}
}

// Redirections on Windows write UTF-16.
func TestUTF16(t *testing.T) {
	text := watchdogLine(0) + watchdogLine(1) + "[rank2]: waiting…\n"
	for name, order := range map[string]binary.AppendByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian} {
		t.Run(name, func(t *testing.T) {
			var wide []byte
			for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
				wide = order.AppendUint16(wide, u)
			}
			wantVerdict(t, analyze(t, put(t, t.TempDir(), "train.log", wide)), rca.NotEntered, rca.CauseUnknown, 2)
		})
	}
}

// Chrome traces without kernels may be tables of operations.
func TestOpTableAsTrace(t *testing.T) {
	var events []string
	for step := range 20 {
		for rank := range 4 {
			compute := 100_000
			if rank == 3 {
				compute *= 2
			}
			at := step * 300_000
			events = append(events,
				fmt.Sprintf(`{"ph":"X","name":"forward-compute","pid":%d,"tid":0,"ts":%d,"dur":%d,"args":{"rank":%d,"step":%d}}`, rank, at, compute, rank, step),
				fmt.Sprintf(`{"ph":"X","name":"grads-all-reduce","pid":%d,"tid":1,"ts":%d,"dur":%d,"args":{"rank":%d,"step":%d}}`, rank, at+compute, 210_000-compute, rank, step))
		}
	}
	code, out, errs := run(t, `{"traceEvents":[`+strings.Join(events, ",")+`]}`, "-")
	if code != ExitFound || !strings.HasPrefix(out, "Rank 3: computes") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// A page of torch.distributed's debug server holds what each rank answered.
func TestDebugPages(t *testing.T) {
	page := func(text func(rank int) string) string {
		var b strings.Builder
		b.WriteString("<!doctype html>\n<html><body><h1>py-spy stack traces</h1>\n")
		for r := range 4 {
			fmt.Fprintf(&b, "<h2>Rank %d: http://node-1:%d</h2>\n<pre>%s</pre>\n", r, 3000+r, strings.NewReplacer("<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace(text(r)))
		}
		return b.String() + "</body></html>\n"
	}
	stacks := page(func(rank int) string {
		where := "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    <module> (train.py:12)\n"
		if rank == 2 {
			where = "    acquire (threading.py:320)\n    <module> (train.py:9)\n"
		}
		return fmt.Sprintf("Process %d: python train.py\n\nThread %d (idle): \"MainThread\"\n%s", 400+rank, 400+rank, where)
	})
	path := filepath.Join(t.TempDir(), "stacks.html")
	if err := os.WriteFile(path, []byte(stacks), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "", path)
	if code != ExitFound || !strings.HasPrefix(out, "Rank 2 is") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	if err := os.WriteFile(path, []byte("<h2>Rank 0: x</h2><pre></pre>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "", path); code != ExitData || !strings.Contains(errs, "no rank has answered") {
		t.Errorf("%d: %s", code, errs)
	}
}

// Whatever a file holds, packed or not, it costs a line at most.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"[rank0]:[E] Watchdog caught collective operation timeout", `{"traceEvents":[{"ph":"X","name":"send","ts":1,"dur":1,"args":{"rank":1}}]}`,
		"rank,op,start,duration\n0,send,1,2\n", "#0-0 (aa) MISMATCH\n", "Thread 1 (idle)\n", "\x80\x02}q\x00.", "\xff\xfea\x00", "\x1f\x8b\x08", "PAR1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := load.Loader{MaxFile: 1 << 20, Stdin: bytes.NewReader(data), Progress: load.NewProgress(io.Discard, false)}
		got, err := l.Load(t.Context(), []string{"-"})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Files) == 0 {
			t.Error("nothing is said of the file")
		}
	})
}
