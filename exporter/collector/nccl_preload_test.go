// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
)

// TestPreloadedProcess scrapes a process that only the preload hooks report, five seconds after it entered ncclGroupEnd.
func TestPreloadedProcess(t *testing.T) {
	packed, err := os.Open("../../trace/testdata/preload.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	const bootID = 472 // Its place in the header; here the file is of the boot that runs.
	copy(b[bootID:], proctest.BootID)
	dir := t.TempDir()
	path := filepath.Join(dir, "rank2.trace")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var s trace.Snapshot
	if err := f.Snapshot(&s); err != nil {
		t.Fatal(err)
	}
	f.Close()

	procs := proctest.New(t)
	procs.Put(proctest.Process{PID: int(s.Identity.PID), StartTicks: s.Identity.StartTicks, Namespace: s.Identity.PIDNamespace})
	sampler, err := node.New(node.Options{
		Dirs: []string{dir}, ProcFS: procs.Root, Logger: promslog.NewNopLogger(),
		Clock: func() uint64 { return s.Status.GroupOpenSinceNS + uint64(5*time.Second) },
		Now:   func() time.Time { return time.Unix(0, int64(s.Identity.CreatedRealNS)).Add(5 * time.Second) },
	})
	if err != nil {
		t.Fatal(err)
	}
	sampler.Sample()
	got := scrape(t, sampler, defaults)
	for _, want := range []string{
		`culprit_nccl_process_up{job_id="llm",owner="0",rank="2"} 1`,
		`culprit_nccl_ops_started_total{comm="898c1fc9a81ef03e",job_id="llm",owner="0",rank="2"} 7`,
		`comm_rank="2",job_id="llm",nnodes="-1",nranks="4"`,
		`abi="0"`,
		`culprit_nccl_group_open_seconds{job_id="llm",owner="0",rank="2"} 5`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
