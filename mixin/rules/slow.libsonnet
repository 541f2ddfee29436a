// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Throughput, operation rate and iteration time of each job over each window, and the healthy baseline of each run. A rate is per
// living rank that was seen: a scrape that failed must not look like a job at half its speed, nor the end of a job, where rates
// go on for their window after the ranks. These rules read most of all; matching ranks one by one would cost as much again.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),

    local sumOfRates(metric, window) = 'sum by (%s) (rate(%s[%s]))' % [q.host, q.sampled(metric), window],
    local perRank(vector) = '%s\n/\ncount by (%s) (%s == 1)' % [vector, q.host, q.sampled('culprit_nccl_process_up')],

    // Of each host. low: trouble is below the healthy range; otherwise it is above.
    slowSignals:: [
      { name: 'culprit_nccl_bytes', op: 'rate', low: true, expr(w): perRank(sumOfRates('culprit_nccl_bytes_total', w)) },
      { name: 'culprit_nccl_function_ops', op: 'rate', low: true, expr(w): perRank(sumOfRates('culprit_nccl_function_ops_total', w)) },
      {
        name: 'culprit_nccl_iteration_seconds',
        op: 'mean',
        low: false,
        expr(w): '%s\n/\n(%s > 0)' % [
          sumOfRates('culprit_nccl_iteration_seconds_sum', w),
          sumOfRates('culprit_nccl_iteration_seconds_count', w),
        ],
      },
    ],

    // What nothing is slower than: the baseline of a run that has none yet.
    local neutral(signal) = if signal.low then '0' else 'Inf',
    local quantile(signal) = if signal.low then config.baselineEdge else 1 - config.baselineEdge,

    // The looks at new jobs: for firstLookWindow after the first iterations, told from what has been counted, so that a Prometheus that
    // starts does not ask about every job.
    firstLook: [
      {
        record: 'job_id:culprit_nccl_first_look:iterations',
        expr: |||
          (%(count)s >= %(iterations)d and on (%(part)s) %(sum)s >= %(seconds)g)
          and on (%(part)s)
          (
            %(sum)s < %(end)g
            or
            %(count)s * (1 - %(window)g / %(sum)s) < %(iterations)d
          )
        ||| % {
          part: q.part,
          count: 'job_id:culprit_nccl_iteration_seconds_count:min',
          sum: 'job_id:culprit_nccl_iteration_seconds_sum:min',
          iterations: config.firstLookIterations,
          seconds: config.firstLookSeconds,
          window: config.firstLookWindowSeconds,
          end: config.firstLookSeconds + config.firstLookWindowSeconds,
        },
      },
      {
        // How slow the job was when it was looked at.
        record: 'job_id:culprit_nccl_first_look:mean',
        expr: 'job_id:culprit_nccl_iteration_seconds:mean_%s and on (%s) job_id:culprit_nccl_first_look:iterations' % [config.slowWindows[1].name, q.part],
      },
    ],

    // By window.
    slow: { [w.name]: std.flattenArrays([
      local value = 'job_id:%s:%s_%s' % [signal.name, signal.op, w.name];
      local ofHost = 'job_id:%s:host_%s_%s' % [signal.name, signal.op, w.name];
      local healthy = value + '_healthy';
      local history = '%s[%s] offset %s' % [healthy, config.baselineHistory, w.lag];
      [
        { record: ofHost, expr: q.sane(signal.expr(w.window)) },
        { record: value, expr: q.hosts(ofHost, q.job) },
        {
          // Windows of a run in which nothing was wrong and the job was warm.
          record: healthy,
          expr: '%s\n* on (%s) group_left (run)\njob_id:culprit_nccl_run:info\nunless on (%s) %s\nunless on (%s) (job_id:culprit_nccl_process_age_seconds:min < %g)' % [
            value,
            q.part,
            q.job,
            q.troubled,
            q.job,
            w.warmUpSeconds,
          ],
        },
        {
          // Of the run that is going on. It stands still while a trigger fires, and a new run does not inherit it.
          record: value + '_baseline',
          expr: |||
            max by (%(part)s) (
              quantile_over_time(%(quantile)g, %(history)s)
              and
              count_over_time(%(history)s) >= %(samples)d
              and on (%(part)s, run)
              job_id:culprit_nccl_run:info
            )
            unless on (%(job)s) %(troubled)s
            or on (%(part)s)
            (%(value)s and on (%(job)s) job_id:culprit_nccl_process_age_seconds:max < %(warm)g) * 0 + %(neutral)s
          ||| % {
            value: value,
            part: q.part,
            job: q.job,
            quantile: quantile(signal),
            history: history,
            samples: w.minSamples,
            troubled: q.troubled,
            warm: w.warmUpSeconds,
            neutral: neutral(signal),
          },
        },
      ]
      for signal in $.culpritRecords.slowSignals
    ]) for w in config.slowWindows },
  },
}
