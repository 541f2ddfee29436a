// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"reflect"
	"strconv"
	"testing"
)

var releases = []string{"2.32.3", "2.30.7", "2.28.9", "2.24.3"}

// TestJobs: what is drawn is the same for a seed and another for another one, has everything in it, and can be run.
func TestJobs(t *testing.T) {
	const count = 3000
	list := Jobs(7, count, releases)
	if !reflect.DeepEqual(list, Jobs(7, count, releases)) {
		t.Error("one seed gives two lists")
	}
	if !reflect.DeepEqual(list[5], One(7, 5, releases)) {
		t.Error("a job depends on those before it")
	}
	if reflect.DeepEqual(list[0], One(8, 0, releases)) {
		t.Error("two seeds give one job")
	}
	seen := map[string]int{}
	for i := range list {
		j := &list[i]
		check(t, j)
		for _, what := range []string{
			j.Release, string(j.Group), string(j.Watch), string(j.When), j.Inside, j.Algo, j.Proto, j.Schedule, j.Gradient, j.Kind(),
			"buffer " + strconv.Itoa(j.Buffer), "ranks " + strconv.Itoa(j.Ranks), "hosts " + strconv.Itoa(j.Hosts), "ep " + strconv.Itoa(j.EP), "cp " + strconv.Itoa(j.CP), "ahead " + strconv.Itoa(j.Ahead),
			"cliques " + strconv.FormatBool(j.Cliques != ""), "several " + strconv.FormatBool(j.PerProcess > 1),
			"graphs " + strconv.FormatBool(j.Graphs), "shrink " + strconv.FormatBool(j.Shrink), "for " + strconv.FormatBool(j.For > 0), "large " + strconv.FormatBool(j.Bytes > 16<<20), "small " + strconv.FormatBool(j.Bytes < 64),
		} {
			seen[what]++
		}
	}
	for _, what := range append([]string{
		"hang", "slow", "benign", "healthy", "plugin", "both", "chain", "hooks", "middle", "first", "last", "net", "shm",
		"allreduce:ring", "allreduce:tree", "Simple", "LL", "LL128", "1f1b", "gpipe", "interleaved", "allreduce", "rs-ag", "fsdp", "cp 2", "cp 4",
		"link-stall", "gpu-freeze", "kernel-stall", "op-not-entered", "other-op", "stop", "kill", "broadcast-not-entered", "init-hang", "split-hang",
		"gpu-slow", "link-slow", "proxy-delay", "data-late", "checkpoint", "first-step", "eval", "none",
		"ranks 4", "ranks 6", "ranks 8", "ranks 12", "ranks 16", "hosts 1", "hosts 2", "hosts 4", "hosts 8", "ep 2", "ep 4", "ep 8", "ahead 4",
		"cliques true", "several true", "for true", "graphs true", "buffer 262144", "buffer 1048576", "buffer 4194304", "shrink true", "large true", "small true",
	}, releases...) {
		if seen[what] < 5 {
			t.Errorf("%s: %d of %d jobs", what, seen[what], count)
		}
	}
}

func check(t *testing.T, j *Job) {
	t.Helper()
	if j.TP*j.DP*j.PP != j.Ranks || j.DP%j.EP != 0 || j.DP%j.CP != 0 || j.Ranks%j.Hosts != 0 || j.Ranks/j.Hosts%j.PerProcess != 0 {
		t.Errorf("%s: %s of %d ranks on %d hosts, %d a process", j.ID(), j.Layout(), j.Ranks, j.Hosts, j.PerProcess)
	}
	if j.Rank >= j.Ranks || j.Rank < 0 || j.Moment < 0 || j.Moment > 1 {
		t.Errorf("%s: fault at rank %d, moment %g", j.ID(), j.Rank, j.Moment)
	}
	if least := min(j.Bytes, j.TPBytes, j.PPBytes, j.EPBytes, j.CPBytes); least < leastBytes || j.Bytes > mostBytes {
		t.Errorf("%s: operations of %d to %d bytes", j.ID(), least, j.Bytes)
	}
	if j.Kind() == "link-slow" && (j.Link <= 0 || j.sent(j.Rank) == 0) || j.Kind() == "link-stall" && j.sent(j.Rank) == 0 {
		t.Errorf("%s: a link fault where nothing is sent", j.ID())
	}
	if j.PP > 1 && !j.has("pp") || j.Schedule == "interleaved" && (j.PP < 3 || j.Micro%j.PP != 0) {
		t.Errorf("%s: %s, %s of %d microbatches, %s", j.ID(), j.Layout(), j.Schedule, j.Micro, j.Cliques)
	}
}

// TestGroups: the members of a rank's communicators, as the training program numbers them.
func TestGroups(t *testing.T) {
	j := Job{Ranks: 16, Hosts: 4, TP: 2, DP: 4, PP: 2, EP: 2, CP: 1}
	want := map[string][]int{"tp": {12, 13}, "dp": {9, 11, 13, 15}, "pp": {5, 13}, "ep": {13, 15}}
	if got := j.groups(13); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	j.Cliques = "dp,pp"
	delete(want, "tp")
	delete(want, "ep")
	if got := j.groups(13); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSent: in shared memory only what certainly leaves the host counts.
func TestSent(t *testing.T) {
	j := Job{Ranks: 8, Hosts: 4, TP: 2, DP: 4, PP: 1, EP: 1, CP: 1, Inside: "net", Micro: 1, Buckets: 1, Bytes: 800, TPBytes: 100}
	if got, want := j.sent(3), 2*0.75*800+2*100.0; got != want {
		t.Errorf("over sockets %g bytes, want %g", got, want)
	}
	j.Inside = "shm"
	if got, want := j.sent(3), 2*0.75*800; got != want {
		t.Errorf("beside shared memory %g bytes, want %g", got, want)
	}
	j.Hosts = 1
	if got := j.sent(3); got != 0 {
		t.Errorf("within a host %g bytes", got)
	}
}
