// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// What the stall trigger compares: how long a job has made no progress, and how long its own waits usually are. The records
// live in the trigger's group, evaluated in order, so that no interval is lost between them.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local stall = q.metric('culprit_nccl_stall_seconds'),

    stall: [
      {
        // The exporter shows no stall for a process that ended.
        record: 'job_id:culprit_nccl_stall_seconds:max',
        expr: 'max by (%s) (%s)' % [q.job, stall],
      },
      {
        record: 'job_id:culprit_nccl_stall_seconds:count',
        expr: 'count by (%s) (%s)' % [q.job, stall],
      },
      {
        // The longest wait ended by itself: what it had come to. Not when a rank is missing: that is a missed scrape or a
        // dead process.
        record: 'job_id:culprit_nccl_wait_ended_seconds:max',
        expr: |||
          job_id:culprit_nccl_stall_seconds:max offset %(interval)s > job_id:culprit_nccl_stall_seconds:max
          and
          job_id:culprit_nccl_stall_seconds:count >= job_id:culprit_nccl_stall_seconds:count offset %(interval)s
        ||| % { interval: config.stallInterval },
      },
      {
        // Zero when nothing was waited for, no sample while the job stalls: a long hang does not wash out what is usual. Nor does the time
        // before the first operation has completed, which says nothing of the waits between operations.
        record: 'job_id:culprit_nccl_wait_ended_seconds:max_window',
        expr: |||
          max_over_time(job_id:culprit_nccl_wait_ended_seconds:max[%(window)s])
          or
          (0 * (job_id:culprit_nccl_stall_seconds:max < %(floor)g) and job_id:culprit_nccl_function_ops:sum > 0)
        ||| % { window: config.stallWaitWindow, floor: config.stallFloorSeconds },
      },
      {
        record: 'job_id:culprit_nccl_wait_ended_seconds:usual',
        expr: 'quantile_over_time(%g, job_id:culprit_nccl_wait_ended_seconds:max_window[%s])' % [config.stallQuantile, config.stallHistory],
      },
      {
        // Completed operations are looked for over two scrapes: a missed one does not bring the first step back.
        record: 'job_id:culprit_nccl_stall_seconds:threshold',
        expr: |||
          (
            clamp(%(factor)g * job_id:culprit_nccl_wait_ended_seconds:usual, %(floor)g, %(ceiling)g)
            and
            max_over_time(job_id:culprit_nccl_function_ops:sum[%(memory)gs]) > 0
          )
          or
          (0 * job_id:culprit_nccl_stall_seconds:max + %(first)g)
        ||| % {
          memory: config.failureWindowSeconds,
          factor: config.stallFactor,
          floor: config.stallFloorSeconds,
          ceiling: config.stallCeilingSeconds,
          first: config.stallFirstStepSeconds,
        },
      },
    ],
  },
}
