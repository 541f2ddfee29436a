// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// publicCase is a text as somebody might paste it, with what a person could tell from it.
type publicCase struct {
	name string
	// files below testdata/public; none: text is the whole input, named log.
	files []string
	text  string
	log   string
	args  []string
	exit  int
	// ranks are those that may be named; all of them must be, unless any is right.
	ranks []int
	// head are parts of the headline; says of the whole report, never of nothing in it.
	head, says, never []string
}

// public are 31 classes of fault, one small input each, and further ones of the same classes.
var public = []publicCase{
	{name: "compose-prefix", files: []string{"compose.log"}, exit: ExitFound, ranks: []int{1}, head: []string{"count (sampler.py:7)", "all_reduce"}, says: []string{"301"}},
	{name: "deepspeed-return-code", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"501, 502", "signal 11", "last"}, never: []string{"rank 1"}},
	{name: "digit-in-name-merges-processes", files: []string{"run2.log"}, exit: ExitFound, ranks: []int{1}, head: []string{"count (sampler.py:7)"}},
	{name: "dump-thread-blamed", files: []string{"server.log"}, exit: ExitUnknown, head: []string{"ranks 1 and 2", "recv"}, never: []string{"server.log is in"}},
	{name: "duplicate-gpu-torch", files: []string{"job.log"}, exit: ExitFound, ranks: []int{0, 3}, head: []string{"same GPU", "misconfigured"}, says: []string{"set_device"}, never: []string{"py-spy"}},
	{
		name: "extra-suspects-beside-mismatch", files: []string{"job.log"}, exit: ExitFound, ranks: []int{3, 7}, head: []string{"rank 3 called all_reduce, rank 7 called broadcast", "at place 9"},
		never: []string{"at place 8", "is a suspect"},
	},
	{name: "foreign-library", files: []string{"plog.log"}, exit: ExitUnknown, head: []string{"Rank 24", "HCCL"}},
	{name: "frtrace-text", files: []string{"out.txt"}, exit: ExitFound, ranks: []int{2, 3}, head: []string{"all_reduce #12", "default_pg"}},
	{name: "gdb-file-name-rank", files: []string{"gdb_GPU9.txt"}, exit: ExitUnknown, head: []string{"Rank 0", "2 ranks", "rank 1"}, never: []string{"rank 9"}},
	{name: "healthy-after-dump-signal", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"rank 1", "another group"}, says: []string{"Watchdog caught", "Flight Recorder"}},
	{name: "kernel-log", files: []string{"train.log", "dmesg.txt"}, exit: ExitFound, ranks: []int{1}, head: []string{"Xid 79", "fallen off the bus", "gpu-a"}, says: []string{"Drain"}},
	{name: "launcher-signalled", files: []string{"job.log"}, exit: ExitFound, head: []string{"launcher", "SIGHUP", "terminal"}, says: []string{"tmux"}},
	{name: "log-begins-with-bracket", files: []string{"server.log"}, exit: ExitFound, ranks: []int{1}, head: []string{"count (sampler.py:7)"}},
	{name: "mismatch-without-numbers", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"rank 0 in all_reduce", "ranks 1, 2 in broadcast"}},
	{name: "mpirun-noticed", files: []string{"job.log"}, exit: ExitFound, ranks: []int{7}, head: []string{"gpu-b", "signal 9"}, says: []string{"4711"}},
	{name: "nccl-connect", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"Process 50 on gpu-a", "10.0.0.9", "52333", "refused"}, says: []string{"nc -vz", "NCCL_SOCKET_IFNAME"}},
	{name: "nccl-service-thread", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"Local rank 7 on gpu-a"}},
	{name: "nccl-warn-other-header", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"GET /met", "166", "worker-9"}, says: []string{"ank 604 on gpu-a", "socketPollConnect poll() returned 1"}},
	{name: "nothing-was-seen", files: []string{"job.log"}, exit: ExitFound, ranks: []int{0, 1}, head: []string{"gpu-a", "same GPU"}, says: []string{"set_device"}, never: []string{"py-spy"}},
	{name: "nothing-was-seen", files: []string{"b/other.log"}, exit: ExitFound, head: []string{"data loader", "shared memory", "does not say which rank"}, says: []string{"--shm-size"}, never: []string{"py-spy"}},
	{name: "nranks-of-old-lines", files: []string{"job.log"}, exit: ExitUnknown, says: []string{"0-10, 12-15", "of 16"}, never: []string{"11 ranks of 12"}},
	{name: "rank-in-the-message", files: []string{"job.log"}, exit: ExitFound, ranks: []int{3}, head: []string{"nan"}, says: []string{"gpu-c", "not a transient hardware error"}},
	{name: "rank-in-the-message", files: []string{"b/other.log"}, exit: ExitFound, ranks: []int{3}, head: []string{"NaN"}, says: []string{"gpu-c"}},
	{name: "silent-highest-rank", files: []string{"job.log"}, exit: ExitFound, ranks: []int{2}, says: []string{"gpu-a"}, never: []string{"NVLink is to blame"}},
	{name: "spawn-terminated", files: []string{"job.log"}, exit: ExitFound, head: []string{"ocal rank 3", "SIGKILL"}},
	{name: "srun-oom-host", files: []string{"job.log"}, exit: ExitFound, ranks: []int{1, 2, 3}, head: []string{"gpu-a", "memory"}, says: []string{"--mem"}},
	{name: "store-clients-missing", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"3 of 4", "start of the job"}},
	{name: "store-host-gone", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"Ranks 2, 3", "h0", "rank 0"}},
	{name: "torchrun-one-line", files: []string{"job.log"}, exit: ExitFound, head: []string{"Local rank 2", "103", "SIGKILL"}, never: []string{"101)", "102)"}},
	{name: "unlabelled-line-dropped", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"2 ranks wait"}, never: []string{"rank 0: the log has no line"}},
	{name: "vllm-worker-exception", files: []string{"job.log"}, exit: ExitFound, ranks: []int{3}, head: []string{"PP3", "ValueError: mine", "run (/x/w.py:3)"}},
	{name: "watchdog-cuda-error", files: []string{"job.log"}, exit: ExitFound, ranks: []int{3}, head: []string{"ECC"}, says: []string{"Drain", "ROW_REMAPPER"}},
	{name: "watchdog-remote-error", files: []string{"job.log"}, exit: ExitUnknown, head: []string{"Rank 5", "10.0.0.9", "Broken pipe", "victim"}},
}

