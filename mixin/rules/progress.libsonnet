// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Facts about jobs that several triggers and the dashboards use.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),

    progress: [
      {
        record: 'job_id:culprit_nccl_process_up:count',
        expr: 'count by (%s) (%s == 1)' % [q.job, q.metric('culprit_nccl_process_up')],
      },
      {
        // Zero or absent until the first operation of the job has completed.
        record: 'job_id:culprit_nccl_function_ops:sum',
        expr: 'sum by (%s) (%s)' % [q.job, q.living(q.metric('culprit_nccl_function_ops_total'))],
      },
      {
        record: 'job_id:culprit_nccl_process_age_seconds:min',
        expr: 'min by (%s) (%s)' % [q.job, q.living(q.metric('culprit_nccl_process_age_seconds'))],
      },
      {
        record: 'job_id:culprit_nccl_process_age_seconds:max',
        expr: 'max by (%s) (%s)' % [q.job, q.living(q.metric('culprit_nccl_process_age_seconds'))],
      },
      {
        // 1, labelled with the run of the job: when its oldest living process started. A job that starts again under its id is another
        // run. Exporters that do not tell it leave the label empty.
        record: 'job_id:culprit_nccl_run:info',
        expr: 'count_values by (%s) ("run", min by (%s) (%s))\nor on (%s)\ngroup by (%s) (%s == 1)' % [
          q.job,
          q.job,
          q.living(q.metric('culprit_nccl_process_start_time_seconds')),
          q.job,
          q.job,
          q.metric('culprit_nccl_process_up'),
        ],
      },
      {
        // Iterations that every living rank has done, and the time that they took: since the youngest of them started.
        record: 'job_id:culprit_nccl_iteration_seconds_count:min',
        expr: 'min by (%s) (%s)' % [q.job, q.living(q.metric('culprit_nccl_iteration_seconds_count'))],
      },
      {
        record: 'job_id:culprit_nccl_iteration_seconds_sum:min',
        expr: 'min by (%s) (%s)' % [q.job, q.living(q.metric('culprit_nccl_iteration_seconds_sum'))],
      },
    ],

    age: [
      {
        // The exporter shows no age for a process that ended.
        record: 'job_id:culprit_nccl_comm_op_age_seconds:max',
        expr: 'max by (%s, comm) (%s)' % [q.job, q.metric('culprit_nccl_op_age_seconds')],
      },
    ],
  },
}
