// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package collector_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/tracetest"
)

// TestCalls scrapes ranks that are inside calls which make or end communicators, that have come back from some, and one that
// died in one.
func TestCalls(t *testing.T) {
	const second = uint64(time.Second)
	n := newNode(t)
	begin := func(w *tracetest.Writer, ago, thread, size uint64, id trace.CommID, name string) {
		w.Live(trace.LifecycleEvent{AtNS: nowNS - ago*second, Kind: trace.LifeCallBegin, CommIndex: -1, CommID: id, Arg0: size<<32 | thread, Text: name})
	}
	end := func(w *tracetest.Writer, ago, thread uint64, name string) {
		w.Live(trace.LifecycleEvent{AtNS: nowNS - ago*second, Kind: trace.LifeCallEnd, CommIndex: -1, Arg0: thread << 32, Text: name})
	}
	waits := n.rank(identity(0), tracetest.Shape{Comms: 1, Channels: 1})
	begin(waits, 600, 1, 8, 0xa, "ncclCommInitRank")
	end(waits, 400, 1, "ncclCommInitRank") // Too long ago.
	for i := range uint64(6) {
		begin(waits, 300-20*i, 1, 8, trace.CommID(0xb0+i), "ncclCommInitRank")
		end(waits, 290-20*i, 1, "ncclCommInitRank") // The newest four are shown.
	}
	begin(waits, 60, 1, 8, 0xc, "ncclCommSplit")
	end(waits, 50, 2, "ncclCommSplit") // Another thread's.
	begin(waits, 40, 3, 0, 0xd, "ncclCommDestroy")
	begin(waits, 4, 4, 8, 0xe, "ncclCommInitRank") // Too young.
	many := n.rank(identity(1), tracetest.Shape{Comms: 1, Channels: 1})
	for i := range uint64(6) {
		begin(many, 30, 1, 2, trace.CommID(0xf0+i), "ncclGroupEnd")
	}
	lost := n.rank(identity(2), tracetest.Shape{Comms: 1, Channels: 1})
	begin(lost, 70, 1, 8, 0xa, "ncclCommInitRank") // Its end was lost: the thread has come back, for it is in another.
	begin(lost, 30, 1, 8, 0xc, "ncclCommSplit")
	died := n.rank(identity(3), tracetest.Shape{Comms: 1, Channels: 1})
	begin(died, 70, 1, 8, 0xc, "ncclCommSplit")
	n.sampler.Sample()
	n.procs.Remove(4003)
	n.now = n.now.Add(time.Second)
	n.sampler.Sample()
	want := []string{
		`culprit_nccl_call_open_seconds{call="ncclCommDestroy",call_id="d",job_id="llm",owner="0",rank="0"} 40`,
		`culprit_nccl_call_open_seconds{call="ncclCommSplit",call_id="c",job_id="llm",owner="0",rank="0"} 60`,
		`culprit_nccl_call_open_seconds{call="ncclCommSplit",call_id="c",job_id="llm",owner="0",rank="2"} 30`,
		`culprit_nccl_call_open_seconds{call="ncclGroupEnd",call_id="f0",job_id="llm",owner="0",rank="1"} 30`,
		`culprit_nccl_call_open_seconds{call="ncclGroupEnd",call_id="f1",job_id="llm",owner="0",rank="1"} 30`,
		`culprit_nccl_call_open_seconds{call="ncclGroupEnd",call_id="f2",job_id="llm",owner="0",rank="1"} 30`,
		`culprit_nccl_call_open_seconds{call="ncclGroupEnd",call_id="f3",job_id="llm",owner="0",rank="1"} 30`,
		`culprit_nccl_call_ranks{call_id="c",job_id="llm",owner="0",rank="0"} 8`,
		`culprit_nccl_call_ranks{call_id="c",job_id="llm",owner="0",rank="2"} 8`,
		`culprit_nccl_call_ranks{call_id="f0",job_id="llm",owner="0",rank="1"} 2`,
		`culprit_nccl_call_ranks{call_id="f1",job_id="llm",owner="0",rank="1"} 2`,
		`culprit_nccl_call_ranks{call_id="f2",job_id="llm",owner="0",rank="1"} 2`,
		`culprit_nccl_call_ranks{call_id="f3",job_id="llm",owner="0",rank="1"} 2`,
		`culprit_nccl_call_returned_seconds{call_id="b2",job_id="llm",owner="0",rank="0"} 250`,
		`culprit_nccl_call_returned_seconds{call_id="b3",job_id="llm",owner="0",rank="0"} 230`,
		`culprit_nccl_call_returned_seconds{call_id="b4",job_id="llm",owner="0",rank="0"} 210`,
		`culprit_nccl_call_returned_seconds{call_id="b5",job_id="llm",owner="0",rank="0"} 190`,
	}
	got := regexp.MustCompile(`(?m)^culprit_nccl_call_.*$`).FindAllString(scrape(t, n.sampler, defaults), -1)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series of calls (-want +got):\n%s", diff)
	}
}