// judgePublic runs the command on a case.
func judgePublic(t *testing.T, c *publicCase) (verdict, report string) {
	t.Helper()
	var paths []string
	for _, f := range c.files {
		paths = append(paths, filepath.Join("testdata", "public", c.name, f))
	}
	if len(paths) == 0 {
		paths = []string{writeFile(t, c.log, c.text)}
	}
	var doc, text, errs bytes.Buffer
	exit := Main(t.Context(), append(append([]string{"--json"}, c.args...), paths...), &doc, &errs)
	Main(t.Context(), append(append([]string{"--explain"}, c.args...), paths...), &text, &errs)
	report = text.String()
	if exit == ExitData {
		return judgedNotRead, errs.String()
	}
	var out struct{ Verdict rca.Verdict }
	if err := json.Unmarshal(doc.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	var named []int
	for _, k := range out.Verdict.Culprits {
		if k.Rank >= 0 {
			named = append(named, k.Rank)
		}
	}
	slices.Sort(named)
	for _, r := range named {
		if !slices.Contains(c.ranks, r) && (len(c.ranks) == 0 || !containsAll(c.ranks, named)) && !subset(c.ranks, named) {
			return judgedWrong, report
		}
	}
	headline, _, _ := strings.Cut(report, "\n")
	for _, s := range c.never {
		if strings.Contains(report, s) {
			return judgedWrong, fmt.Sprintf("it says %q:\n%s", s, report)
		}
	}
	if len(c.ranks) > 0 && len(named) == 0 {
		return judgedUnknown, report
	}
	for _, s := range c.head {
		if !strings.Contains(headline, s) {
			return judgedUnknown, fmt.Sprintf("the headline lacks %q:\n%s", s, report)
		}
	}
	for _, s := range c.says {
		if !strings.Contains(report, s) {
			return judgedUnknown, fmt.Sprintf("the report lacks %q:\n%s", s, report)
		}
	}
	switch {
	case exit != c.exit:
		return judgedUnknown, fmt.Sprintf("exit code %d, want %d:\n%s", exit, c.exit, report)
	case !slices.Equal(named, c.ranks) && len(named) > len(c.ranks):
		return judgedWider, report
	case !slices.Equal(named, c.ranks):
		return judgedUnknown, report
	}
	return judgedRight, report
}

func containsAll(all, some []int) bool {
	return !slices.ContainsFunc(some, func(r int) bool { return !slices.Contains(all, r) })
}

// subset: the ranks meant are among those named, which is wider.
func subset(meant, named []int) bool { return len(meant) > 0 && containsAll(named, meant) }

// Texts that people have in hand, judged by what a person could tell from them.
func TestPublic(t *testing.T) {
	for _, set := range []struct {
		name  string
		cases []publicCase
	}{{"the 31 classes", public}, {"others of the classes", publicOthers}} {
		counts := map[string]int{}
		var table strings.Builder
		tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
		for i := range set.cases {
			c := &set.cases[i]
			got, report := judgePublic(t, c)
			counts[got]++
			fmt.Fprintf(tw, "%s\t%s\n", c.name, got)
			if got != judgedRight && got != judgedWider {
				t.Errorf("%s: %s: %s", c.name, got, report)
			}
		}
		_ = tw.Flush()
		t.Logf("\n%s%s: right %d, wider %d, unknown %d, wrong %d, not read %d", table.String(), set.name, counts[judgedRight], counts[judgedWider], counts[judgedUnknown], counts[judgedWrong], counts[judgedNotRead])
	}
}
