// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// logHosts have a log each, with all that eight ranks print.
const logHosts = 8

// writeLog writes size bytes of what ranks print while they train, and at the end what the watchdogs of all but one say.
func writeLog(b *testing.B, name string, host int, size int64) {
	b.Helper()
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var block []byte
	for i := range 16 << 10 {
		rank := host*8 + i%8
		block = fmt.Appendf(block, "2026-11-22T10:%02d:%02d.%06d host-%d trainer[%d] [rank%d] iteration %d/500000 | consumed samples: %d | elapsed time per iteration (ms): %d.%d | loss: %d.%06d | grad norm: 0.%03d | tokens per second: %d\n",
			i/60%60, i%60, i*61%1000000, host, 4000+rank, rank, i, i*512, 900+i%31, i%10, 2+i%3, i*7919%1000000, i%1000, 400000+i%997)
	}
	for written := int64(0); written < size; written += int64(len(block)) {
		if _, err := w.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	for rank := host * 8; rank < host*8+8; rank++ {
		enqueued := 812
		if rank == 37 {
			enqueued--
		}
		_, _ = fmt.Fprintf(w, "[rank%d]:[E1122 10:59:00.1 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank %d] Exception (either an error or timeout) detected by watchdog at work: 811, last enqueued NCCL work: %d, last completed NCCL work: 811.\n", rank, rank, enqueued)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// Logs of a job of 64 ranks: LOG_GB gigabytes, 1 where it is not set. They are written before the clock runs.
func BenchmarkLogs(b *testing.B) {
	gb := 1.0
	if s := os.Getenv("LOG_GB"); s != "" {
		var err error
		if gb, err = strconv.ParseFloat(s, 64); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	for host := range logHosts {
		writeLog(b, filepath.Join(dir, fmt.Sprintf("host-%d.log", host)), host, int64(gb*(1<<30)/logHosts))
	}
	b.SetBytes(int64(gb * (1 << 30)))
	for b.Loop() {
		start := time.Now()
		l := load.Loader{MaxFile: 256 << 20, Progress: load.NewProgress(io.Discard, false)}
		got, err := l.Load(b.Context(), []string{dir})
		if err != nil {
			b.Fatal(err)
		}
		v := diagnosis.Diagnose(got, diagnosis.Options{}).Verdict
		if v.Class != rca.NotEntered || len(v.Culprits) != 1 || v.Culprits[0].Rank != 37 {
			b.Fatalf("%s %v: %s", v.Class, v.Culprits, v.Summary)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/analysis")
	}
	b.ReportMetric(peakMiB(b), "MiB-peak")
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMiB is the most memory that the process has had.
func peakMiB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	m := highWater.FindSubmatch(status)
	if m == nil {
		b.Fatal("the kernel does not tell the most memory that the process has had")
	}
	kb, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}
