// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the stall trigger compares: how long a job has made no progress, and how long its own waits usually are. The records
// live in the trigger's group, evaluated in order, so that no interval is lost between them.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local stall = q.metric('nccl_stall_seconds'),

    stall: [
      {
        record: 'job_id:nccl_stall_seconds:max',
        expr: 'max by (%s) (%s)' % [q.job, q.living(stall)],
      },
      {
        // A wait that ended by itself: what it had come to.
        record: 'job_id:nccl_wait_ended_seconds:max',
        expr: 'max by (%s) (%s offset %s > %s)' % [q.job, stall, config.stallLookback, stall],
      },
      {
        // Zero when nothing was waited for, no sample while the job stalls: a long hang does not wash out what is usual.
        record: 'job_id:nccl_wait_ended_seconds:max_window',
        expr: 'max_over_time(job_id:nccl_wait_ended_seconds:max[%s])\nor\n(0 * (job_id:nccl_stall_seconds:max < %g))' % [
          config.stallWaitWindow,
          config.stallFloorSeconds,
        ],
      },
      {
        record: 'job_id:nccl_wait_ended_seconds:usual',
        expr: 'quantile_over_time(%g, job_id:nccl_wait_ended_seconds:max_window[%s])' % [config.stallQuantile, config.stallHistory],
      },
      {
        // Completed operations are looked for over 10 s: a missed scrape does not bring the first step back.
        record: 'job_id:nccl_stall_seconds:threshold',
        expr: |||
          (
            clamp(%(factor)g * job_id:nccl_wait_ended_seconds:usual, %(floor)g, %(ceiling)g)
            and
            max_over_time(job_id:nccl_function_ops:sum[10s]) > 0
          )
          or
          (0 * job_id:nccl_stall_seconds:max + %(first)g)
        ||| % {
          factor: config.stallFactor,
          floor: config.stallFloorSeconds,
          ceiling: config.stallCeilingSeconds,
          first: config.stallFirstStepSeconds,
        },
      },
    ],
  },
}
