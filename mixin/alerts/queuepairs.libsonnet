// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Triggers on RDMA queue pairs that stand or are slow beside their sisters, which do the same work: those of a rank to the same peer of the
// same communicator. The exporter shows them, with the verbs interposer, while one of them lags (P2).
{
  prometheusAlerts+:: {
    local config = $._config,
    local q = (import '../lib/promql.libsonnet')(config),
    local alert = (import '../lib/alert.libsonnet')(config),
    local family = q.process + ', comm, peer',
    local pair = family + ', qp, device',
    local named = q.rank + ', comm, peer, qp, device',
    local standing = q.metric('culprit_nccl_qp_standing_seconds'),
    local says(one, several) =
      '{{ if $labels.qp }}Queue pair {{ $labels.qp }} ({{ $labels.device }}) of rank {{ $labels.rank }} of job {{ $labels.job_id }} to peer {{ $labels.peer }} in communicator {{ $labels.comm }} ' + one +
      '{{ else }}Queue pairs of job {{ $labels.job_id }} ' + several + '{{ end }}',

    groups+: [{
      name: 'culprit-queue-pairs',
      interval: config.progressInterval,
      rules: [
        alert.trigger(
          'CulpritQueuePairStanding',
          'hang',
          // A sister whose sends complete shows that the peer takes data.
          q.few(|||
            max by (%(named)s) (
              %(standing)s > %(floor)g
              and on (%(family)s)
              (%(standing)s == 0)
            )
          ||| % { named: named, standing: standing, floor: config.stallFloorSeconds, family: family }),
          'A queue pair completes no send while others to the same peer do.',
          says(
            'has had a send outstanding for {{ $value | humanizeDuration }}. Another queue pair to the same peer has none.',
            'have had sends outstanding for up to {{ $value | humanizeDuration }}. Others to the same peers have none.',
          ),
        ),
        {
          // Bytes a second while a send is outstanding: waiting for other ranks does not count.
          record: 'job_id:culprit_nccl_qp_send_bytes:rate_active',
          expr: |||
            sum by (%(pair)s) (rate(%(bytes)s[%(window)s]))
            /
            (sum by (%(pair)s) (rate(%(epochs)s[%(window)s])) * %(epoch)g > 0)
          ||| % {
            pair: pair,
            bytes: q.metric('culprit_nccl_qp_send_bytes_total'),
            epochs: q.metric('culprit_nccl_qp_active_epochs_total'),
            epoch: config.epochSeconds,
            window: config.bandwidthWindow,
          },
        },
        {
          record: 'job_id:culprit_nccl_qp_send_bytes:share',
          expr: |||
            min by (%(named)s) (
              job_id:culprit_nccl_qp_send_bytes:rate_active
              / on (%(family)s) group_left ()
              quantile by (%(family)s) (0.5, job_id:culprit_nccl_qp_send_bytes:rate_active)
            )
          ||| % { named: named, family: family },
        },
        alert.trigger(
          'CulpritQueuePairSlow',
          'slow',
          q.few('job_id:culprit_nccl_qp_send_bytes:share < %g' % config.queuePairRatio),
          'A queue pair moves data at less than half the rate of others to the same peer.',
          says(
            'moves {{ $value | humanizePercentage }} of what the others to the same peer move while a send is outstanding.',
            'move less than %g%% of what the others to the same peers move while a send is outstanding.' % (100 * config.queuePairRatio),
          ),
          pending=config.bandwidthWindow,
        ),
      ],
    }],
  },
}
