// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Facts about jobs that several triggers and the dashboards use.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local ofHosts(op, metric) = '%s by (%s) (%s)' % [op, q.host, q.living(q.sane(q.metric(metric)))],

    progress: [
      {
        record: 'job_id:culprit_nccl_process_up:count',
        expr: 'count by (%s) (%s == 1)' % [q.job, q.metric('culprit_nccl_process_up')],
      },
      {
        // Zero or absent until the first operation of the job has completed.
        record: 'job_id:culprit_nccl_function_ops:sum',
        expr: 'sum by (%s) (%s)' % [q.job, q.living(q.sane(q.metric('culprit_nccl_function_ops_total')))],
      },
      {
        // Of the youngest process of the median host.
        record: 'job_id:culprit_nccl_process_age_seconds:min',
        expr: 'quantile by (%s) (0.5, %s)' % [q.job, ofHosts('min', 'culprit_nccl_process_age_seconds')],
      },
      {
        // Of its oldest.
        record: 'job_id:culprit_nccl_process_age_seconds:max',
        expr: 'quantile by (%s) (0.5, %s)' % [q.job, ofHosts('max', 'culprit_nccl_process_age_seconds')],
      },
    ] + [
      { record: 'job_id:%s:host_min' % metric, expr: ofHosts('min', metric) }
      for metric in ['culprit_nccl_process_start_time_seconds', 'culprit_nccl_iteration_seconds_count', 'culprit_nccl_iteration_seconds_sum']
    ] + [
      {
        record: 'job_id:culprit_nccl_process_start_time_seconds:min',
        expr: q.hosts('job_id:culprit_nccl_process_start_time_seconds:host_min', q.job),
      },
      {
        // When the run of the job began. It stands while its hosts are about as old as that says, whichever of them were scraped.
        record: 'job_id:culprit_nccl_run_start_time_seconds:min',
        expr: |||
          job_id:culprit_nccl_run_start_time_seconds:min
          and on (%(part)s)
          (abs(job_id:culprit_nccl_process_start_time_seconds:min - on (%(part)s) job_id:culprit_nccl_run_start_time_seconds:min) < %(apart)g)
          or on (%(part)s)
          job_id:culprit_nccl_process_start_time_seconds:min
        ||| % { part: q.part, apart: config.runApartSeconds },
      },
      {
        // 1, labelled with the run of the job: when it began. A job that starts again under its id is another run. Exporters that do not tell
        // when processes started leave the label empty.
        record: 'job_id:culprit_nccl_run:info',
        expr: 'count_values by (%s) ("run", job_id:culprit_nccl_run_start_time_seconds:min)\nor on (%s)\ngroup by (%s) (%s == 1)' % [
          q.part,
          q.job,
          q.job,
          q.metric('culprit_nccl_process_up'),
        ],
      },
      {
        // Iterations that every living rank has done, and the time that they took: since the youngest of them started.
        record: 'job_id:culprit_nccl_iteration_seconds_count:min',
        expr: q.hosts('job_id:culprit_nccl_iteration_seconds_count:host_min', q.job),
      },
      {
        record: 'job_id:culprit_nccl_iteration_seconds_sum:min',
        expr: q.hosts('job_id:culprit_nccl_iteration_seconds_sum:host_min', q.job),
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
