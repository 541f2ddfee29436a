// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// wording is how a version of PyTorch says it.
type wording struct {
	name   string
	prefix func(rank int) string
	group  func(id int, desc string, rank int) string
	numel  bool
	status string // %d: the operation, the last enqueued, the last completed.
	dump   string // %s from whom, %d last enqueued, last completed; empty: that version has none.
}

func global(rank int) string {
	return fmt.Sprintf("[rank%d]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] ", rank)
}

var wordings = []wording{
	{
		"2.0", func(int) string { return "[E ProcessGroupNCCL.cpp:737] " }, func(int, string, int) string { return "" }, false, "", "",
	},
	{
		"2.4", global, func(id int, _ string, rank int) string { return fmt.Sprintf("[PG %d Rank %d] ", id, rank) }, true,
		"Exception (either an error or timeout) detected by watchdog at work: %d, last enqueued NCCL work: %d, last completed NCCL work: %d.", "",
	},
	{
		"2.5", global, func(id int, desc string, rank int) string {
			return fmt.Sprintf("[PG ID %d PG GUID %d(%s) Rank %d] ", id, id, desc, rank)
		}, true,
		"Exception (either an error or timeout) detected by watchdog at work: %d, last enqueued NCCL work: %d, last completed NCCL work: %d.",
		"Received a dump signal due to a collective timeout from  %s and we will try our best to dump the debug info. Last enqueued NCCL work: %d, last completed NCCL work: %d.This is most likely caused by incorrect usages of collectives",
	},
	{
		"2.8, launched by torchrun", func(rank int) string { return fmt.Sprintf("[default%d]:%s", rank%8, global(rank)) },
		func(id int, desc string, rank int) string {
			return fmt.Sprintf("[PG ID %d PG GUID %d(%s) Rank %d] ", id, id, desc, rank)
		}, true,
		" failure detected by watchdog at work sequence id: %d PG status: last enqueued work: %d, last completed work: %d",
		"Received a dump signal due to a collective timeout from %s and we will try our best to dump the debug info. Last enqueued NCCL work: %d, last completed NCCL work: %d.This is most likely caused by incorrect usages of collectives",
	},
}

// job writes the log of a job of some ranks in the group of all, of which those in stopped never called the operation.
func job(w wording, world int, stopped ...int) string {
	var b strings.Builder
	b.WriteString("Epoch 3:  41%|####      | 812/1980 [12:01<17:21,  1.12it/s, loss=2.31]\n")
	for r := range world {
		fmt.Fprintf(&b, "%smodel loaded\n", strings.Replace(w.prefix(r), "ProcessGroupNCCL.cpp:629", "train.py:3", 1))
	}
	for r := range world {
		if slices.Contains(stopped, r) {
			if w.dump != "" {
				fmt.Fprintf(&b, "%s%s%s\n", w.prefix(r), w.group(0, "default_pg", r), fmt.Sprintf(w.dump, "rank 0", 807, 807))
			}
			continue
		}
		numel := ""
		if w.numel {
			numel = " NumelIn=9801523, NumelOut=9801523,"
		}
		fmt.Fprintf(&b, "%s[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE,%s Timeout(ms)=600000) ran for %d milliseconds before timing out.\n",
			w.prefix(r), r, numel, 600020+r)
		if w.status != "" {
			fmt.Fprintf(&b, "%s%s%s\n", w.prefix(r), w.group(0, "default_pg", r), fmt.Sprintf(w.status, 808, 811, 807))
		}
		b.WriteString("some print of the training script\n")
	}
	return b.String()
}

