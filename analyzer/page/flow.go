// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/incident"
)

// flowData is the transfer that stands still, stage by stage.
type flowData struct {
	Title  string
	Stages []stage
	Where  string // What the steps say.
	QPs    []incident.QueuePair
}

// stage is one point that each step of a transfer passes.
type stage struct {
	Name, Who string
	Steps     string
	Value     int64
	Total     int64 // 0: no bar.
	Behind    bool  // What holds the transfer up.
}

func newFlow(f *incident.FlowView) *flowData {
	if f == nil {
		return nil
	}
	s, r := f.From.Steps, f.To.Steps
	from, to := endName(&f.From), endName(&f.To)
	points := []struct {
		name, who string
		steps     int64
	}{
		{"GPU ready", from, s[1]}, {"Transmitted", from, s[2]}, {"Done", from, s[3]}, {"Received", to, r[1]}, {"Consumed", to, r[3]},
	}
	out := &flowData{QPs: f.QPs, Title: fmt.Sprintf("%s on %s, channel %d, from %s to %s", f.Op, f.Comm, f.Channel, from, to)}
	if f.Stuck >= 0 {
		out.Title += ": no step for " + seconds(f.Stuck)
	}
	at, last := -1, int64(-1)
	for i, p := range points {
		st := stage{Name: p.name, Who: p.who, Value: p.steps, Total: f.Total, Steps: "not asked"}
		if p.steps >= 0 {
			st.Steps = count(int(p.steps))
			if f.Total > 0 {
				st.Steps += " of " + count(int(f.Total))
			}
			// Buffers are few: what stands downstream soon holds up all that is upstream of it.
			if last > p.steps {
				at = i
			}
			last = p.steps
		} else {
			st.Total = 0
		}
		out.Stages = append(out.Stages, st)
	}
	if at < 0 && s[1] >= 0 && s[1] < f.Total { // Nothing is on its way.
		at = 0
	}
	if at >= 0 {
		out.Stages[at].Behind, out.Where = true, behind[out.Stages[at].Name]
	}
	return out
}

// behind says what it means that a stage is behind the one before it.
var behind = map[string]string{
	"GPU ready":   "The sender's GPU has no more data ready.",
	"Transmitted": "The data is ready, and the sender's proxy has not posted it: the receiver offers no buffer, or the proxy thread does not run.",
	"Done":        "The data is posted to the NIC, and the network does not report it delivered.",
	"Received":    "The sender's NIC reports the data delivered, and the receiver has not seen it.",
	"Consumed":    "The data has arrived, and the receiver's GPU does not take it.",
}

func endName(e *incident.FlowEnd) string {
	if e.Rank < 0 {
		return "an unknown rank"
	}
	s := fmt.Sprintf("rank %d", e.Rank)
	var place []string
	for _, p := range []struct{ name, value string }{{"", e.Host}, {"GPU ", e.GPU}, {"NIC ", e.NIC}} {
		if p.value != "" {
			place = append(place, p.name+p.value)
		}
	}
	if len(place) > 0 {
		s += " (" + strings.Join(place, ", ") + ")"
	}
	return s
}
