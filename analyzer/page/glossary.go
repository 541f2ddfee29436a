// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"strings"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Term is a word of ours with what it means.
type Term struct{ Name, Text string }

var classes = map[rca.Class]string{
	rca.NotEntered:   "The job stands still. A rank has not entered the operation that its peers wait in.",
	rca.Inconsistent: "The job stands still. Ranks called different operations, or called them in a different order.",
	rca.Fault:        "The job stands still. All ranks entered the operation, and a component inside it failed.",
	rca.SlowCompute:  "The job is slow. One rank computes for longer than its peers.",
	rca.SlowComm:     "The job is slow. A transfer takes longer than on the peers.",
	rca.SlowMixed:    "The job is slow. Both computation and transfers take longer.",
	rca.Imbalance:    "The job is slow. The work is cut unevenly, and no machine is bad.",
	rca.GlobalSlow:   "The job is slow. All ranks are slower alike, and no machine is bad.",
	rca.Benign:       "The job waits for something legitimate. Nothing is broken.",
	rca.Healthy:      "Nothing wrong is seen.",
	rca.Unknown:      "There is not enough evidence to name anybody.",
}

var causes = map[rca.Cause]string{
	rca.CauseProcessStopped:   "The process is stopped, by a signal or by a debugger.",
	rca.CauseProcessGone:      "The process exited without orderly shutdown.",
	rca.CauseException:        "The program raised an exception that nothing caught.",
	rca.CauseHostLost:         "The host, or the exporter on it, does not answer.",
	rca.CauseNotCalled:        "The process runs outside NCCL: user code, the data loader, or a lock of the interpreter.",
	rca.CauseStorage:          "The process is blocked in storage.",
	rca.CauseKernelNotRunning: "The operation was called, but its kernel never started on the GPU.",
	rca.CauseOtherOp:          "The rank called another operation, size, type or root than its peers.",
	rca.CauseDeadlock:         "Groups were entered in opposite orders, and each side waits for the other.",
	rca.CauseGPU:              "The GPU, or its kernel, stopped or is slow.",
	rca.CauseNetworkSend:      "The local NIC or link does not deliver what was sent.",
	rca.CauseReceiver:         "The receiver posts no buffers.",
	rca.CausePCIe:             "The way between NIC and GPU is slow or stuck.",
	rca.CauseProxy:            "NCCL's proxy thread, which moves data over the network, is late.",
	rca.CauseCPU:              "The process does not get enough CPU time.",
	rca.CauseCheckpoint:       "A checkpoint is written or read.",
	rca.CauseFirstStep:        "The job is in its first step: it connects, compiles and fills caches.",
	rca.CauseJobEnd:           "The job is ending.",
	rca.CauseStage:            "A pipeline stage has more work than the others.",
	rca.CauseRouting:          "Some experts get more tokens than others.",
	rca.CauseData:             "Some ranks get more data than others.",
	rca.CauseUnknown:          "The cause is not visible in this evidence.",
}

func class(c rca.Class) Term { return Term{string(c), classes[c]} }

func cause(c rca.Cause) Term { return Term{string(c), causes[c]} }

// Explains reports whether a class and a cause, each of which may be empty, are some that verdicts have.
func Explains(c rca.Class, why rca.Cause) bool {
	return (c == "" || classes[c] != "") && (why == "" || causes[why] != "")
}

// sure says what a confidence means, and what keeps it low.
func sure(v *rca.Verdict) string {
	s := fmt.Sprintf("Of verdicts with as much evidence, about %.0f in 100 name the right class and culprit.", 100*v.Confidence)
	if v.Class == rca.Healthy || v.Class == rca.Benign || v.Class == rca.Unknown {
		s = fmt.Sprintf("Of verdicts with as much evidence, about %.0f in 100 are right.", 100*v.Confidence)
	}
	if n := len(v.Contradictions); n > 0 {
		s += fmt.Sprintf(" %s against it.", plural(n, "finding speaks", "findings speak"))
	}
	if n := len(v.Missing); n > 0 {
		s += fmt.Sprintf(" %s not seen.", plural(n, "thing was", "things were"))
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// Advice is what to do about one culprit.
type Advice struct {
	Host, Do string
	Commands []string
}

// mostAdvised bounds the culprits for which advice is listed.
const mostAdvised = 4

// advice gives what to do for each culprit, with commands that take a bad machine out of service.
func advice(v *rca.Verdict) []Advice {
	var out []Advice
	seen := map[string]bool{}
	for i := range v.Culprits {
		c := &v.Culprits[i]
		do, why := v.Action, v.Cause
		if c.Class != "" {
			do, why = c.Action, c.Cause
		}
		a := Advice{Host: c.Host, Do: do}
		if action.BadMachine(why) && action.PlainHost(c.Host) && !seen[c.Host] {
			seen[c.Host] = true
			a.Commands = []string{
				fmt.Sprintf("scontrol update NodeName=%s State=DRAIN Reason=%q", c.Host, "culprit: "+string(why)),
				"kubectl cordon " + strings.ToLower(c.Host),
			}
		}
		if a.Do == "" && len(a.Commands) == 0 || len(out) > 0 && len(a.Commands) == 0 && out[len(out)-1].Do == a.Do {
			continue
		}
		if len(out) == mostAdvised {
			break
		}
		out = append(out, a)
	}
	if len(out) == 0 && v.Action != "" {
		out = append(out, Advice{Do: v.Action})
	}
	return out
}
