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
    ],

    age: [
      {
        // The exporter shows no age for a process that ended.
        record: 'job_id:culprit_nccl_op_age_seconds:max',
        expr: 'max by (%s) (%s)' % [q.job, q.metric('culprit_nccl_op_age_seconds')],
      },
    ],
  },
}
