// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
)

// record is a JSON record as Inspector writes it; a start of 0 leaves the trace out.
func record(comm string, rank, size, pid int, sn, execUS, startUS int64) string {
	trace := ""
	if startUS > 0 {
		trace = fmt.Sprintf(`,"event_trace_ts":{"coll_start_ts":%d,"coll_stop_ts":%d,"kernel_events":[{"channel_id":0,"kernel_start_ts":%d,"kernel_stop_ts":%d},{"channel_id":1,"kernel_start_ts":%d,"kernel_stop_ts":%d}]}`,
			startUS-9, startUS-5, startUS, startUS+execUS, startUS+1, startUS+execUS/2)
	}
	return fmt.Sprintf(`{"header":{"id":"0x%s","rank":%d,"n_ranks":%d,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","dump_timestamp_us":1752867229276385,"hostname":"h","pid":%d},"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":1024,"coll_exec_time_us":%d,"coll_algobw_gbs":1.5%s}}`+"\n",
		comm, rank, size, pid, sn, execUS, trace)
}

func TestJSON(t *testing.T) {
	var logs []*Log
	for rank := range 4 {
		var b strings.Builder
		for sn := range int64(3) {
			b.WriteString(record("00ab", rank, 4, 100+rank, sn, 500, 1752867229000000+1000*sn))
			if rank < 2 { // A smaller communicator in which the ranks have other numbers.
				b.WriteString(record("cd", 1-rank, 2, 100+rank, sn, 100, 1752867229000600+1000*sn))
			}
		}
		data := []byte(b.String())
		if !SniffJSON(data) {
			t.Fatal("not recognised")
		}
		l, err := ParseJSON(fmt.Sprint("log", rank), data)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	ev, notes, global := Evidence(logs)
	if !global || ev.WorldSize != 4 || len(ev.Ranks) != 4 || len(ev.Missing) != 0 {
		t.Errorf("global %v, world %d, %d ranks, missing %v", global, ev.WorldSize, len(ev.Ranks), ev.Missing)
	}
	i := slices.IndexFunc(ev.Comms, func(c rca.Comm) bool { return c.Size == 2 })
	if !slices.Equal(ev.Comms[i].Members, []int{1, 0}) {
		t.Errorf("members of the smaller communicator: %v", ev.Comms[i].Members)
	}
	if len(ev.Timeline) != 18 {
		t.Fatalf("%d segments", len(ev.Timeline))
	}
	s := ev.Timeline[0]
	if s.Rank != 0 || s.Seq != 0 || s.Start != 1752867229000000e3 || s.End-s.Start != 500e3 || s.SlowestChannel != 0 || s.SlowestTime != 500*time.Microsecond || s.FastestTime != 249*time.Microsecond {
		t.Errorf("first segment %+v", s)
	}
	if len(notes) != 1 {
		t.Errorf("notes %q", notes)
	}
}

// Formats differ in what they add; records of another kind, and broken ones, cost themselves.
func TestFormats(t *testing.T) {
	const header = `{"header":{"id":"0xab","comm_name":"dp","rank":1,"n_ranks":4,"nnodes":2},"metadata":{"inspector_output_format_version":"%s","rec_mechanism":"profiler_plugin","dump_timestamp_us":1752867229276385,"hostname":"h","pid":7}`
	for version, records := range map[string]string{
		"v4.0": `,"coll_perf":{"coll":"AllReduce","coll_sn":3,"coll_msg_size_bytes":64,"coll_exec_time_us":412,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1,"coll_busbw_gbs":1}}`,
		"v4.1": `,"dump_stats":{"coll_dropped":4}}` + "\n" + fmt.Sprintf(header, "v4.1") + `,"coll_perf":{"coll":"AllReduce","coll_sn":3,"coll_msg_size_bytes":64,"coll_exec_time_us":412.0}}`,
		"v4.2": `,"coll_perf":{"coll":"AllReduce","coll_algo":"RING","coll_proto":"LL","coll_sn":3,"coll_msg_size_bytes":64,"coll_exec_time_us":412}}`,
		"v5.0": `,"coll_perf":{"coll":"AllReduce","coll_sn":"three"}}` + "\n" + fmt.Sprintf(header, "v5.0") + `,"coll_perf":{"coll":"AllReduce","coll_sn":3,"coll_msg_size_bytes":64,"coll_exec_time_us":4.12e2,"later":{"a":[1]}}}`,
		"p2p":  `,"p2p_perf":{"p2p":"AllReduce","p2p_sn":3,"p2p_peer":-1,"p2p_msg_size_bytes":64,"p2p_exec_time_us":412}}`,
	} {
		data := []byte(fmt.Sprintf(header, version) + records + "\n")
		if !SniffJSON(data) {
			t.Errorf("%s is not recognised", version)
		}
		l, err := ParseJSON("x", data)
		if err != nil || len(l.Records) != 1 || l.CutOff {
			t.Errorf("%s: %+v, %v", version, l, err)
			continue
		}
		if r := l.Records[0]; r.Func != "AllReduce" || r.Seq != 3 || r.Took != 412*time.Microsecond || r.Rank != 1 || r.Size != 4 {
			t.Errorf("%s: %+v", version, r)
		}
		if (version == "v5.0") != (l.Skipped == 1) {
			t.Errorf("%s: %d skipped", version, l.Skipped)
		}
	}
}

func TestWithoutTimes(t *testing.T) {
	l, err := ParseJSON("x", []byte(record("ab", 0, 2, 5, 0, 40, 0)+record("ab", 0, 2, 5, 1, 60, 0)+`{"header":{"id`))
	if err != nil || !l.CutOff {
		t.Fatalf("%+v, %v", l, err)
	}
	ev, notes, _ := Evidence([]*Log{l})
	if ev.Timeline[1].Start != ev.Timeline[0].End || ev.Timeline[1].End-ev.Timeline[1].Start != 60e3 {
		t.Errorf("%+v", ev.Timeline)
	}
	if len(ev.Missing) != 1 || !slices.Equal(ev.Missing[0].Ranks, []int{1}) {
		t.Errorf("missing %+v", ev.Missing)
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "VERBOSE") }) {
		t.Errorf("notes %q", notes)
	}
}

