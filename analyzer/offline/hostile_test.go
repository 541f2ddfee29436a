// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder/frtest"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// fatal is the name of a process that ends as one does whose memory is not enough.
const fatal = "culprit-fatal-test"

func init() {
	if os.Args[0] == fatal {
		endFatally()
		done := make(chan bool)
		go func() { panic("no code catches this") }()
		<-done
	}
}

// TestFatalEnd has an end that no code can prevent look like no verdict.
func TestFatalEnd(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir = []string{fatal}, t.TempDir()
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT || !bytes.Contains(out, []byte("no code catches this")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// parquetFooter gives a file of 141 bytes whose footer is what is given.
func parquetFooter(footer ...byte) []byte {
	body := make([]byte, 141-12)
	copy(body, footer)
	return append(binary.LittleEndian.AppendUint32(append([]byte("PAR1"), body...), uint32(len(body))), "PAR1"...)
}

// TestParquetClaims has Parquet files that claim more than they have, beside the dumps of a job that hangs. The verdict stays, and each costs a
// line.
func TestParquetClaims(t *testing.T) {
	most := []byte{0xff, 0xff, 0xff, 0xff, 0x07} // 2^31-1.
	list := func(field byte) []byte { return append([]byte{0x15, 0x02, field<<4 | 0x09, 0xfc}, most...) }
	dir := write(t, moe())
	evil := map[string][]byte{
		"schema":      parquetFooter(list(1)...),
		"row groups":  parquetFooter(list(3)...),
		"nested":      parquetFooter(bytes.Repeat([]byte{0x19, 0x1c}, 50)...),
		"name":        parquetFooter(append([]byte{0x15, 0x02, 0x19, 0x1c, 0x48}, most...)...),
		"nothing":     parquetFooter(),
		"wrong types": parquetFooter(bytes.Repeat([]byte{0xff}, 100)...),
	}
	for name, data := range evil {
		put(t, dir, name+".parquet", data)
	}
	code, out, errs := run(t, "", dir)
	if code != ExitFound || !strings.Contains(out, "9, 14") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	l := load.Loader{MaxFile: 4 << 20, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, f := range got.Files {
		said[filepath.Base(f.Path)] = f.Error
	}
	for name := range evil {
		if !strings.Contains(said[name+".parquet"], "op table: ") {
			t.Errorf("%s: %q", name, said[name+".parquet"])
		}
	}
	alone := filepath.Join(dir, "schema.parquet")
	if code, _, _ := run(t, "", alone); code != ExitData {
		t.Errorf("alone: exit code %d", code)
	}
}

// members gives a tar archive of so many copies of a file.
func members(t *testing.T, n int, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range n {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d", i), Mode: 0o600, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// packedText is "hello" and "world", a line each, by bzip2, which Go only unpacks.
var packedText = []byte("\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\x6b\x5f\xb1\xdd\x00\x00\x02\x41\x80\x00\x10\x06\x44\x90\x80\x20\x00\x31\x0c\x08\x21\xa3\x69\x08\x07\x23\xae\x87\x8b\xb9\x22\x9c\x28\x48\x35\xaf\xd8\xee\x80")

// zipOf gives a zip archive of so many copies of a file.
func zipOf(t testing.TB, n int, name string, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for range n {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func encryptedZip(t *testing.T) []byte {
	const flags = 8 // Offset in the list's entry of a member.
	data := zipOf(t, 1, "x", []byte("hello"))
	data[bytes.Index(data, []byte("PK\x01\x02"))+flags] |= 1
	return data
}

// listedOften gives a zip archive of one member that its list names so many times.
func listedOften(t *testing.T, n int, data []byte) []byte {
	packed := zipOf(t, 1, "x", data)
	list, end := bytes.LastIndex(packed, []byte("PK\x01\x02")), bytes.LastIndex(packed, []byte("PK\x05\x06"))
	entry := bytes.Clone(packed[list:end])
	tail := bytes.Clone(packed[end:])
	binary.LittleEndian.PutUint16(tail[8:], uint16(n))
	binary.LittleEndian.PutUint16(tail[10:], uint16(n))
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*len(entry)))
	return slices.Concat(packed[:list], bytes.Repeat(entry, n), tail)
}

// TestArchiveBombs has archives of which no member is too large, and that unpack to more than all may, beside the dumps of a job that hangs.
func TestArchiveBombs(t *testing.T) {
	zeros := make([]byte, 1<<17)
	many := gzipped(t, members(t, 64, zeros))
	for name, files := range map[string][][]byte{
		"one archive":        {many},
		"many archives":      {gzipped(t, members(t, 16, zeros)), gzipped(t, members(t, 16, zeros)), gzipped(t, members(t, 16, zeros))},
		"archives in one":    {gzipped(t, members(t, 4, gzipped(t, members(t, 16, zeros))))},
		"packed twice":       {gzipped(t, many)},
		"files that are not": {gzipped(t, make([]byte, 3<<20)), gzipped(t, make([]byte, 3<<20))},
		"a log without end":  {gzipped(t, bytes.Repeat([]byte("a line\n"), 1<<20))},
		"a zip":              {zipOf(t, 64, "x", zeros)},
		"zips in a zip":      {zipOf(t, 4, "x", zipOf(t, 16, "x", zeros))},
		"a zip, four times":  {zipOf(t, 1, "x", zipOf(t, 1, "x", zipOf(t, 1, "x", zipOf(t, 1, "x", []byte("x")))))},
		"a member that a zip lists often": {listedOften(t, 4000, func() []byte {
			noise := make([]byte, 1<<17)
			_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
			return noise
		}())},
		"a zip that lists more than fits": {listedOften(t, 400_000, []byte("x"))},
		"a long name": {gzipped(t, func() []byte {
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			for range 64 {
				if err := w.WriteHeader(&tar.Header{Name: strings.Repeat("x", 1<<17), Size: 1, Format: tar.FormatPAX}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			return buf.Bytes()
		}())},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, moe())
			for i, data := range files {
				put(t, dir, fmt.Sprintf("z%d.gz", i), data)
			}
			l := load.Loader{MaxFile: 64 << 20, MaxTotal: 2 << 20, Progress: load.NewProgress(io.Discard, false)}
			got, err := l.Load(t.Context(), []string{dir})
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
			refused, longest := false, 0
			for _, f := range got.Files {
				refused = refused || strings.Contains(f.Error, "--max-unpacked-size") || strings.Contains(f.Error, "packed too often") || strings.Contains(f.Error, "list of members")
				longest = max(longest, len(f.Path))
			}
			if !refused || longest > 8<<10 {
				t.Errorf("nothing is refused, or a name has %d bytes, of %d files", longest, len(got.Files))
			}
		})
	}
}

// TestHoles: sparse files, which take no room, are read within what all may unpack to.
func TestHoles(t *testing.T) {
	dir := write(t, moe())
	for i := range 8 {
		if err := os.Truncate(put(t, dir, fmt.Sprintf("z%d", i), []byte("x")), 4<<20); err != nil {
			t.Fatal(err)
		}
	}
	l := load.Loader{MaxFile: 64 << 20, MaxTotal: 9 << 20, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
	refused := 0
	for _, f := range got.Files {
		if strings.Contains(f.Error, "--max-unpacked-size") {
			refused++
		}
	}
	if refused < 4 || refused == 8 {
		t.Errorf("%d of 8 files of 4 MiB are refused with 9 MiB allowed", refused)
	}
}

// TestWellPacked has dumps that come to little packed, read within a total that is no larger than they are.
func TestWellPacked(t *testing.T) {
	dumps, dir := write(t, moe()), t.TempDir()
	put(t, dir, "dumps.tar.gz", gzipped(t, tarred(t, dumps)))
	l := load.Loader{MaxFile: 64 << 20, MaxTotal: 1, Progress: load.NewProgress(io.Discard, false)}
	got, err := l.Load(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
}

// TestOddFiles has in a folder what is no dump, and what a link leads to: devices, FIFOs, and files of the kernel that wait for more, which root
// may open. The verdict from the dumps beside them stays.
func TestOddFiles(t *testing.T) {
	dir := write(t, moe())
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, target := range map[string]string{
		"zero": "/dev/zero", "random": "/dev/urandom", "terminal": "/dev/tty", "kernel": "/proc/kmsg", "memory": "/proc/self/mem", "round": ".", "gone": "nowhere",
		"to-fifo": "fifo",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	loader := load.Loader{MaxFile: 4 << 20, Progress: load.NewProgress(io.Discard, false)}
	got, err := loader.Load(ctx, []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
}

// TestFilesInTurn: what took all memory once is read last and told of, what did so twice is left out, and without room what comes waits in vain.
func TestFilesInTurn(t *testing.T) {
	dir := write(t, moe())
	begun, ended := []string{}, 0
	l := load.Loader{MaxFile: 4 << 20, Progress: load.NewProgress(io.Discard, false), Watch: load.Watch{
		Begin:   func(path string) { begun = append(begun, path) },
		End:     func(string) { ended++ },
		Last:    []string{dumpFile(dir, 0)},
		LeftOut: []string{dumpFile(dir, 1)},
	}}
	got, err := l.Load(t.Context(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, diagnosis.Diagnose(got, diagnosis.Options{}), rca.NotEntered, rca.CauseNotCalled, 9, 14)
	if len(begun) != 15 || ended != 15 || begun[14] != dumpFile(dir, 0) || got.Understood() != 15 {
		t.Errorf("%d files were ended of %v", ended, begun)
	}
	l.Watch.Memory = 1
	if got, err = l.Load(t.Context(), []string{dir}); err != nil || got.Understood() != 0 || len(got.Files) != 16 {
		t.Errorf("without memory: %v, %d files", err, len(got.Files))
	}
}

// FuzzArchive has any bytes packed in archives, as they come and cut off.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("PAR1"), uint8(1), uint16(0))
	f.Add(frtest.Pickle(frtest.Dict{"entries", int64(1)}), uint8(3), uint16(5))
	f.Add(parquetFooter(0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07), uint8(2), uint16(0))
	f.Add(zipOf(f, 2, "x", []byte("hello")), uint8(1), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, n uint8, cut uint16) {
		for _, packed := range [][]byte{gzipped(t, members(t, int(n), data)), zipOf(t, int(n), "x", data), data} {
			packed = packed[:len(packed)-min(len(packed), int(cut))]
			l := load.Loader{MaxFile: 1 << 20, MaxTotal: 1 << 20, Stdin: bytes.NewReader(packed), Progress: load.NewProgress(io.Discard, false)}
			if _, err := l.Load(t.Context(), []string{"-"}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
