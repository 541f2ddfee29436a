// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Adds matchers to the selectors of an expression, so that no rule and no panel can forget them.
local isWord(c) = (c >= 'a' && c <= 'z') || c == '_' || c == ':' || (c >= '0' && c <= '9');
// jsonnet takes long for a letter of a long text, and no name is longer than this.
local longest = 100;
local lengthFrom(text, from) = if from < std.length(text) && isWord(text[from]) then lengthFrom(text, from + 1) else from;
local nameLength(text) = lengthFrom(std.substr(text, 0, longest), 0);
// text[:length] and text[from:], which jsonnet interprets letter by letter; std.substr is native.
local head(text, length) = std.substr(text, 0, length);
local tail(text, from) = std.substr(text, from, std.length(text));

{
  // Adds matchers to a selector, given from within the metric's name on.
  narrowed(text, matchers)::
    local end = nameLength(text);
    local rest = tail(text, end);
    if matchers == '' then text else head(text, end) + (
      if std.startsWith(rest, '{}') then '{' + matchers + tail(rest, 1)
      else if std.startsWith(rest, '{') then '{' + matchers + ', ' + tail(rest, 1)
      else '{' + matchers + '}' + rest
    ),

  // Adds matchers to the selectors of metrics whose names begin with prefix.
  each(expr, prefix, matchers)::
    local parts = std.split(expr, prefix);
    parts[0] + std.join('', [prefix + $.narrowed(p, matchers) for p in parts[1:]]),

  // Reads the series of jobs from our exporters alone, and recorded series from the rules alone: any other target that is scraped can
  // expose series of the same names.
  trusted(config, expr)::
    local exporters(text) = std.foldl(function(t, prefix) $.each(t, prefix, config.ncclSelector), ['culprit_nccl_', 'culprit_host_thread_'], text);
    local recorded(text) =
      local end = nameLength(text);
      local narrow = $.narrowed(text, config.recordedSelector);
      head(narrow, end) + exporters(tail(narrow, end));
    local parts = std.split(expr, 'job_id:');
    exporters(parts[0]) + std.join('', ['job_id:' + recorded(p) for p in parts[1:]]),

  // The same for every expression of rules, and for the queries in their texts.
  trustedGroups(config, groups):: [
    group {
      rules: [
        rule {
          expr: $.trusted(config, rule.expr),
          [if std.objectHas(rule, 'annotations') then 'annotations']+: { description: $.trusted(config, super.description) },
        }
        for rule in group.rules
      ],
    }
    for group in groups
  ],
}