// Without times who leaves an operation together with the others and stays in it for less came later. Whose records are
// lacking did not.
func TestAlign(t *testing.T) {
	const late, steps = 2, 40
	log := func(rank int, lost bool, order []string) string {
		var b strings.Builder
		for step := range int64(steps) {
			for _, fn := range order {
				took := int64(5000)
				if fn == "AllReduce" && rank != late {
					took += 15_000
				}
				if lost && step%3 == 0 {
					continue
				}
				fmt.Fprintf(&b, `{"header":{"id":"0xab","rank":%d,"n_ranks":4},"metadata":{"dump_timestamp_us":%d,"hostname":"h","pid":%d},"coll_perf":{"coll":%q,"coll_sn":%d,"coll_msg_size_bytes":65536,"coll_exec_time_us":%d}}`+"\n",
					rank, 1_752_867_229_000_000+60_000*step, 100+rank, fn, step, took)
			}
		}
		return b.String()
	}
	for _, tc := range []struct {
		name  string
		lost  int // Whose log lacks records; -1 nobody's.
		order []string
		list  bool
	}{
		{"all records", -1, []string{"AllReduce", "AllGather"}, false},
		{"as a list", -1, []string{"AllReduce", "AllGather"}, true},
		{"another's log lacks records", 1, []string{"AllReduce", "AllGather"}, false},
		{"the late one's log lacks records", late, []string{"AllReduce", "AllGather"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var logs []*Log
			for rank := range 4 {
				text := log(rank, rank == tc.lost, tc.order)
				if tc.list {
					text = "[\n" + strings.Join(strings.Split(strings.TrimSpace(text), "\n"), ",\n") + "\n]\n"
				}
				l, err := ParseJSON(fmt.Sprint("log", rank), []byte(text))
				if err != nil {
					t.Fatal(err)
				}
				logs = append(logs, l)
			}
			ev, _, _ := Evidence(logs)
			v := engine.Analyze(ev, rca.Options{})
			if v.Class != rca.SlowCompute || len(v.Culprits) != 1 || v.Culprits[0].Rank != late {
				t.Errorf("%s %v: %s", v.Class, v.Culprits, v.Summary)
			}
			// Of 60 ms a step it computes 15 longer than it might.
			if tc.lost < 0 && (v.Slowdown < 1.2 || v.Slowdown > 1.5) {
				t.Errorf("slowdown %g: %s", v.Slowdown, v.Summary)
			}
		})
	}
}

