// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Makes a trigger: an alert that goes to the analyzer's webhook and never to a person.
function(config) {
  local names = (import 'names.libsonnet')(config).text,

  // kind is what it tells of: 'hang', 'slow', or 'start', a new job of which nothing is known to be wrong. The analyzer goes by it, and by
  // no alert's name. Severity 'none' keeps triggers out of inhibition by severity, such as that of kube-prometheus-stack, and out of
  // rules that repeat alerts by severity.
  trigger(name, kind, expr, summary, description, pending=''):: {
    alert: name,
    expr: expr,
    [if pending != '' then 'for']: pending,
    keep_firing_for: config.keepFiringFor,
    labels: { severity: 'none', culprit: 'trigger', kind: kind },
    // A job that stands: whom PromQL alone can name.
    annotations: { summary: summary, description: description + (if kind == 'hang' then names else '') },
  },

  // Makes an alert on hardware and settings: nobody is woken up by it.
  ticket(name, expr, summary, description, pending=''):: {
    alert: name,
    expr: expr,
    [if pending != '' then 'for']: pending,
    labels: { severity: 'warning', culprit: 'ticket' },
    annotations: { summary: summary, description: description },
  },

  // Makes an alert on our own health: it goes to whoever runs Culprit.
  health(name, severity, expr, summary, description, pending=''):: {
    alert: name,
    expr: expr,
    [if pending != '' then 'for']: pending,
    labels: { severity: severity, culprit: 'health' },
    annotations: { summary: summary, description: description },
  },
}
