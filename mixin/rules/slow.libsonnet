// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Throughput, operation rate and iteration time of each job over each window, and the healthy baseline of each. A rate is per
// living rank that was seen: a scrape that failed must not look like a job at half its speed, nor the end of a job, where rates
// go on for their window after the ranks. These rules read most of all; matching ranks one by one would cost as much again.
{
  culpritRecords+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),

    local sumOfRates(metric, window) = 'sum by (%s) (rate(%s[%s]))' % [q.job, q.metric(metric), window],
    local perRank(vector) = '%s\n/\ncount by (%s) (%s == 1)' % [vector, q.job, q.metric('culprit_nccl_process_up')],

    // low: trouble is below the healthy range; otherwise it is above.
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

    local quantile(signal) = if signal.low then config.baselineEdge else 1 - config.baselineEdge,

    // By window.
    slow: { [w.name]: std.flattenArrays([
      local value = 'job_id:%s:%s_%s' % [signal.name, signal.op, w.name];
      local healthy = value + '_healthy';
      local history = '%s[%s] offset %s' % [healthy, config.baselineHistory, w.lag];
      [
        { record: value, expr: signal.expr(w.window) },
        {
          // Windows in which nothing was wrong and the job was warm.
          record: healthy,
          expr: '%s\nunless on (%s) %s\nunless on (%s) (job_id:culprit_nccl_process_age_seconds:min < %g)' % [
            value,
            q.job,
            q.triggered,
            q.job,
            w.warmUpSeconds,
          ],
        },
        {
          // Stands still while a trigger fires.
          record: value + '_baseline',
          expr: '(\n  quantile_over_time(%g, %s)\n  and\n  count_over_time(%s) >= %d\n)\nunless on (%s) %s' % [
            quantile(signal),
            history,
            history,
            w.minSamples,
            q.job,
            q.triggered,
          ],
        },
      ]
      for signal in $.culpritRecords.slowSignals
    ]) for w in config.slowWindows },
  },
}
