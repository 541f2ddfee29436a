// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// A small Grafana library: what the dashboards here need and no more. Panels carry no position; dashboard() lays them out.
local datasource = { type: 'prometheus', uid: '${datasource}' };

{
  // --- Variables ----------------------------------------------------------------------------------------------------

  datasourceVariable(regex):: {
    name: 'datasource',
    label: 'Data source',
    type: 'datasource',
    query: 'prometheus',
    regex: regex,
    hide: 0,
    refresh: 1,
    includeAll: false,
    multi: false,
    current: {},
  },

  // A variable over the values of a label. many: several values or all of them may be chosen.
  labelVariable(name, label, selector, description, many=false, all='.+'):: {
    name: name,
    label: label,
    description: description,
    type: 'query',
    datasource: datasource,
    query: { query: 'label_values(%s, %s)' % [selector, name], refId: 'variable' },
    definition: 'label_values(%s, %s)' % [selector, name],
    refresh: 2,  // On time range change: jobs come and go.
    sort: 3,  // Numerical, ascending: ranks are numbers.
    hide: 0,
    includeAll: many,
    multi: many,
    [if many then 'allValue']: all,
    current: if many then { text: ['All'], value: ['$__all'] } else {},
  },

  // A variable over the values of one label that shows people another one of the same series: shown must come before name in the alphabet,
  // as Prometheus orders labels.
  namedVariable(name, shown, label, metric, description):: self.labelVariable(name, label, metric, description) + {
    local query = 'query_result(max by (%s, %s) (%s))' % [shown, name, metric],
    query: { query: query, refId: 'variable' },
    definition: query,
    regex: '/%s="(?<text>[^"]+)", *%s="(?<value>[^"]+)"/' % [shown, name],
  },

  // A text that whoever looks at the dashboard can change.
  textVariable(name, label, value, description):: {
    name: name,
    label: label,
    description: description,
    type: 'textbox',
    query: value,
    hide: 0,
    current: { text: value, value: value },
    options: [{ selected: true, text: value, value: value }],
  },

  // --- Queries ------------------------------------------------------------------------------------------------------

  // A query over the time range. legend is a Grafana legend format.
  query(expr, legend=''):: { datasource: datasource, expr: expr, legendFormat: legend, range: true, instant: false },

  // A query at the end of the time range, as rows of a table.
  now(expr):: { datasource: datasource, expr: expr, format: 'table', range: false, instant: true },

  // --- Panels -------------------------------------------------------------------------------------------------------

  local targets(list) = std.mapWithIndex(function(i, t) t { refId: std.char(65 + i) }, list),

  local panel(type, title, description, unit, queries, width, height) = {
    type: type,
    title: title,
    description: description,
    datasource: datasource,
    targets: targets(queries),
    fieldConfig: { defaults: { unit: unit, noValue: 'none' }, overrides: [] },
    gridPos: { w: width, h: height },
    interval: '1s',
  },

  timeseries(title, description, unit, queries, width=12, height=8, stack=false, links=[], max=null):: panel('timeseries', title, description, unit, queries, width, height) + {
    fieldConfig+: {
      defaults+: {
        custom: {
          lineWidth: 1,
          fillOpacity: if stack then 40 else 0,
          showPoints: 'never',
          spanNulls: false,
          stacking: { mode: if stack then 'normal' else 'none', group: 'A' },
        },
        min: 0,
        [if max != null then 'max']: max,
        links: links,
      },
    },
    options: {
      legend: { displayMode: 'table', placement: 'right', calcs: ['lastNotNull', 'max'], sortBy: 'Last *', sortDesc: true, showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  },

  // Marks the series of the query whose legend is name as a limit: dashed and red.
  limit(name):: {
    matcher: { id: 'byRegexp', options: name },
    properties: [
      { id: 'custom.lineStyle', value: { fill: 'dash', dash: [6, 6] } },
      { id: 'color', value: { mode: 'fixed', fixedColor: 'red' } },
    ],
  },

  stat(title, description, unit, queries, width=4, height=4, steps=[], mappings=[], links=[], text=false):: panel('stat', title, description, unit, queries, width, height) + {
    fieldConfig+: {
      defaults+: {
        color: { mode: 'thresholds' },
        thresholds: { mode: 'absolute', steps: [{ color: 'green', value: null }] + steps },
        mappings: mappings,
        links: links,
      },
    },
    options: {
      colorMode: if text then 'none' else 'value',
      graphMode: if text then 'none' else 'area',
      textMode: if text then 'name' else 'auto',
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    },
  },

  // A table of instant queries. columns: field name -> { title, unit, links, width, mappings }; hidden: field names left out.
  // join: the label by which several queries become one row; merge: all their labels do, which must be the same.
  table(title, description, queries, columns, hidden=[], join='', merge=false, order=[], sort='', width=24, height=8):: panel('table', title, description, 'none', queries, width, height) + {
    transformations:
      (if join != '' then [{ id: 'joinByField', options: { byField: join, mode: 'outer' } }] else if merge then [{ id: 'merge', options: {} }] else []) + [
        {
          id: 'organize',
          options: {
            excludeByName: { [name]: true for name in hidden + ['Time', '__name__'] + ['Time %d' % i for i in std.range(1, std.length(queries))] },
            indexByName: { [order[i]]: i for i in std.range(0, std.length(order) - 1) },
            renameByName: { [name]: columns[name].title for name in std.objectFields(columns) },
          },
        },
      ],
    fieldConfig+: {
      // Ten columns fit beside another panel; Grafana's own 150 pixels push the last ones out of sight.
      defaults+: { custom: { align: 'auto', filterable: true, minWidth: 80 } },
      overrides: [
        local column = columns[name];
        {
          matcher: { id: 'byName', options: column.title },
          properties:
            (if std.objectHas(column, 'unit') then [{ id: 'unit', value: column.unit }] else []) +
            (if std.objectHas(column, 'width') then [{ id: 'custom.width', value: column.width }] else []) +
            (if std.objectHas(column, 'mappings') then [{ id: 'mappings', value: column.mappings }] else []) +
            (if std.objectHas(column, 'links') then [{ id: 'links', value: column.links }] else []) +
            (if std.objectHas(column, 'color') then [
               { id: 'custom.cellOptions', value: { type: 'color-background', mode: 'basic' } },
               { id: 'color', value: { mode: 'thresholds' } },
               { id: 'thresholds', value: { mode: 'absolute', steps: [{ color: 'transparent', value: null }] + column.color } },
             ] else []),
        }
        for name in std.objectFields(columns)
      ],
    },
    options: {
      showHeader: true,
      cellHeight: 'sm',
      [if sort != '' then 'sortBy']: [{ displayName: sort, desc: true }],
    },
  },

  // What becomes of a discrete state, one line a series.
  timeline(title, description, queries, mappings, width=24, height=6):: panel('state-timeline', title, description, 'short', queries, width, height) + {
    fieldConfig+: {
      defaults+: { mappings: mappings, color: { mode: 'thresholds' }, custom: { fillOpacity: 80, lineWidth: 0 } },
    },
    options: { mergeValues: true, showValue: 'never', rowHeight: 0.9, legend: { displayMode: 'list', placement: 'bottom', showLegend: true } },
  },

  heatmap(title, description, unit, queries, width=12, height=8):: panel('heatmap', title, description, unit, [q { format: 'heatmap' } for q in queries], width, height) + {
    options: {
      calculate: false,
      color: { mode: 'scheme', scheme: 'Spectral', steps: 64, reverse: true },
      yAxis: { unit: unit },
      cellGap: 1,
      tooltip: { mode: 'single', showColorScale: true, yHistogram: false },
      legend: { show: true },
    },
  },

  // One row a series, in the order of their names: what each does over time.
  rows(title, description, unit, queries, width=24, height=12):: self.heatmap(title, description, unit, queries, width, height) + {
    targets: [t { format: 'time_series' } for t in super.targets],
    options+: { rowsFrame: { layout: 'auto' }, yAxis: { unit: 'none', reverse: true } },
  },

  row(title, panels, collapsed=false):: { title: title, panels: panels, collapsed: collapsed },

  mapping(values):: [{ type: 'value', options: {
    [v]: { text: values[v][0], color: values[v][1], index: std.find(v, std.objectFields(values))[0] }
    for v in std.objectFields(values)
  } }],

  // --- Links --------------------------------------------------------------------------------------------------------

  // A link to another dashboard that keeps data source and time. parameters: variable -> what it becomes there.
  drilldown(title, uid, parameters):: {
    title: title,
    url: '/d/%s?${datasource:queryparam}&%s&${__url_time_range}' % [
      uid,
      std.join('&', ['var-%s=%s' % [name, parameters[name]] for name in std.objectFields(parameters)]),
    ],
  },

  external(title, url):: { title: title, url: url, targetBlank: true },

  // A link at the head of a dashboard to a page elsewhere.
  pageLink(title, url, tooltip):: { type: 'link', title: title, url: url, tooltip: tooltip, targetBlank: true, icon: 'external link', includeVars: false, keepTime: false },

  // --- Dashboard ----------------------------------------------------------------------------------------------------

  // Places panels left to right, and below when a line of 24 columns is full.
  local place(panels, top) = std.foldl(
    function(at, p)
      local wraps = at.x + p.gridPos.w > 24;
      local x = if wraps then 0 else at.x;
      local y = if wraps then at.y + at.h else at.y;
      {
        x: x + p.gridPos.w,
        y: y,
        h: if wraps then p.gridPos.h else std.max(at.h, p.gridPos.h),
        panels: at.panels + [p { gridPos+: { x: x, y: y } }],
      },
    panels,
    { x: 0, y: top, h: 0, panels: [] }
  ),

  local layout(rows) = std.foldl(
    function(at, r)
      local placed = place(r.panels, at.y + 1);
      local bar = { type: 'row', title: r.title, collapsed: r.collapsed, gridPos: { x: 0, y: at.y, w: 24, h: 1 } };
      if r.collapsed
      then { y: at.y + 1, panels: at.panels + [bar { panels: placed.panels }] }
      else { y: placed.y + placed.h, panels: at.panels + [bar { panels: [] }] + placed.panels },
    rows,
    { y: 0, panels: [] }
  ).panels,

  // Ids in reading order, those inside collapsed rows too.
  local numbered(panels) = std.mapWithIndex(
    function(i, p) p { id: 100 * (i + 1) } + (
      if std.objectHas(p, 'panels') then { panels: std.mapWithIndex(function(j, q) q { id: 100 * (i + 1) + j + 1 }, p.panels) } else {}
    ),
    panels
  ),

  dashboard(config, uid, title, description, variables, rows, annotations, links=[]):: {
    uid: uid,
    title: title,
    description: description,
    tags: [config.dashboardTag],
    timezone: 'browser',
    editable: false,
    graphTooltip: 1,  // Shared crosshair.
    refresh: config.dashboardRefresh,
    schemaVersion: 39,
    time: { from: config.dashboardFrom, to: 'now' },
    templating: { list: [$.datasourceVariable(config.datasourceRegex)] + variables },
    annotations: { list: annotations },
    links: [{
      title: 'Culprit',
      type: 'dashboards',
      tags: [config.dashboardTag],
      asDropdown: true,
      includeVars: true,
      keepTime: true,
      icon: 'external link',
    }] + links,
    panels: numbered(layout(rows)),
  },

  annotation(name, expr, title, text, color):: {
    name: name,
    datasource: datasource,
    enable: true,
    expr: expr,
    titleFormat: title,
    textFormat: text,
    iconColor: color,
    step: '5s',
    useValueForTime: false,
  },
}