func parse(t testing.TB, text string) *Log {
	t.Helper()
	if !Sniff([]byte(text)) {
		t.Fatal("not recognised")
	}
	l, err := Parse("train.log", []byte(text), -1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ranksOf(v rca.Verdict) []int {
	var out []int
	for _, c := range v.Culprits {
		if c.Rank >= 0 {
			out = append(out, c.Rank)
		}
	}
	return out
}

func TestWordings(t *testing.T) {
	for _, w := range wordings {
		t.Run(w.name, func(t *testing.T) {
			l := parse(t, job(w, 8, 5))
			ev := Evidence([]*Log{l}, nil, 0).Evidence
			if ev.WorldSize != 8 || len(ev.Comms) != 1 {
				t.Fatalf("%d ranks, groups %+v", ev.WorldSize, ev.Comms)
			}
			m := ev.Ranks[0].Memberships[0]
			op := m.InFlight[0]
			if op.Func != "all_reduce" || op.Seq != 808 || op.Age != 600020*time.Millisecond || m.Completed != 807 || m.Called < 808 {
				t.Errorf("%+v", m)
			}
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
			switch {
			case !strings.Contains(w.prefix(0), "[rank"):
				// Nothing says how many ranks there are, nor that the log is whole.
				if v.Class != rca.Unknown || len(ev.Missing) != 1 || ev.Missing[0].Ranks[0] != 5 {
					t.Errorf("%s %v: %s; missing %+v", v.Class, ranksOf(v), v.Summary, ev.Missing)
				}
			case v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), []int{5}):
				t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
			case w.dump == "" && (len(ev.Missing) != 1 || ev.Missing[0].Ranks[0] != 5):
				// A rank whose watchdog is silent is missing.
				t.Errorf("%s; missing %+v", v.Summary, ev.Missing)
			}
		})
	}
}

// Collectors of logs break lines, colour them and put labels before them.
func TestLabelsAndBrokenLines(t *testing.T) {
	text := job(wordings[3], 4, 2)
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("node-7.cluster [stderr] \x1b[36m")
		for len(line) > 150 {
			cut := strings.LastIndexByte(line[:150], ' ')
			b.WriteString(line[:cut] + "\n")
			line = line[cut:]
		}
		b.WriteString(line)
	}
	ev := Evidence([]*Log{parse(t, b.String())}, nil, 0).Evidence
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
	if v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), []int{2}) {
		t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
	}
}

func TestDesyncReport(t *testing.T) {
	for _, tc := range []struct {
		name, report string
		want         []int
	}{
		{"behind", `
	 - [0] Timeout at collective: ALLREDUCE, #6
	 - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
	     [3] finished collective #5, but didn't join collective #6 (count from 1)
	 - Snapshot of ranks' latest states:
	   #5 finished ranks:
	     [3] finished ALLREDUCE
	   #6 started ranks:
	     [0, 1, 2] started ALLREDUCE
`, []int{3}},
		{"never", `
	 - [0] Timeout at collective: ALLREDUCE, #1
	 - To our best knowledge, ranks [1, 2] are the lagging ranks that caused this timeout. They never joined any collectives
`, []int{1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seq := map[string]int{"behind": 6, "never": 1}[tc.name]
			var b strings.Builder
			for _, r := range []int{0, 3} {
				if slices.Contains(tc.want, r) {
					continue
				}
				fmt.Fprintf(&b, "%s[PG ID 0 PG GUID 0(default_pg) Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.%s",
					global(r), r, seq, tc.report)
			}
			ev := Evidence([]*Log{parse(t, b.String())}, nil, 0).Evidence
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
			if v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), tc.want) {
				t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
			}
		})
	}
}

// PyTorch since 2.7 says what has started, too: fields come in any order, and not all of them.
func TestStatusFields(t *testing.T) {
	status := func(rank int, fields string) string {
		return fmt.Sprintf("%s[PG ID 0 PG GUID 0(default_pg) Rank %d]  failure detected by watchdog at work sequence id: 808 PG status: %s\n", global(rank), rank, fields)
	}
	waits := "last enqueued work: 811, last started work: 808, last completed work: 807"
	for _, tc := range []struct {
		name, odd string
		cause     rca.Cause
	}{
		{"not called", "last enqueued work: 807, last started work: 807, last completed work: 807", rca.CauseNotCalled},
		{"not called, other order", "last completed work: 807, last enqueued work: 807", rca.CauseNotCalled},
		{"called, and its kernel has not begun", "last enqueued work: 811, last started work: 807, last completed work: 807", rca.CauseKernelNotRunning},
		{"not followed", "last enqueued work: 807, last started work: -1, last completed work: 807", rca.CauseNotCalled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := status(0, waits) + status(1, tc.odd) + status(2, waits) + status(3, waits)
			ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
			v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
			if v.Cause != tc.cause || !slices.Equal(ranksOf(v), []int{1}) {
				t.Errorf("%s %s %v: %s", v.Class, v.Cause, ranksOf(v), v.Summary)
			}
		})
	}
}

