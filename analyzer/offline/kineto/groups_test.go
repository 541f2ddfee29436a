// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/engine"
)

// Newer profilers describe the groups of the job before the events, under the name that Flight Recorder dumps use too.
const header = `{"schemaVersion":1,"deviceProperties":[],"distributedInfo":{"backend":"nccl","rank":%d,"world_size":64,` +
	`"pg_count":1,"pg_config":[{"pg_name":"7","pg_desc":"DATA","backend_config":"cuda:nccl","pg_size":40,"ranks":%s}]},"traceEvents":[%s]}`

func TestGroupsOfTheHeader(t *testing.T) {
	members := make([]int, 40)
	for i := range members {
		members[i] = i + 20
	}
	list := strings.ReplaceAll(fmt.Sprint(members), " ", ", ")
	event := `{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)","pid":0,"tid":20,"ts":1,"dur":2,"args":{"Collective name":"allreduce",` +
		`"Group size":40,"Process Group Name":"7","Process Group Description":"DATA","Process Group Ranks":"[20, 21, 22, ..., 59]"}}`
	var traces []*Trace
	for _, r := range []int{20, 33} {
		data := fmt.Appendf(nil, header, r, list, event)
		if head, _, ok := bytes.Cut(data, []byte(`"pg_count"`)); !ok || !Sniff(data) || !Sniff(head) {
			t.Error("not recognised")
		}
		tr, err := Parse("x", data, -1)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, tr)
	}
	ev, _ := Evidence(traces)
	if len(ev.Comms) != 1 || !slices.Equal(ev.Comms[0].Members, members) {
		t.Errorf("groups %+v", ev.Comms)
	}
}

// Old profilers name no group: ranks that leave together, whatever their clocks say, are one.
func TestInferredGroups(t *testing.T) {
	const ranks, ops = 4, 12
	var traces []*Trace
	for r := range ranks {
		group := r / 2
		clock := float64(r) * 7e5
		var events []string
		for i := range ops {
			at := clock + 1000*float64(i) + float64((i*(group+1)*37)%11)*70 // Each pair leaves at its own times.
			events = append(events, fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)","ts":%.3f,"dur":%d,"args":{"stream":20}}`,
				at-float64(100*(r%2)), 200+100*(r%2)))
		}
		tr, err := Parse("x", fmt.Appendf(nil, `{"distributedInfo":{"rank":%d,"world_size":4},"traceEvents":[%s]}`, r, strings.Join(events, ",")), -1)
		if err != nil {
			t.Fatal(err)
		}
		traces = append(traces, tr)
	}
	ev, notes := Evidence(traces)
	var got [][]int
	for _, c := range ev.Comms {
		got = append(got, c.Members)
		if c.Size != 2 {
			t.Errorf("%s has size %d", c.Name, c.Size)
		}
	}
	if !slices.EqualFunc(got, [][]int{{0, 1}, {2, 3}}, slices.Equal) || len(ev.Timeline) != ranks*ops || len(notes) != 1 {
		t.Errorf("groups %v, %d segments, notes %q", got, len(ev.Timeline), notes)
	}
	// The first pair alone: two further ranks may be members, as nothing says that they are not.
	if ev, _ = Evidence(traces[:2]); len(ev.Comms) != 1 || ev.Comms[0].Size != 4 {
		t.Errorf("groups %+v", ev.Comms)
	}
	// Ranks of different groups share nothing, and what cannot be aligned is not compared.
	ev, notes = Evidence([]*Trace{traces[0], traces[2]})
	if len(ev.Timeline) != 0 || len(notes) == 0 {
		t.Errorf("%d segments, notes %q", len(ev.Timeline), notes)
	}
	if v := engine.Analyze(ev, rca.Options{}); v.Class != rca.Unknown {
		t.Errorf("%s: %s", v.Class, v.Summary)
	}
}
