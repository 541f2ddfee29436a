// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stackdump

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

const dump = `Process 24247: python3 train.py --steps 5
Python v3.11.7 (/usr/bin/python3.11)

Thread 24247 (idle): "MainThread"
    wait_for_data (loader.py:3)
    train (train.py:5)
    <module> (train.py:6)
Thread 24250 (active+gil): "pin"
    0x7f12 (libcuda.so)
    run (threading.py:975)
`

const jsonDump = `[{"pid":24247,"thread_id":140096,"thread_name":"MainThread","active":false,"owns_gil":false,"frames":[
 {"name":"wait_for_data","filename":"/x/loader.py","short_filename":"loader.py","line":3},{"name":"train","filename":"/x/train.py","short_filename":"train.py","line":5},
 {"name":"<module>","filename":"/x/train.py","short_filename":"train.py","line":6}]},
 {"pid":24247,"thread_id":5,"thread_name":null,"active":true,"owns_gil":true,"frames":[]}]`

const folded = `process 24247:"python3 train.py";<module> (train.py:6);train (train.py:5);wait_for_data (loader.py:3) 90
process 24247:"python3 train.py";<module> (train.py:6);train (train.py:8);log (log.py:1) 10
`

var wantStack = []string{"<module> (train.py:6)", "train (train.py:5)", "wait_for_data (loader.py:3)"}

func TestParse(t *testing.T) {
	for name, data := range map[string]string{"dump": dump, "json": jsonDump, "folded": folded, "dump with CRLF": strings.ReplaceAll(dump, "\n", "\r\n")} {
		if !Sniff([]byte(data)) {
			t.Errorf("%s is not recognised", name)
		}
		ps, err := Parse(name, []byte(data))
		if err != nil || len(ps) != 1 {
			t.Errorf("%s: %+v, %v", name, ps, err)
			continue
		}
		if got := ps[0].Main(); ps[0].PID != 24247 || !slices.Equal(got, wantStack) {
			t.Errorf("%s: pid %d, stack %q", name, ps[0].PID, got)
		}
		if len(ps[0].Threads) != 2 {
			t.Errorf("%s: %d threads", name, len(ps[0].Threads))
		}
	}
	for _, data := range []string{"", "hello\n", "[]", `[{"frames":1,"thread_id":2}]`, "a,b,c\n1,2,3\n", "2026-01-01 INFO step 5\n"} {
		if _, err := Parse("x", []byte(data)); err == nil {
			t.Errorf("%q was read", data)
		}
		if data != `[{"frames":1,"thread_id":2}]` && Sniff([]byte(data)) {
			t.Errorf("%q is recognised", data)
		}
	}
	if _, err := Parse("x", []byte("hello 5\nx\n")); err != nil && !errors.Is(err, ErrNotStacks) {
		t.Error(err)
	}
}

func TestEvidence(t *testing.T) {
	read := func(file, data string) Process {
		ps, err := Parse(file, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return ps[0]
	}
	byName := func(file string) int {
		var n int
		if _, err := fmt.Sscanf(file, "rank_%d", &n); err != nil {
			return -1
		}
		return n
	}
	other := strings.ReplaceAll(dump, "24247", "99")
	ev, notes, _ := Evidence([]Process{read("somewhere", dump), read("rank_3", other), read("rank_3.again", other), read("nobody", other)},
		Known{ByPID: map[int][]int{24247: {7}}, ByName: byName})
	if len(ev.Ranks) != 2 || ev.Ranks[0].ID != 3 || ev.Ranks[1].ID != 7 || !slices.Equal(ev.Ranks[1].Stack, wantStack) {
		t.Errorf("%+v", ev.Ranks)
	}
	if len(notes) != 1 || len(ev.Missing) != 1 || ev.Missing[0].Name != "nobody" {
		t.Errorf("notes %q, missing %+v", notes, ev.Missing)
	}
	if len(ev.Facts) != 2 || ev.Facts[0].Kind != "gil_held" {
		t.Errorf("facts %+v", ev.Facts)
	}
}

// Two ranks of different nodes can have one process number: then the file's name decides.
func TestAmbiguousPID(t *testing.T) {
	ps, err := Parse("rank_5.txt", []byte(dump))
	if err != nil {
		t.Fatal(err)
	}
	ev, _, _ := Evidence(ps, Known{ByPID: map[int][]int{24247: {1, 5}}, ByName: func(string) int { return 5 }})
	if len(ev.Ranks) != 1 || ev.Ranks[0].ID != 5 {
		t.Errorf("%+v", ev.Ranks)
	}
}

func TestClusters(t *testing.T) {
	a, b := []string{"x", "all_reduce"}, []string{"x", "read"}
	got := Clusters([]rca.Rank{{ID: 2, Stack: b}, {ID: 1, Stack: a}, {ID: 0, Stack: a}, {ID: 4}, {ID: 3, Stack: a}})
	if len(got) != 2 || !slices.Equal(got[0].Ranks, []int{0, 1, 3}) || !slices.Equal(got[1].Ranks, []int{2}) {
		t.Errorf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{dump, jsonDump, folded, faulthandler, gdb, pyBT, pystack, euStack} {
		f.Add([]byte(s))
	}
	f.Add([]byte(merged))
	f.Add([]byte(flame))
	f.Fuzz(func(t *testing.T, data []byte) {
		ps, err := Parse("x", data)
		if err == nil && len(ps) == 0 {
			t.Error("nothing and no error")
		}
		ev, _, _ := Evidence(ps, Known{ByName: func(string) int { return 0 }})
		_ = engine.Analyze(ev, rca.Options{})
		_ = Clusters(ev.Ranks)
	})
}
