// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Adds runbook_url to every alert.
local link(config, rule) =
  if std.objectHas(rule, 'alert')
  then rule { annotations+: { runbook_url: config.runbookURLPattern % rule.alert } }
  else rule;

{
  prometheusAlerts+:: {
    groups: [group { rules: [link($._config, rule) for rule in group.rules] } for group in super.groups],
  },
}
