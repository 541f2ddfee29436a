// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Narrows what rules and dashboards read to what our exporters expose and the rules record.
local selectors = import 'selectors.libsonnet';

local walk(value, key, change) =
  if std.isObject(value) then { [k]: walk(value[k], k, change) for k in std.objectFields(value) }
  else if std.isArray(value) then [walk(v, key, change) for v in value]
  else if std.isString(value) then change(key, value)
  else value;

{
  local config = $._config,

  prometheusAlerts+:: {
    groups: selectors.trustedGroups(config, super.groups),
  },

  local change(key, text) = if std.member(['expr', 'definition', 'query'], key) then selectors.trusted(config, text) else text,
  grafanaDashboards: walk(super.grafanaDashboards, '', change),
}
