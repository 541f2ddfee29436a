// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package rca

import (
	"math"
	"time"
)

// VerdictVersion is the version of the verdict's JSON form. New fields do not raise it.
const VerdictVersion = 1

// Class is the kind of anomaly. H1 to S3 are CCL-D's classes (section 4).
type Class string

// Classes.
const (
	NotEntered   Class = "not_entered"  // H1: a rank did not enter the operation its peers wait in.
	Inconsistent Class = "inconsistent" // H2: ranks called different operations, or in a different order.
	Fault        Class = "fault"        // H3: all entered, a component inside failed.
	SlowCompute  Class = "slow_compute" // S1.
	SlowComm     Class = "slow_comm"    // S2.
	SlowMixed    Class = "slow_mixed"   // S3.
	Imbalance    Class = "imbalance"    // Work is cut unevenly or data is uneven; no machine is bad.
	GlobalSlow   Class = "global_slow"  // All ranks are slower alike; no machine is bad.
	Benign       Class = "benign"       // Checkpoint, first step, job end: nothing to page for.
	Healthy      Class = "healthy"      // Nothing wrong is seen.
	Unknown      Class = "unknown"      // Not enough evidence to name anybody.
)

// Cause is the component or behaviour behind it.
type Cause string

// Causes.
const (
	CauseProcessStopped   Cause = "process_stopped"
	CauseProcessGone      Cause = "process_gone"
	CauseException        Cause = "exception" // The program raised an exception that nothing caught.
	CauseHostLost         Cause = "host_lost"
	CauseNotCalled        Cause = "op_not_called"      // Running, but outside: user code, data loader, GIL.
	CauseStorage          Cause = "storage"            // Blocked in storage.
	CauseKernelNotRunning Cause = "kernel_not_running" // Called, but its kernel never started.
	CauseOtherOp          Cause = "other_op"           // Type, size, datatype, root or algorithm differ.
	CauseDeadlock         Cause = "deadlock"           // Groups entered in opposite orders.
	CauseGPU              Cause = "gpu"                // The GPU or its kernel stopped producing or consuming, or is slow.
	CauseNetworkSend      Cause = "network_send"       // Local NIC or link does not deliver.
	CauseReceiver         Cause = "receiver"           // The receiver does not post buffers.
	CausePCIe             Cause = "pcie"               // Flush or copy between NIC and GPU.
	CauseProxy            Cause = "proxy"              // The proxy thread is late or starved.
	CauseCPU              Cause = "cpu"
	CauseCheckpoint       Cause = "checkpoint"
	CauseFirstStep        Cause = "first_step"
	CauseJobEnd           Cause = "job_end"
	CauseStage            Cause = "pipeline_stage"
	CauseRouting          Cause = "expert_routing"
	CauseData             Cause = "data"
	CauseUnknown          Cause = "unknown"
)

