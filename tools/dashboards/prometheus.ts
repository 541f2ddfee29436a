// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Grafana's data source for Prometheus is no package of its own with a free licence; this is what the shipped dashboards need of it: range and
// instant queries as series, tables and heat maps, label_values(), query_result(), and the variables of intervals. The page's server forwards /api to Prometheus.

import { DataFrame, DataQueryRequest, DataQueryResponse, FieldType, MetricFindValue, ScopedVars, TestDataSourceResponse } from '@grafana/data';
import { RuntimeDataSource, SceneObject, sceneGraph } from '@grafana/scenes';

export interface Query {
  refId: string;
  expr: string;
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  legendFormat?: string;
  hide?: boolean;
}

interface Series {
  metric: Record<string, string>;
  value?: [number, string];
  values?: Array<[number, string]>;
}

// escape makes a value of a variable a part of a regular expression inside a PromQL string.
const escape = (text: string) => text.replace(/\\/g, '\\\\\\\\').replace(/[$^*{}[\]+?.()|]/g, '\\\\$&');

const interpolated = (text: string, vars: ScopedVars) =>
  sceneGraph.interpolate((vars.__sceneObject as { value: { valueOf(): SceneObject } }).value.valueOf(), text, vars, (value: unknown) =>
    Array.isArray(value) ? (value.length === 1 ? escape(value[0]) : `(${value.map(escape).join('|')})`) : String(value)
  );

const legend = (format: string | undefined, metric: Record<string, string>) => {
  if (format && format !== '__auto') {
    return format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '');
  }
  const { __name__: name = '', ...labels } = metric;
  const list = Object.entries(labels).map(([k, v]) => `${k}="${v}"`);
  return list.length || !name ? `${name}{${list.join(', ')}}` : name;
};

async function get(path: string, params: Record<string, string>) {
  const reply = await fetch(`/api/v1/${path}?${new URLSearchParams(params)}`);
  const answer = await reply.json();
  if (answer.status !== 'success') {
    throw new Error(`${answer.errorType}: ${answer.error}`);
  }
  return answer.data;
}

export class Prometheus extends RuntimeDataSource<Query> {
  constructor(private scrape: number) {
    super('prometheus', 'prometheus');
    this.interval = `${scrape}s`;
  }

  async query(request: DataQueryRequest<Query>): Promise<DataQueryResponse> {
    const frames = await Promise.all(request.targets.filter((t) => !t.hide).map((t) => this.ask(t, request)));
    return { data: frames.flat() };
  }

  testDatasource(): Promise<TestDataSourceResponse> {
    return Promise.resolve({ status: 'success', message: '' });
  }

  async metricFindQuery(query: string | { query: string }, options: { scopedVars: ScopedVars; range: DataQueryRequest['range'] }): Promise<MetricFindValue[]> {
    const text = interpolated(typeof query === 'string' ? query : query.query, options.scopedVars);
    const { from, to } = options.range;
    const expr = /^query_result\((.+)\)$/s.exec(text);
    if (expr) {
      const { result }: { result: Series[] } = await get('query', { query: expr[1], time: String(to.unix()) });
      return result.map(({ metric }) => ({ text: `{${Object.entries(metric).map(([name, value]) => `${name}="${value}"`).join(',')}} 1` }));
    }
    const m = /^label_values\((.+), *([a-zA-Z_]\w*)\)$/s.exec(text);
    if (!m) {
      throw new Error(`neither label_values() nor query_result(): ${text}`);
    }
    const values: string[] = await get(`label/${m[2]}/values`, { 'match[]': m[1], start: String(from.unix()), end: String(to.unix()) });
    return values.map((text) => ({ text, value: text }));
  }

  // ask follows Grafana's own: the step is at least the scrape interval, and $__rate_interval at least four times that.
  private async ask(target: Query, request: DataQueryRequest<Query>): Promise<DataFrame[]> {
    const [from, to] = [request.range.from.valueOf() / 1000, request.range.to.valueOf() / 1000];
    const step = Math.max(request.intervalMs / 1000, this.scrape);
    const range = Math.round(to - from);
    const expr = interpolated(target.expr, {
      ...request.scopedVars,
      __interval: { text: `${step}s`, value: `${step}s` },
      __rate_interval: { text: '', value: `${Math.max(step + this.scrape, 4 * this.scrape)}s` },
      __range: { text: `${range}s`, value: `${range}s` },
      __range_s: { text: `${range}`, value: `${range}` },
    });
    let result: Series[];
    if (target.instant) {
      result = (await get('query', { query: expr, time: String(to) })).result;
    } else {
      const start = Math.floor(from / step) * step;
      result = (await get('query_range', { query: expr, start: String(start), end: String(Math.floor(to / step) * step), step: String(step) })).result;
    }
    if (target.format === 'table') {
      return [table(target, result, request.targets.length)];
    }
    const times: number[] = [];
    for (let t = Math.floor(from / step) * step; t <= to && !target.instant; t += step) {
      times.push(Math.round(t * 1000));
    }
    const frames = result.map((s) => series(target, s, times));
    return target.format === 'heatmap' ? buckets(frames) : frames;
  }
}

// sample reads a number as Prometheus writes it: with +Inf and -Inf.
const sample = (text: string) => Number(text.replace('Inf', 'Infinity'));

// series has null where Prometheus has nothing, so that lines have gaps.
function series(target: Query, s: Series, steps: number[]): DataFrame {
  const samples = s.values ?? [s.value!];
  const times = steps.length ? steps : samples.map(([t]) => t * 1000);
  const at = new Map(samples.map(([t, v]) => [Math.round(t * 1000), sample(v)]));
  const name = legend(target.legendFormat, s.metric);
  return {
    refId: target.refId,
    name,
    length: times.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: times },
      { name: 'Value', type: FieldType.number, labels: s.metric, config: { displayNameFromDS: name }, values: times.map((t) => at.get(Math.round(t)) ?? null) },
    ],
  };
}

function table(target: Query, result: Series[], targets: number): DataFrame {
  const labels = [...new Set(result.flatMap((s) => Object.keys(s.metric)))].sort();
  const rows = result.flatMap((s) => (s.values ?? [s.value!]).map(([t, v]) => ({ t: t * 1000, v: sample(v), metric: s.metric })));
  return {
    refId: target.refId,
    length: rows.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: rows.map((r) => r.t) },
      ...labels.map((l) => ({ name: l, type: FieldType.string, config: { filterable: true }, values: rows.map((r) => r.metric[l] ?? '') })),
      { name: targets > 1 ? `Value #${target.refId}` : 'Value', type: FieldType.number, config: {}, values: rows.map((r) => r.v) },
    ],
  };
}

// buckets takes from each bucket of a histogram what is in the ones below it.
function buckets(frames: DataFrame[]): DataFrame[] {
  const bound = (f: DataFrame) => sample(f.fields[1].labels?.le ?? '');
  const sorted = [...frames].sort((a, b) => bound(a) - bound(b));
  return sorted.map((f, i) =>
    i === 0 ? f : { ...f, fields: [f.fields[0], { ...f.fields[1], values: f.fields[1].values.map((v, k) => (v === null ? null : Math.max(0, v - sorted[i - 1].fields[1].values[k]))) }] }
  );
}
