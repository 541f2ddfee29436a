// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the launch trigger compares: how long the ranks of a job have not called an operation, and how long its own pauses usually are.
// It needs no end of any operation, so it sees jobs whose operations only show their calls. The records live in the trigger's
// group, evaluated in order.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local started = q.living(q.metric('culprit_nccl_ops_started_total')),

    launch: [
      {
        // Of the host at the lower quartile: a few that say that they call keep nobody from seeing that the job stands. The exporter shows
        // no age for a process that ended.
        record: 'job_id:culprit_nccl_launch_age_seconds:quartile',
        expr: 'quantile by (%s) (0.25, min by (%s) (%s))' % [q.job, q.host, q.sane(q.metric('culprit_nccl_launch_age_seconds'))],
      },
      {
        // Communicators whose members have called different numbers of operations. Sends and receives differ all the time.
        record: 'job_id:culprit_nccl_ops_uneven:count',
        expr: |||
          count by (%(job)s) (
            max by (%(comm)s) (%(started)s)
            >
            min by (%(comm)s) (%(started)s)
          )
        ||| % { job: q.job, comm: q.job + ', comm', started: started },
      },
      {
        // The pause ended: what it had come to.
        record: 'job_id:culprit_nccl_launch_pause_seconds:max',
        expr: 'job_id:culprit_nccl_launch_age_seconds:quartile offset %(interval)s > job_id:culprit_nccl_launch_age_seconds:quartile' % { interval: config.launchInterval },
      },
      {
        // Zero when there was none, no sample while nothing is called: a long standstill does not wash out what is usual.
        record: 'job_id:culprit_nccl_launch_pause_seconds:max_window',
        expr: 'max_over_time(job_id:culprit_nccl_launch_pause_seconds:max[%s])\nor\n(0 * (job_id:culprit_nccl_launch_age_seconds:quartile < %g))' % [
          config.stallWaitWindow,
          config.launchFloorSeconds,
        ],
      },
      {
        record: 'job_id:culprit_nccl_launch_pause_seconds:usual',
        expr: 'quantile_over_time(%g, job_id:culprit_nccl_launch_pause_seconds:max_window[%s])' % [config.stallQuantile, config.stallHistory],
      },
    ],
  },
}
