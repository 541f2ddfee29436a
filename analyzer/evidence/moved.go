// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// flowPlace identifies a flow of an operation across two answers of one exporter.
type flowPlace struct {
	rank    int32
	pid     uint32
	created uint64 // Start of the process, by its host's clock.
	comm    uint32
	number  uint64
	channel uint16
	send    bool
	peer    int32
}

// flowSteps are a flow's counters.
type flowSteps struct{ posted, ready, transmitted, done uint32 }

// noteMoves marks flows whose counters changed between two answers of one exporter as progressing now. Changed counters prove
// progress, whatever the host's clock says about its time.
func noteMoves(before, now *nodeapi.State) {
	if before == nil || now == nil {
		return
	}
	was := map[flowPlace]flowSteps{}
	for i := range before.Processes {
		p := &before.Processes[i]
		for k := range p.Flows {
			was[placeOf(p, &p.Flows[k])] = stepsOf(&p.Flows[k])
		}
	}
	for i := range now.Processes {
		p := &now.Processes[i]
		for k := range p.Flows {
			f := &p.Flows[k]
			if old, known := was[placeOf(p, f)]; !known || old == stepsOf(f) {
				continue
			}
			f.LastProgressNS = now.NowNS
			for j := range p.Ops {
				if o := &p.Ops[j]; o.CommIndex == f.CommIndex && o.CommGeneration == f.CommGeneration && o.Number == f.OpNumber {
					o.LastProgressNS = now.NowNS
				}
			}
		}
	}
}

func placeOf(p *nodeapi.Process, f *trace.Flow) flowPlace {
	return flowPlace{
		rank: p.Rank, pid: p.Identity.PID, created: p.Identity.CreatedNS, comm: f.CommIndex, number: f.OpNumber,
		channel: f.Channel, send: f.IsSend, peer: f.Peer,
	}
}

func stepsOf(f *trace.Flow) flowSteps { return flowSteps{f.Posted, f.Ready, f.Transmitted, f.Done} }