// The desynchronisation report is believed where it names ranks, without the snapshot of all.
func TestDesyncNamesRanks(t *testing.T) {
	text := global(0) + "[PG ID 0 PG GUID 0(default_pg) Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n" +
		"\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t     [7] finished collective #5, but didn't join collective #6 (count from 1)\n"
	ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
	if v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2}); v.Class != rca.NotEntered || !slices.Equal(ranksOf(v), []int{7}) {
		t.Errorf("%s %v: %s", v.Class, ranksOf(v), v.Summary)
	}
}

// Messages that name no group belong to the group in which their number is pending.
func TestNoGroup(t *testing.T) {
	text := global(0) + "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n" +
		global(1) + "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n" +
		global(1) + "[PG 1 Rank 1] Exception (either an error or timeout) detected by watchdog at work: 9, last enqueued NCCL work: 11, last completed NCCL work: 8.\n"
	ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
	if len(ev.Comms) != 1 || len(ev.Ranks[0].Memberships) != 1 || ev.Ranks[0].Memberships[0].Comm != ev.Ranks[1].Memberships[0].Comm {
		t.Errorf("%+v of %+v", ev.Ranks, ev.Comms)
	}
}

// One rank calls something else, or another size, at the same place.
func TestMismatch(t *testing.T) {
	for from, to := range map[string]string{
		"OpType=ALLREDUCE":                      "OpType=_ALLGATHER_BASE",
		"NumelIn=9801523, NumelOut=9801523":     "NumelIn=512, NumelOut=512",
		"SeqNum=808, OpType=ALLREDUCE, NumelIn": "SeqNum=808, OpType=BROADCAST, NumelIn",
	} {
		text := job(wordings[2], 4)
		i := strings.Index(text, "[Rank 2] Watchdog")
		text = text[:i] + strings.Replace(text[i:], from, to, 1)
		ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
		v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
		if v.Class != rca.Inconsistent || !slices.Equal(ranksOf(v), []int{2}) {
			t.Errorf("%s: %s %v: %s", to, v.Class, ranksOf(v), v.Summary)
		}
	}
}

// The log of a job that was started again holds the failure of its first attempt too.
func TestAttempts(t *testing.T) {
	first := job(wordings[3], 4, 1)
	second := strings.NewReplacer("808", "108", "811", "111", "807", "107").Replace(job(wordings[3], 4, 3))
	r := Evidence([]*Log{parse(t, first+second)}, nil, 0)
	ev, notes := r.Evidence, r.Notes
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
	if !slices.Equal(ranksOf(v), []int{3}) || !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "started") }) {
		t.Errorf("%v: %s, %q", ranksOf(v), v.Summary, notes)
	}
}

// Groups that other sources know keep their identity and members.
func TestKnownGroups(t *testing.T) {
	text := fmt.Sprintf("%s[PG ID 5 PG GUID 72(EXPERT) Rank 1]  failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 9, last completed work: 6\n", global(12)) +
		fmt.Sprintf("%s[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLTOALL_BASE, NumelIn=4, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n", global(12))
	known := []rca.Comm{{ID: "72/2/ab", Name: `EXPERT "72"`, Size: 2, Members: []int{8, 12}}, {ID: "72/2/cd", Name: `EXPERT "72"`, Size: 2, Members: []int{9, 13}}}
	ev := Evidence([]*Log{parse(t, text)}, known, 0).Evidence
	if len(ev.Comms) != 1 || ev.Comms[0].ID != "72/2/ab" {
		t.Fatalf("%+v", ev.Comms)
	}
	i := slices.IndexFunc(ev.Ranks, func(r rca.Rank) bool { return r.ID == 12 })
	if m := ev.Ranks[i].Memberships[0]; m.Comm != "72/2/ab" || m.Called != 9 || len(m.InFlight) != 1 || m.InFlight[0].Func != "all_to_all" {
		t.Errorf("%+v", m)
	}
}

