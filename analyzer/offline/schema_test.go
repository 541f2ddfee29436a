// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/offline/report"
)

// schema is what of JSON Schema the verdict's schema uses.
type schema struct {
	Type       any               `json:"type"` // A name, or several.
	Ref        string            `json:"$ref"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	OneOf      []schema          `json:"oneOf"`
	Minimum    *float64          `json:"minimum"`
	Maximum    *float64          `json:"maximum"`
	Defs       map[string]schema `json:"$defs"`
}

// check says what of v is not as the schema has it. Fields that the schema does not know are wrong too.
func (s *schema) check(v any, defs map[string]schema, at string) []string {
	if s.Ref != "" {
		def, ok := defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
		if !ok {
			return []string{at + ": the schema lacks " + s.Ref}
		}
		return def.check(v, defs, at)
	}
	if len(s.OneOf) > 0 {
		for i := range s.OneOf {
			if s.OneOf[i].check(v, defs, at) == nil {
				return nil
			}
		}
		return []string{at + ": none of the forms"}
	}
	var wrong []string
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s: %v is none of %v", at, v, s.Enum))
	}
	kind := map[bool]string{true: "null"}[v == nil]
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				wrong = append(wrong, at+": lacks "+name)
			}
		}
		for name, value := range v {
			p, ok := s.Properties[name]
			if !ok {
				wrong = append(wrong, at+": the schema has no "+name)
				continue
			}
			wrong = append(wrong, p.check(value, defs, at+"."+name)...)
		}
	case []any:
		kind = "array"
		for i, value := range v {
			if s.Items != nil {
				wrong = append(wrong, s.Items.check(value, defs, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			wrong = append(wrong, fmt.Sprintf("%s: %g is out of bounds", at, v))
		}
	}
	if s.Type != nil && !strings.Contains(fmt.Sprint(s.Type), strings.Replace(kind, "number", map[bool]string{true: "integer"}[s.Type == "integer"], 1)) {
		wrong = append(wrong, fmt.Sprintf("%s: is of type %s, not %v", at, kind, s.Type))
	}
	return wrong
}

// What is printed for every kind of input is as the schema says, and nothing else.
func TestJSONSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "api", "verdict.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	verdict, ok := root.Defs["verdict"]
	if !ok {
		t.Fatal("the schema has no verdict")
	}
	uneven := shape{4, func(rank int) float64 { return 80 + 160*float64(rank/3) }, 10}
	watchdog := "[rank0]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5\n" +
		"[rank1]:[E1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from rank 0. Last enqueued NCCL work: 5, last completed NCCL work: 5.\n"
	stacks := "Process 41: python train.py\nPython v3.11.7 (/usr/bin/python3)\n\nThread 41 (active): \"MainThread\"\n    step (train.py:7)\n    <module> (train.py:9)\n"
	inspector := `{"header":{"id":"0x9","rank":4,"n_ranks":8},"metadata":{"hostname":"h","pid":7},"coll_perf":{"coll":"AllReduce","coll_sn":7,"coll_msg_size_bytes":8,"coll_exec_time_us":6}}`
	for name, args := range map[string][]string{
		"Flight Recorder, hang":     {filepath.Join("testdata", "torch", "torch-2.10.0", "hang.tar.gz")},
		"Flight Recorder, mismatch": {filepath.Join("testdata", "torch", "torch-2.10.0", "op_mismatch.tar.gz")},
		"RAS":                       {filepath.Join("ras", "testdata", "2.24-mismatch.txt")},
		"RAS, JSON":                 {filepath.Join("ras", "testdata", "2.29-first.json"), filepath.Join("ras", "testdata", "2.29-second-stuck.json")},
		"op table":                  {uneven.table(t, true)},
		"op table, compared":        {uneven.table(t, false), "--compare", uneven.table(t, true)},
		"profiler traces":           {uneven.traces(t)},
		"Inspector":                 {put(t, t.TempDir(), "log.json", []byte(inspector))},
		"job log":                   {put(t, t.TempDir(), "job.log", []byte(watchdog))},
		"py-spy":                    {put(t, t.TempDir(), "rank_0.txt", []byte(stacks))},
	} {
		t.Run(name, func(t *testing.T) {
			_, out, errs := run(t, "", append(args, "--json")...)
			var d struct {
				Version int `json:"version"`
				Verdict any `json:"verdict"`
				Sources []struct {
					Verdict any `json:"verdict"`
				} `json:"sources"`
			}
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs)
			}
			if d.Version != report.JSONVersion || len(d.Sources) == 0 {
				t.Errorf("%s", out)
			}
			wrong := verdict.check(d.Verdict, root.Defs, "verdict")
			for i, s := range d.Sources {
				wrong = append(wrong, verdict.check(s.Verdict, root.Defs, fmt.Sprintf("sources[%d].verdict", i))...)
			}
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
	// The check itself finds what is wrong.
	if got := verdict.check(map[string]any{"version": "1", "class": "sad", "other": 1.0}, root.Defs, "v"); len(got) < 5 {
		t.Errorf("%q", got)
	}
}
