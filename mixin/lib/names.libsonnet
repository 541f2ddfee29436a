// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A template that names ranks in the description of an alert about a job, by what PromQL alone can tell: for sites without an analyzer.
// Its queries run while the alert fires, for jobs of a size at which that is cheap. What it names is likely; the analyzer weighs far more.
function(config) {
  local q = (import 'promql.libsonnet')(config),
  // The labels of the alert as matchers; %q quotes what a job calls itself.
  local matchers = 'printf `%s` %s' % [std.join(',', [l + '=%q' for l in config.jobLabels]), std.join(' ', ['$labels.' + l for l in config.jobLabels])],
  local of(metric, more='') = q.metric(metric, '%[1]s' + more),
  // Who a rank is. A host that two exporters say they run on, of themselves or of their processes, is named for neither.
  local processes = of('culprit_nccl_process_info'),
  local info = '(%s unless on (host) (count by (host) (group by (host, instance) (culprit_exporter_build_info{%s, host!=""} or %s)) > 1))' % [processes, config.exporterSelector, processes],
  local most = 4,

  // Asks for the likeliest few and says the same of each.
  local each(query, text) = '{{ range query (printf `topk(%d, %s)` $job) }} %s{{ end }}' % [most, query, text],
  local who = 'Rank {{ .Labels.rank }}{{ with .Labels.host }} on {{ . }}{{ end }}{{ with .Labels.gpu }} (GPU {{ . }}){{ end }}',
  local comm = 'communicator {{ or .Labels.comm_name .Labels.comm }}',
  local place(vector) = '%s * on (rank) group_left (host, gpu) max by (rank, host, gpu) (%s)' % [vector, info],
  local process(condition) = 'max by (rank, host, gpu) (%s and on (instance, rank) (%s))' % [info, condition],
  local named(vector) = '%s * on (comm, rank) group_left (comm_name) max by (comm, rank, comm_name) (%s)' % [vector, of('culprit_nccl_comm_info')],

  local started = 'max by (comm, rank) (%s)' % of('culprit_nccl_ops_started_total'),
  // A rank that has called fewer operations than a peer, and is inside none: it is not one that waits for others.
  local behind = '(max by (comm) (%s) - on (comm) group_right () %s > 0) and on (rank) (max by (rank) (%s) == 0)' % [of('culprit_nccl_ops_started_total'), started, of('culprit_nccl_stall_seconds')],
  // Sent, and not acknowledged by the network. A process that has exited or is stopped acknowledges nothing, and no link is to blame.
  local undelivered = 'max by (comm, rank, peer) (%s and on (instance, rank, comm, channel, direction, peer) %s)' % [of('culprit_nccl_flow_state_seconds', ', direction="send"'), of('culprit_nccl_flow_info', ', state="send_net"')],

  text:: '{{ $job := %s }}{{ if query (printf `job_id:culprit_nccl_process_up:count{%%s} <= %d` $job) }}' % [matchers, config.namesUpToRanks] +
         each(process(of('culprit_nccl_process_up') + ' == 0'), who + ' exited without orderly shutdown.') +
         each(process(of('culprit_nccl_process_stopped') + ' == 1'), who + ' is stopped.') +
         each(named(place('(%s)' % behind)), who + ' has not entered an operation that its peers in ' + comm + ' wait in.') +
         each(named(place('(%s > %g unless on () (%s == 0 or %s == 1))' % [undelivered, config.stallFloorSeconds, of('culprit_nccl_process_up'), of('culprit_nccl_process_stopped')])), who + ' has sent data to peer {{ .Labels.peer }} in ' + comm + ' that the network has not delivered for {{ .Value | humanizeDuration }}.') +
         '{{ end }}',
}
