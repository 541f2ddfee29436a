// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Triggers that a job hangs: cheap, early, and allowed to be wrong. The analyzer knows a checkpoint from a hang.
{
  prometheusAlerts+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local alert = (import '../lib/alert.libsonnet')(config),
    local completed = q.metric('nccl_ops_completed_total'),
    local started = q.metric('nccl_ops_started_total'),

    groups+: [
      {
        name: 'culprit-progress',
        interval: config.progressInterval,
        rules: $.culpritRecords.progress + [
          alert.trigger(
            'CulpritNoOperationCompleted',
            'warning',
            // Where healthy waits exceed the window, or nothing has completed yet, the stall trigger decides alone.
            |||
              count by (%(job)s) (
                (
                  sum by (%(process)s) (%(completed)s) == sum by (%(process)s) (%(completed)s offset %(window)gs)
                )
                and
                (
                  sum by (%(process)s) (%(started)s offset %(window)gs) > sum by (%(process)s) (%(completed)s)
                )
                and on (%(process)s) (%(up)s == 1)
              )
              and on (%(job)s)
              (job_id:nccl_stall_seconds:threshold <= %(window)g)
            ||| % {
              job: q.job,
              process: q.process,
              completed: completed,
              started: started,
              up: q.metric('nccl_process_up'),
              window: config.failureWindowSeconds,
            },
            'A job has operations in progress and completes none.',
            '{{ $value }} rank(s) of job {{ $labels.job_id }} have had an operation in progress for %g s and completed none.' % config.failureWindowSeconds,
          ),
          alert.trigger(
            'CulpritOperationTooOld',
            'warning',
            |||
              (
                max by (%(job)s) (
                  %(age)s
                )
                > %(limit)g
              )
              and on (%(job)s)
              (
                job_id:nccl_function_ops:sum > 0
                or
                (
                  max by (%(job)s) (
                    %(age)s
                  )
                  > %(first)g
                )
              )
            ||| % {
              job: q.job,
              age: std.strReplace(q.living(q.metric('nccl_op_age_seconds')), '\n', '\n    '),
              limit: config.operationAgeSeconds,
              first: config.operationAgeFirstStepSeconds,
            },
            'An operation has been in flight for too long.',
            'The oldest operation of job {{ $labels.job_id }} has been in flight for {{ $value | humanizeDuration }}.',
          ),
          alert.trigger(
            'CulpritProcessVanished',
            'warning',
            // A dead rank counts when a living one has an operation in flight on one of its communicators.
            |||
              count by (%(job)s) (
                (max by (%(rank)s) (%(up)s) == 0)
                and on (%(rank)s)
                (
                  %(started)s
                  and on (%(comm)s)
                  (
                    %(started)s > %(completed)s
                    and on (%(process)s) (%(up)s == 1)
                  )
                )
              )
            ||| % {
              job: q.job,
              rank: q.rank,
              comm: q.comm,
              process: q.process,
              up: q.metric('nccl_process_up'),
              started: started,
              completed: completed,
            },
            'A process of a job vanished while others wait on its communicators.',
            '{{ $value }} process(es) of job {{ $labels.job_id }} vanished without an orderly end while other ranks have operations in flight with them.',
            pending=config.vanishedFor,
          ),
        ],
      },
      {
        name: 'culprit-stall',
        interval: config.stallInterval,
        rules: $.culpritRecords.stall + [
          alert.trigger(
            'CulpritJobStalled',
            'warning',
            'job_id:nccl_stall_seconds:max > job_id:nccl_stall_seconds:threshold',
            'A job makes no progress for longer than its own healthy waits explain.',
            'A communicator of job {{ $labels.job_id }} with an operation in flight has made no progress for {{ $value | humanizeDuration }}.',
          ),
        ],
      },
    ],
  },
}