// Verdict is the answer: what kind of trouble, which culprit, why, how sure, and how it was reached.
type Verdict struct {
	Version    int       `json:"version"`
	JobID      string    `json:"job_id,omitempty"`
	Class      Class     `json:"class"`
	Code       string    `json:"code,omitempty"` // CCL-D's code of the class: H1, H2, H3, S1, S2, S3.
	Cause      Cause     `json:"cause"`
	Culprits   []Culprit `json:"culprits"`   // Empty: nobody, or unknown.
	Confidence float64   `json:"confidence"` // Probability that class and culprits are right.
	// Weight is the engine's own weight of the evidence, 0 to 1, before calibration. The engine's thresholds use it, so that they
	// do not move with the calibration.
	Weight float64 `json:"weight,omitempty"`
	// Level is how much the evidence records; Confidence is how often such verdicts were right at this level.
	Level   Level  `json:"level,omitempty"`
	Summary string `json:"summary"` // One sentence for a tired person.
	// Row names the row of the engine's tables behind the verdict (docs/rca.md).
	Row  string `json:"row,omitempty"`
	Page bool   `json:"page"` // Whether the verdict pages.
	// PageIn is the time in seconds after which a verdict that does not page yet will, unless its culprit makes progress: a live
	// process may still call what its peers wait in. 0: it pages now or not at all.
	PageIn float64 `json:"page_in_seconds,omitempty"`
	// Waited is how long, in seconds, the peers of the first culprit have waited in the operation; 0 not recorded.
	Waited float64 `json:"waited_seconds,omitempty"`
	// Stalled is how many ranks stand still, and WorldSize how many the job has; 0 not known.
	Stalled   int `json:"stalled_ranks,omitempty"`
	WorldSize int `json:"world_size,omitempty"`
	// Standstill is how long, in seconds, a job has made no progress while the evidence names no rank; 0: it names one, or a rank
	// makes progress.
	Standstill float64 `json:"-"`
	// Stuck is for how long the longest wait of a job that stands still has lasted, whoever is to blame; 0: nobody waits, or the job is over.
	Stuck time.Duration `json:"-"`
	// Against is what speaks against paging for an accusation, whatever it weighs; empty: nothing.
	Against Against `json:"-"`
	// MayGetOn says that the culprits' GPUs may make progress by themselves: they may still load kernels, or compute.
	MayGetOn bool `json:"-"`
	// Unheard says that it rests on an exporter that does not answer, on a host that takes connections. That may have begun long after
	// the job stood still, and be the exporter's trouble alone.
	Unheard bool   `json:"-"`
	Action  string `json:"action,omitempty"`
	// Communicator and operation in which the trouble shows.
	Comm string `json:"comm,omitempty"`
	Op   string `json:"op,omitempty"`
	// Chain is one walk of waiting, from a victim to the culprit.
	Chain []Link `json:"chain,omitempty"`
	// Waits is the whole wait-for graph, with ranks that wait alike in one group: the culprits first, then the groups that wait
	// for them.
	Waits          []WaitGroup `json:"waits,omitempty"`
	Evidence       []string    `json:"evidence,omitempty"`
	Contradictions []string    `json:"contradictions,omitempty"`
	Missing        []string    `json:"missing,omitempty"`
	// Ask lists ranks that were not seen and whose evidence could change the answer: fetch it and ask again.
	Ask      []int       `json:"ask,omitempty"`
	RuledOut []Candidate `json:"ruled_out,omitempty"`
	// Hypotheses are the explanations that the engine weighed against each other, those that the verdict rests on first; at most
	// MaxHypotheses.
	Hypotheses []Hypothesis `json:"hypotheses,omitempty"`
	// Repairs is what was repaired in the records of finished work before ranks were compared. Empty when the job stands still.
	Repairs []Repair `json:"repairs,omitempty"`
	// Slowdown is the iteration time over the time without the culprit (what-if replay); 0 not applicable.
	Slowdown float64 `json:"slowdown,omitempty"`
	// WhatIf says how long an iteration would take with one element made ideal, by kind; within a kind, the largest saving comes
	// first. Empty when the job stands still.
	WhatIf       []WhatIf `json:"what_if,omitempty"`
	RanksVisited int      `json:"ranks_visited"`
	// RestsOn lists the ranks on whose state the accusation rests: culprits, and both ends of a link. They are looked at again
	// before it pages.
	RestsOn []int `json:"-"`
	// Moving: the rank that others wait for makes progress. Finished work, which this evidence lacks, could show which rank is
	// slow.
	Moving bool `json:"-"`
}

// Against is what speaks against paging for an accusation of slowness.
type Against string

const (
	AgainstFew    Against = "too few iterations were seen"
	AgainstNobody Against = "no rank is named"
	AgainstOnce   Against = "it happened in one iteration alone"
	AgainstLittle Against = "without it, iterations would be little shorter"
	AgainstChance Against = "chance may explain it"
)

