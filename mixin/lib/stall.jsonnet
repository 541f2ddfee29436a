// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The stall trigger as the exporter has it (exporter/stall): the same numbers, labels and words as the rule's.
local mixin = import '../mixin.libsonnet';
local config = mixin._config;
local rule = [r for g in mixin.prometheusAlerts.groups for r in g.rules if std.get(r, 'alert') == 'CulpritJobStalled'][0];
local seconds(duration) =
  local n = std.parseInt(std.substr(duration, 0, std.length(duration) - 1));
  n * { s: 1, m: 60, h: 3600 }[std.substr(duration, std.length(duration) - 1, 1)];

{
  alert: rule.alert,
  labels: rule.labels,
  summary: rule.annotations.summary,
  // What follows asks Prometheus who it may be.
  description: std.split(rule.annotations.description, '{{ $job :=')[0],
  runbook_url: rule.annotations.runbook_url,
  interval_seconds: seconds(config.stallInterval),
  floor_seconds: config.stallFloorSeconds,
  factor: config.stallFactor,
  ceiling_seconds: config.stallCeilingSeconds,
  first_step_seconds: config.stallFirstStepSeconds,
  window_seconds: seconds(config.stallWaitWindow),
  history_seconds: seconds(config.stallHistory),
  quantile: config.stallQuantile,
}