// Groups of one name on different ranks are not compared.
func TestSameName(t *testing.T) {
	var b strings.Builder
	for r := range 4 {
		fmt.Fprintf(&b, "%s[PG ID 1 PG GUID tp(tp) Rank %d]  failure detected by watchdog at work sequence id: %d PG status: last enqueued work: %d, last completed work: %d\n",
			global(r), r%2, 5+90*(r/2), 5+90*(r/2), 4+90*(r/2))
	}
	r := Evidence([]*Log{parse(t, b.String())}, nil, 0)
	ev, notes := r.Evidence, r.Notes
	if v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2}); len(ranksOf(v)) > 0 || len(notes) == 0 {
		t.Errorf("%v: %s, %q", ranksOf(v), v.Summary, notes)
	}
}

// A communicator that does not get through its start, in NCCL's own lines.
func TestCommunicatorStart(t *testing.T) {
	var b strings.Builder
	line := func(r int, how string) {
		fmt.Fprintf(&b, "[default%d]:node-%d:%d:%d [%d] NCCL INFO ncclCommInitRankConfig comm 0x55bde5d092d0 rank %d nranks 8 cudaDev %d nvmlDev %d busId 75000 commId 0xb4199a82c0d53582 - Init %s\n",
			r%4, r/4, 700+r, 900+r, r%4, r, r%4, r%4, how)
	}
	for r := range 8 {
		line(r, "START")
	}
	for r := range 8 {
		line(r, "COMPLETE")
	}
	r := Evidence([]*Log{parse(t, b.String())}, nil, 0)
	ev, notes := r.Evidence, r.Notes
	if len(ev.Ranks) != 8 || ev.Ranks[6].Host != "node-1" || ev.Ranks[6].GPU != "2" || ev.Ranks[6].PID != 706 || len(notes) != 0 {
		t.Errorf("%+v, %q", ev.Ranks, notes)
	}
	b.Reset()
	for r := range 8 {
		if r != 6 {
			line(r, "START")
		}
	}
	r = Evidence([]*Log{parse(t, b.String())}, nil, 0)
	ev, notes = r.Evidence, r.Notes
	v := engine.Analyze(ev, rca.Options{HangAfter: 1, FirstOps: -2})
	if v.Class == rca.Healthy || len(ev.Missing) != 1 || ev.Missing[0].Ranks[0] != 6 || len(notes) != 1 {
		t.Errorf("%s: %s, missing %+v, %q", v.Class, v.Summary, ev.Missing, notes)
	}
}

func TestStack(t *testing.T) {
	text := job(wordings[3], 2) + global(1) + "[PG ID 0 PG GUID 0(default_pg) Rank 1] Stack trace of the failed collective: \n#0 all_reduce from /x/torch/distributed/distributed_c10d.py:2696\n#1 step from train.py:15\nother\n#2 no from here\n"
	ev := Evidence([]*Log{parse(t, text)}, nil, 0).Evidence
	if got := ev.Ranks[1].Memberships[0].InFlight[0].Stack; !slices.Equal(got, []string{"step (train.py:15)", "all_reduce (/x/torch/distributed/distributed_c10d.py:2696)"}) {
		t.Errorf("%q", got)
	}
}

func TestForeign(t *testing.T) {
	for _, text := range []string{"hello\n", "", "[rank0]: all is well\n", "n1:1:2 [0] NCCL INFO Using network IB\n"} {
		if Sniff([]byte(text)) {
			t.Errorf("%q is recognised", text)
		}
	}
	if _, err := Parse("x", []byte("[rank0]: Watchdog caught up\n"), -1); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, w := range wordings {
		f.Add([]byte(job(w, 3, 1)))
	}
	f.Add([]byte("n:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xb - Init START\n"))
	f.Add([]byte("[rank0]: Snapshot of ranks' latest states: #5 finished ranks: [3] finished ALLREDUCE #6 started ranks: [0, 1, 2] started ALLREDUCE"))
	f.Add([]byte(died(5, "ValueError: bad batch") + torchrun(5, "node-1", "-9") + "srun: error: node1: tasks 5,7-9: Out Of Memory\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		l, err := Parse("x", data, -1)
		if err != nil {
			return
		}
		ev := Evidence([]*Log{l}, nil, 0).Evidence
		if ev.WorldSize < 1<<10 {
			_ = engine.Analyze(ev, rca.Options{HangAfter: 1})
		}
	})
}
