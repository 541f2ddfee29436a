// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Where more than id and owner tells jobs apart, such as the cluster, each dashboard has a variable for it with a single value, every query
// selects that value, and links keep it. Queries need not name the label otherwise: they see one cluster at a time.
local narrowed = (import 'selectors.libsonnet').narrowed;

// Adds matchers to every selector of an expression. The analyzer serves all clusters: what it says of itself belongs to none.
local ours = 'culprit_';
local others = ['ALERTS{', 'up{', 'scrape_duration_seconds{', 'scrape_samples_scraped{'];
local narrow(expr, matchers) =
  local parts = std.split(' ' + expr, ours);
  local text = std.foldl(
    function(text, name) std.foldl(function(t, before) std.strReplace(t, before + name, before + name + matchers + ', '), ['(', ' '], text),
    others,
    parts[0] + std.join('', [ours + (if std.startsWith(p, 'analyzer_') then p else narrowed(p, matchers)) for p in parts[1:]])
  );
  std.substr(text, 1, std.length(text));

local walk(value, key, change) =
  if std.isObject(value) then { [k]: walk(value[k], k, change) for k in std.objectFields(value) }
  else if std.isArray(value) then [walk(v, key, change) for v in value]
  else if std.isString(value) then change(key, value)
  else value;

{
  local config = $._config,
  local g = import 'grafana.libsonnet',
  local labels = std.filter(function(l) l != 'job_id' && l != 'owner', config.jobLabels),
  local matchers = std.join(', ', ['%s=~"$%s"' % [l, l] for l in labels]),
  // What the analyzer shows of itself has neither label.
  local ofAnalyzer(expr) = config.analyzerSelector != '' && std.length(std.split(expr, config.analyzerSelector)) > 1,
  local change(key, text) =
    if std.member(['expr', 'definition', 'query'], key) then (if ofAnalyzer(text) then text else narrow(text, matchers))
    else if key != 'url' then text
    else if std.startsWith(text, '/d/') then std.strReplace(text, '?', '?' + std.join('', ['${%s:queryparam}&' % l for l in labels]))
    else std.strReplace(text, '/job?', '/job?' + std.join('', ['%s=${%s:percentencode}&' % [l, l] for l in labels])),
  local variable(label) = g.labelVariable(label, std.asciiUpper(label[0]) + label[1:], 'culprit_nccl_process_info', 'Jobs are told apart by it, beside their ids.'),

  grafanaDashboards: if labels == [] then super.grafanaDashboards else (
    local plain = super.grafanaDashboards;
    {
      [file]: walk(plain[file], '', change) + {
        // The first is the data source, which the others ask.
        templating+: { list: [super.list[0]] + [variable(l) for l in labels] + super.list[1:] },
      }
      for file in std.objectFields(plain)
    }
  ),
}
