// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Triggers that a job got slow against its own last healthy windows, and the look at each new job, which has none.
{
  prometheusAlerts+:: {
    local config = $._config,
    local alert = (import '../lib/alert.libsonnet')(config),
    local q = (import '../lib/promql.libsonnet')(config),

    // One window's share of the baseline, in any window: of the job, or of one of few hosts.
    local against(name, op, most, condition) =
      '%s by (%s) (\n%s\n)' % [most, q.job, std.join('\nor\n', [
        local value = 'job_id:%s:%s_%s' % [name, op, w.name];
        '(%s / last_over_time(%s_baseline[%s]) %s)' % [value, value, config.baselineMemory, condition]
        for w in config.slowWindows
      ])],

    local triggers = [
      alert.trigger(
        'CulpritThroughputLow',
        'slow',
        // Nothing at all is no straggler: that is a pause, or a stall.
        against('culprit_nccl_bytes', 'rate', 'min', '> 0 < %g' % config.throughputRatio),
        'A job moves much less data than it did when it was healthy.',
        'Job {{ $labels.job_id }} moves {{ $value | humanizePercentage }} of the bytes per second of its last healthy windows.',
      ),
      alert.trigger(
        'CulpritOperationIntervalHigh',
        'slow',
        against('culprit_nccl_function_ops', 'rate', 'min', '> 0 < %g' % (1 / config.intervalRatio)),
        'The interval between the operations of a job has grown.',
        'Job {{ $labels.job_id }} completes {{ $value | humanizePercentage }} of the operations per second of its last healthy windows: the interval between operations is more than %g times as long.' % config.intervalRatio,
      ),
      alert.trigger(
        'CulpritIterationSlow',
        'slow',
        against('culprit_nccl_iteration_seconds', 'mean', 'max', '> %g' % config.iterationRatio),
        'The iterations of a job take longer than they did when it was healthy.',
        'Iterations of job {{ $labels.job_id }} take {{ $value | humanizePercentage }} of the time of its last healthy windows.',
        pending=config.iterationFor,
      ),
      alert.trigger(
        'CulpritFirstLook',
        'start',
        // It goes on firing while the analyzer accuses somebody and the job is as slow as it was then.
        |||
          max by (%(job)s) (job_id:culprit_nccl_first_look:iterations) > 0
          or
          max by (%(job)s) (
            job_id:culprit_nccl_iteration_seconds_count:min > 0
            and on (%(part)s)
            (job_id:culprit_nccl_iteration_seconds:mean_%(long)s * %(ratio)g > last_over_time(job_id:culprit_nccl_first_look:mean[%(memory)s]))
          )
          and on (%(job)s)
          %(looking)s
          and on (%(job)s)
          %(paged)s
        ||| % {
          job: q.job,
          part: q.part,
          looking: q.alerts('alertname="CulpritFirstLook", alertstate="firing"'),
          paged: q.verdicts('paged="true"'),
          ratio: config.iterationRatio,
          memory: config.baselineMemory,
          long: config.slowWindows[1].name,
        },
        'New job warmed up; checking once whether it is slow from the start.',
        'Job {{ $labels.job_id }} has done {{ $value }} iterations. No rule can tell whether it is slow, as it has no past to compare with.',
      ),
    ],

    // A group a window; the triggers are in that of the first, the shortest.
    groups+: std.mapWithIndex(
      function(i, w) {
        name: 'culprit-slow-' + w.name,
        interval: w.interval,
        rules: $.culpritRecords.slow[w.name] + (if i == 0 then $.culpritRecords.firstLook + triggers else []),
      },
      config.slowWindows
    ),
  },
}
