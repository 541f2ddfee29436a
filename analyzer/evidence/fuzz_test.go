// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
	"github.com/culprit-project/culprit/analyzer/rca/rcatest"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// FuzzState feeds an exporter's answer through evidence and engine: any answer must lead to a verdict.
func FuzzState(f *testing.F) {
	for _, state := range []*nodeapi.State{
		stateOf("a", *process1()), stateOf("b", rankProcess(0, "b"), rankProcess(1, "b"), rankProcess(2, "b")),
	} {
		text, err := json.Marshal(state)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"version":1,"now_ns":18446744073709551615,"processes":[{"job_id":"job","rank":2147483647,"comms":[{"nranks":-5,"rank":2147483647,"generation":1}]}]}`)
	f.Add(`{"version":1,"now_ns":9000000000,"processes":[` +
		`{"job_id":"job","rank":0,"calls_seen":true,"calls":[{"name":"ncclCommInitRank","id":"10","size":2,"tid":1,"since_ns":1}]},` +
		`{"job_id":"job","rank":1,"calls_seen":true,"comms":[{"comm":"beef","nranks":2,"rank":1,"generation":1}],` +
		`"calls":[{"name":"ncclCommSplit","id":"11","size":4294967295,"comm":"beef","comm_ranks":2,"since_ns":2}]}]}`)
	f.Add(`{"version":1,"now_ns":9,"processes":[{"job_id":"job","rank":-1,"calls":[{"name":"ncclCommDestroy","id":"10","size":1},{"name":""}]},` +
		`{"job_id":"job","rank":5,"calls_seen":true,"calls":[{"name":"ncclCommAbort","id":"10","comm":"1","returned_ns":1}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		state := new(nodeapi.State)
		if err := json.Unmarshal([]byte(text), state); err != nil {
			return
		}
		n := &Node{Base: "http://a", asked: true, state: state}
		s := &Session{job: identity.Job{ID: "job"}, g: &Gatherer{Directory: directory(&prom{})}, nodes: []*Node{n}}
		s.histories = []history{s.historyOfState(n)}
		ev := s.Evidence()
		for _, c := range ev.Comms {
			if len(c.Members) > 1<<20 {
				t.Fatalf("%d members", len(c.Members))
			}
		}
		if span := s.Span(t.Context(), s.AllNodes(), time.Minute); span <= 0 || span > time.Minute {
			t.Errorf("span is %s", span)
		}
		if !rcatest.Small(&ev) {
			return
		}
		v := engine.Analyze(ev, rca.Options{})
		if v.Class == "" || v.Confidence < 0 || v.Confidence > 1 {
			t.Errorf("verdict is %+v", v)
		}
	})
}
