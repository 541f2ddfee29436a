// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

// Names of the series that the page of a job is made of, beside those in the analyzer's configuration.
const (
	iterationSeconds = "culprit_nccl_iteration_seconds"
	functionOps      = "culprit_nccl_function_ops_total"
	functionBytes    = "culprit_nccl_bytes_total"
	functionSeconds  = "culprit_nccl_op_seconds_total"
	eventsLost       = "culprit_nccl_events_lost_total"
	iterationHealthy = "job_id:culprit_nccl_iteration_seconds:mean_long_healthy" // Recorded by the shipped rules, one series a job.
)

// Time inside operations by rank and communicator, with the communicator's name; numbers at its end are left out.
const rankSeconds = "sum by (rank, comm) (rate(" + functionSeconds + "{job, comm!=\"\"}[{window}]))" +
	" * on (rank, comm) group_left (comm_name, nranks)" +
	" topk by (rank, comm) (1, max by (rank, comm, comm_name, nranks) (label_replace({comms}, \"comm_name\", \"$1\", \"comm_name\", \"(.+?)[-_. ]*[0-9]*\")))"

const iterationRate = "scalar(avg(rate(" + iterationSeconds + "_count{job}[{window}])))"

// Queries over {job}, the matchers of the job's series and of our exporters, {recorded}, those of series that rules record, {comms}, the series of its communicators, and {window}. Each gives few series, however many ranks the job has, but for inside, which gives one a rank.
var queries = struct {
	jobs, iteration, iterationBefore, comms, ops, bytes, seconds, bandwidth, byComm, leastByComm, others, inside, fewestOps, lost string
}{
	jobs:            "count by ({identity}) ({up})",
	iteration:       "sum(rate(" + iterationSeconds + "_sum{job}[{window}])) / sum(rate(" + iterationSeconds + "_count{job}[{window}]))",
	iterationBefore: "avg_over_time(" + iterationHealthy + "{recorded}[1h])",
	comms:           "count by (comm_name, nranks, nnodes) ({comms})",
	ops:             "avg by (function) (rate(" + functionOps + "{job}[{window}])) / " + iterationRate,
	bytes:           "avg by (function) (rate(" + functionBytes + "{job}[{window}])) / " + iterationRate,
	seconds:         "avg by (function) (sum by (rank, function) (rate(" + functionSeconds + "{job}[{window}]))) / " + iterationRate,
	// The time inside an operation holds the waiting for others. Whoever waits least tells most of the network.
	bandwidth:   "max by (function) (sum by (rank, function) (rate(" + functionBytes + "{job}[{window}])) / (sum by (rank, function) (rate(" + functionSeconds + "{job}[{window}])) > 0))",
	byComm:      "sum by (comm_name, nranks) (" + rankSeconds + ") / scalar(count(count by (rank) ({comms}))) / " + iterationRate,
	leastByComm: "min by (comm_name, nranks) (sum by (rank, comm_name, nranks) (" + rankSeconds + ")) / " + iterationRate,
	others:      "sum(rate(" + functionSeconds + "{job, comm=\"\"}[{window}])) / scalar(count(count by (rank) ({comms}))) / " + iterationRate,
	inside:      "sum by (rank) (rate(" + functionSeconds + "{job}[{window}]))",
	// A rank sends once for each micro-batch at the ends of a pipeline, and twice in between.
	fewestOps: "min by (function) (rate(" + functionOps + "{job}[{window}]) > 0) / " + iterationRate,
	lost:      "sum(increase(" + eventsLost + "{job}[{window}]))",
}