// Culprit is a rank to blame with its place, or a component or group where no single rank is meant.
type Culprit struct {
	Rank    int    `json:"rank"` // -1 when no single rank is meant.
	Host    string `json:"host,omitempty"`
	GPU     string `json:"gpu,omitempty"`
	NIC     string `json:"nic,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Pod     string `json:"pod,omitempty"`
	Channel int    `json:"channel"`         // -1 when no single channel is meant.
	Group   string `json:"group,omitempty"` // "stage 3", "rail 2", "link 4->5".
	Why     string `json:"why,omitempty"`
	// Class, Cause and Action are this culprit's own; empty: the verdict's. Two faults at once differ in them.
	Class  Class  `json:"class,omitempty"`
	Cause  Cause  `json:"cause,omitempty"`
	Action string `json:"action,omitempty"`
	// PageIn is the time in seconds after which this culprit pages, where the verdict pages for others already: its process is
	// alive and may still make progress.
	PageIn float64 `json:"page_in_seconds,omitempty"`
	// Stays says that close looks show that it will not make progress by itself.
	Stays bool `json:"-"`
	// Waited is how long others have waited for it, in seconds; 0 not known.
	Waited float64 `json:"-"`
}

// Link is one step of the chain of waiting.
type Link struct {
	From   int    `json:"from"` // Rank that waits.
	To     int    `json:"to"`   // Rank it waits for; equal to From when it waits for its own hardware.
	Reason string `json:"reason"`
	Comm   string `json:"comm,omitempty"`
	Op     string `json:"op,omitempty"`
	Sure   bool   `json:"sure"` // Certain by construction (same stream, same flow), and not inferred.
}

// WaitGroup is a set of ranks that wait alike.
type WaitGroup struct {
	Ranks []int `json:"ranks,omitempty"` // The first few, in order.
	Count int   `json:"count"`           // All of them, including ranks of which only the place is known.
	Root  bool  `json:"root,omitempty"`  // The waiting ends here.
	// On is the group that they wait for, counted from 0; -1: the waiting ends here, or its end was not seen.
	On     int    `json:"on"`
	Reason string `json:"reason,omitempty"` // Why they wait, as a predicate of the rank that they wait for; for a root, what is wrong.
	Op     string `json:"op,omitempty"`
	Comm   string `json:"comm,omitempty"`
	Comms  int    `json:"comms,omitempty"` // Number of communicators in which they wait like this.
	Sure   bool   `json:"sure,omitempty"`  // Certain by construction for each of them.
}

// Candidate is a rank or group that was considered and not accused.
type Candidate struct {
	Rank   int    `json:"rank"`
	Group  string `json:"group,omitempty"`
	Reason string `json:"reason"`
}

// Hypothesis is one explanation of the trouble, with what decided between it and the others.
type Hypothesis struct {
	// Row names the row behind it: in analyzer/rca/hang/flaws.go or analyzer/rca/slow/hypotheses.go.
	Row   string `json:"row,omitempty"`
	Ranks []int  `json:"ranks,omitempty"` // Empty where a group is meant.
	Group string `json:"group,omitempty"`
	Class Class  `json:"class"`
	Cause Cause  `json:"cause"`
	// Weight is the engine's own weight of the evidence for it, 0 to 1, before calibration.
	Weight float64 `json:"weight"`
	// Explains is how many of the stalled ranks wait for it, without regard to other faults. 0 for a slow job.
	Explains int `json:"explains_ranks,omitempty"`
	// Saves is the share by which an iteration would be shorter without it. 0 for a job that stands still.
	Saves  float64 `json:"saves,omitempty"`
	Chosen bool    `json:"chosen,omitempty"` // The verdict rests on it.
	Reason string  `json:"reason,omitempty"` // What it is; why not, if it was not chosen.
}

// Repair is what one step of the repair of finished work did.
type Repair struct {
	Step    string `json:"step"`           // "lost_records": analyzer/rca/slow/repair.go lists them.
	Changed int    `json:"changed"`        // Pieces of work that it left out, put in or shortened.
	Left    int    `json:"left,omitempty"` // Pieces that it saw to be wrong and could not repair.
}

// WhatIf is the answer to one what-if question: the iteration replayed with some work as long as it is elsewhere.
type WhatIf struct {
	Kind  string `json:"kind"` // all, transfers, stage, data_parallel_rank, rank or op_type.
	Name  string `json:"name"` // "stage 3", "forward-compute".
	Ranks []int  `json:"ranks,omitempty"`
	// StepSeconds is the length of an iteration then. Saved is the share of the present length that this saves (negative when the
	// others' mean is longer).
	StepSeconds float64 `json:"step_seconds"`
	Saved       float64 `json:"saved"`
}

// MaxHypotheses is how many explanations a verdict lists.
const MaxHypotheses = 16

// MaxCulprits is how many culprits a verdict lists: a longer list names nobody.
const MaxCulprits = 64

// codes are CCL-D's names of the classes.
var codes = map[Class]string{NotEntered: "H1", Inconsistent: "H2", Fault: "H3", SlowCompute: "S1", SlowComm: "S2", SlowMixed: "S3"}

// StandsStill reports whether a job of this class makes no progress.
func (c Class) StandsStill() bool { return c == NotEntered || c == Inconsistent || c == Fault }

// Code is CCL-D's name of the class, "H1" to "S3"; empty for the others.
func (c Class) Code() string { return codes[c] }

// RowMayBeChance is the row of a verdict that suspects somebody whom the iterations seen do not tell from chance.
const RowMayBeChance = "may_be_chance"

// Round cuts a number to the three digits that a verdict shows.
func Round(f float64) float64 { return math.Round(f*1000) / 1000 }
