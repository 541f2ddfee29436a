// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Triggers that a job hangs: cheap, early, and allowed to be wrong. The analyzer knows a checkpoint from a hang.
{
  prometheusAlerts+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local alert = (import '../lib/alert.libsonnet')(config),
    local age = q.metric('culprit_nccl_op_age_seconds'),
    local ops = q.metric('culprit_nccl_function_ops_total'),
    local inCall = q.metric('culprit_nccl_call_open_seconds'),
    local ofCall = q.job + ', call_id',

    groups+: [
      {
        name: 'culprit-progress',
        interval: config.progressInterval,
        rules: $.culpritRecords.progress + [
          alert.trigger(
            'CulpritNoOperationCompleted',
            'hang',
            // The exporter shows no age for a process that ended. Where healthy waits exceed the window, or nothing has completed yet, the stall trigger decides alone.
            |||
              count by (%(job)s) (
                max by (%(process)s) (%(age)s > %(window)g)
                and on (%(process)s)
                (sum by (%(process)s) (%(ops)s) == sum by (%(process)s) (%(ops)s offset %(window)gs))
              )
              and on (%(job)s)
              (job_id:culprit_nccl_stall_seconds:threshold < %(window)g)
            ||| % {
              job: q.job,
              process: q.process,
              age: age,
              ops: ops,
              window: config.failureWindowSeconds,
            },
            'A job has operations in progress and completes none.',
            '{{ $value }} rank(s) of job {{ $labels.job_id }} have had an operation in progress for %g s and completed none.' % config.failureWindowSeconds,
          ),
          alert.trigger(
            'CulpritProcessVanished',
            'hang',
            // A rank that runs again elsewhere has not vanished.
            q.few(|||
              max by (%(rank)s) (%(up)s) == 0
              and on (%(job)s)
              (
                job_id:culprit_nccl_stall_seconds:max
                >
                (clamp(job_id:culprit_nccl_wait_ended_seconds:usual, %(stall)g, %(ceiling)g) or 0 * job_id:culprit_nccl_stall_seconds:max + %(stall)g)
              )
            ||| % {
              job: q.job,
              rank: q.rank,
              up: q.metric('culprit_nccl_process_up'),
              stall: config.vanishedStallSeconds,
              ceiling: config.stallCeilingSeconds,
            }),
            'A process of a job vanished and others wait.',
            '{{ if $labels.rank }}The process of rank {{ $labels.rank }}{{ else }}More than %d processes{{ end }} of job {{ $labels.job_id }} vanished without an orderly end, and other ranks with operations in flight make no progress.' % config.namedPerJob,
          ),
        ],
      },
      {
        name: 'culprit-launch',
        interval: config.launchInterval,
        rules: $.culpritRecords.launch + [
          alert.trigger(
            'CulpritLaunchesStopped',
            'hang',
            |||
              (
                job_id:culprit_nccl_launch_age_seconds:quartile
                >
                clamp(%(factor)g * job_id:culprit_nccl_launch_pause_seconds:usual, %(floor)g, %(ceiling)g)
                and on (%(job)s)
                job_id:culprit_nccl_ops_uneven:count
                or
                job_id:culprit_nccl_launch_age_seconds:quartile
                >
                clamp(%(factor)g * job_id:culprit_nccl_launch_pause_seconds:usual, %(even)g, %(ceiling)g)
              )
              and on (%(job)s)
              (max by (%(job)s) (%(started)s) >= %(first)g)
              or
              job_id:culprit_nccl_launch_age_seconds:quartile > clamp(job_id:culprit_nccl_launch_pause_seconds:usual, %(floor)g, %(ceiling)g)
              and on (%(job)s)
              (count by (%(job)s) (max by (%(rank)s) (%(up)s) == 0 or %(stopped)s == 1))
            ||| % {
              job: q.job,
              rank: q.rank,
              up: q.metric('culprit_nccl_process_up'),
              stopped: q.metric('culprit_nccl_process_stopped'),
              started: q.metric('culprit_nccl_ops_started_total'),
              factor: config.stallFactor,
              floor: config.launchFloorSeconds,
              even: config.launchEvenFloorSeconds,
              ceiling: config.stallCeilingSeconds,
              first: config.launchFirstOperations,
            },
            'The ranks of a job call no operation any more.',
            'Ranks of job {{ $labels.job_id }} have called no operation for {{ $value | humanizeDuration }}.',
          ),
        ],
      },
      {
        name: 'culprit-age',
        interval: config.ageInterval,
        rules: $.culpritRecords.age + [
          alert.trigger(
            'CulpritOperationTooOld',
            'hang',
            q.few('(job_id:culprit_nccl_comm_op_age_seconds:max > %g and on (%s) job_id:culprit_nccl_function_ops:sum > 0)\nor\njob_id:culprit_nccl_comm_op_age_seconds:max > %g' % [
              config.operationAgeSeconds,
              q.job,
              config.operationAgeFirstStepSeconds,
            ]),
            'An operation has been in flight for too long.',
            'The oldest operation of {{ with $labels.comm }}communicator {{ . }} of {{ end }}job {{ $labels.job_id }} has been in flight for {{ $value | humanizeDuration }}.',
          ),
        ],
      },
      {
        name: 'culprit-calls',
        interval: config.callInterval,
        rules: [
          alert.trigger(
            'CulpritCallBlocked',
            'hang',
            // The exporter shows calls from five seconds on, those that came back for five minutes, and none of a process that ended.
            |||
              max by (%(job)s) (
                max by (%(call)s) (%(open)s)
                and on (%(call)s)
                (max by (%(call)s) (%(returned)s) > %(split)g)
              ) > %(split)g
              or
              max by (%(job)s) (
                max by (%(call)s) (%(open)s)
                unless on (%(call)s)
                (count by (%(call)s) (%(open)s) >= max by (%(call)s) (%(ranks)s))
              ) > %(wait)g
              or
              max by (%(job)s) (%(open)s) > %(ceiling)g
            ||| % {
              job: q.job,
              call: ofCall,
              open: inCall,
              returned: q.metric('culprit_nccl_call_returned_seconds'),
              ranks: q.metric('culprit_nccl_call_ranks'),
              split: config.callSplitSeconds,
              wait: config.callWaitSeconds,
              ceiling: config.callCeilingSeconds,
            },
            'Ranks do not return from making or ending a communicator.',
            'A rank of job {{ $labels.job_id }} has been inside a call that makes or ends a communicator for {{ $value | humanizeDuration }}.',
          ),
        ],
      },
      {
        name: 'culprit-stall',
        interval: config.stallInterval,
        rules: $.culpritRecords.stall + [
          alert.trigger(
            'CulpritJobStalled',
            'hang',
            'job_id:culprit_nccl_stall_seconds:max > job_id:culprit_nccl_stall_seconds:threshold',
            'A job makes no progress for longer than its own healthy waits explain.',
            'A communicator of job {{ $labels.job_id }} with an operation in flight has made no progress for {{ $value | humanizeDuration }}.',
          ),
        ],
      },
    ],
  },
}
