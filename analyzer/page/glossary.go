// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Term is a word of ours with what it means.
type Term struct{ Name, Text string }

func class(c rca.Class) Term { return Term{string(c), words.Class(c)} }

func cause(c rca.Cause) Term { return Term{string(c), words.Cause(c)} }

// Explains reports whether a class and a cause, each of which may be empty, are some that verdicts have.
func Explains(c rca.Class, why rca.Cause) bool {
	return (c == "" || words.Class(c) != "") && (why == "" || words.Cause(why) != "")
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

// ofProcess finds where a suggested command wants the number of the process.
var ofProcess = regexp.MustCompile(`(--pid |-CONT )PID\b`)

// Advice is what to do about one culprit.
type Advice struct {
	Host, Do string
	Commands []string
}

// mostAdvised bounds the culprits for which advice is listed.
const mostAdvised = 4

// advice gives what to do for each culprit, with the command of the job's scheduler that takes a bad machine out of service, or those of
// both where it is not known.
func advice(v *rca.Verdict, job *incident.Workload) []Advice {
	scheduler := ""
	if job != nil {
		scheduler = job.Scheduler
	}
	var out []Advice
	seen := map[string]bool{}
	for i := range v.Culprits {
		c := &v.Culprits[i]
		do, why := v.Action, v.Cause
		if c.Class != "" {
			do, why = c.Action, c.Cause
		}
		a := Advice{Host: c.Host, Do: do}
		if c.PID > 0 {
			a.Do = ofProcess.ReplaceAllString(do, "${1}"+strconv.Itoa(c.PID))
		}
		if action.BadMachine(why) && !rca.KeepsHost(do) && action.PlainHost(c.Host) && !seen[c.Host] {
			seen[c.Host] = true
			if scheduler != incident.Kubernetes {
				a.Commands = append(a.Commands, fmt.Sprintf("scontrol update NodeName=%s State=DRAIN Reason=%q", c.Host, "culprit: "+string(why)))
			}
			if scheduler != incident.Slurm {
				a.Commands = append(a.Commands, "kubectl cordon "+strings.ToLower(c.Host))
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