// Ranks that wrote their operations in different orders are laid all the same, and nobody moves back in time.
func TestAlignDisorder(t *testing.T) {
	var records []Record
	for rank, order := range [][]string{{"AllReduce", "AllGather"}, {"AllGather", "AllReduce"}} {
		for _, fn := range order {
			records = append(records, Record{Comm: "a", Rank: rank, Size: 2, Func: fn, Seq: 1, Peer: -1, Took: time.Millisecond, PID: rank})
		}
	}
	got := align(records, func(r *Record) int { return r.PID })
	if len(got) != 4 {
		t.Fatalf("%d records", len(got))
	}
	for _, r := range got {
		if r.Start <= 0 || r.End-r.Start != int64(r.Took) {
			t.Errorf("%+v", r)
		}
	}
}

func TestPrometheusText(t *testing.T) {
	text := `# HELP nccl_bus_bandwidth_gbs x
nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="7",node="n1",gpu="GPU0",comm_name="DP Group 0",n_nodes="1",nranks="2",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 678.263
nccl_collective_exec_time_microseconds{version="v5.1",slurm_job_id="7",node="n1",gpu="GPU0",comm_name="DP \"0\", x",n_nodes="1",nranks="2",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 1000.5
nccl_collective_exec_time_microseconds{version="v5.1",slurm_job_id="7",node="n1",gpu="GPU1",comm_name="DP \"0\", x",n_nodes="1",nranks="2",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 2000 1700000000
nccl_p2p_exec_time_microseconds{node="n1",gpu="GPU1",comm_name="pp",nranks="2",p2p_operation="Send",message_size="1-2MB"} 3
`
	if !SniffText([]byte(text)) {
		t.Fatal("not recognised")
	}
	l, err := ParseText("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Records) != 3 {
		t.Fatalf("%d records", len(l.Records))
	}
	if r := l.Records[0]; r.CommName != `DP "0", x` || r.Took != 1000500 || r.GPU != "0" || r.Func != "AllReduce 4-5GB Ring_ll" {
		t.Errorf("%+v", r)
	}
	ev, notes, global := Evidence([]*Log{l})
	if global || len(ev.Ranks) != 2 || ev.Ranks[1].GPU != "1" || len(notes) < 2 {
		t.Errorf("global %v, ranks %+v, notes %q", global, ev.Ranks, notes)
	}
}

func TestForeign(t *testing.T) {
	for name, data := range map[string]string{
		"empty":     "",
		"other":     `{"header":{},"metadata":{}}`,
		"bad ranks": record("ab", 5, 2, 1, 0, 1, 0),
	} {
		if _, err := ParseJSON(name, []byte(data)); !errors.Is(err, ErrNotLog) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseText("x", []byte("nccl_p2p_exec_time_microseconds{node=\"a")); !errors.Is(err, ErrNotLog) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(record("ab", 0, 2, 5, 0, 40, 0) + record("ab", 1, 2, 6, 1, 60, 1752867229000000)))
	f.Add([]byte("nccl_collective_exec_time_microseconds{node=\"a\",gpu=\"GPU0\",comm_name=\"x\",nranks=\"2\",collective=\"AllReduce\"} 5\n"))
	f.Add([]byte(`{"header":{"id":"1","rank":0,"n_ranks":2},"p2p_perf":{"p2p":"Send","p2p_sn":1,"p2p_peer":1,"p2p_exec_time_us":4}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var logs []*Log
		if l, err := ParseJSON("a", data); err == nil {
			logs = append(logs, l)
		}
		if l, err := ParseText("b", data); err == nil {
			logs = append(logs, l)
		}
		if ev, _, _ := Evidence(logs); rcatest.Small(&ev) {
			_ = engine.Analyze(ev, rca.Options{})
		}
	})
}
