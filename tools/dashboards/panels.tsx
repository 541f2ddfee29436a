// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// The kinds of panels that the shipped dashboards use. Grafana's own are part of its application and in no package; these join the components that
// are: axes, lines, legends, tables, big numbers, units, thresholds, colours and field options are Grafana's. Only the heat map's cells are ours.

import { useMemo } from 'react';
import { DataFrame, FieldColorModeId, FieldConfigProperty, FieldType, PanelPlugin, PanelProps, VizOrientation, cacheFieldDisplayNames, formattedValueToString, getFieldDisplayName, getFieldDisplayValues, getValueFormat } from '@grafana/data';
import { AxisPlacement, ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { BigValue, TimeSeries, UPlotChart, UPlotConfigBuilder, VizRepeater, useTheme2 } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import * as chromatic from 'd3-scale-chromatic';

import { custom, graphOptions, tableOptions } from './registries';

const NoData = () => <div className="no-data">No data</div>;

// Options are those of the panel in the dashboard's JSON; Grafana's schema package has their types, which the build checks the JSON against.
type Props = PanelProps<any>;

function Lines({ data, timeRange, timeZone, width, height, options }: Props) {
  const frames = data.series.filter((f) => f.length > 0 && f.fields.some((field) => field.type === FieldType.number && field.values.some((v) => v !== null)));
  if (!frames.length) {
    return <NoData />;
  }
  return <TimeSeries frames={frames} structureRev={data.structureRev} timeRange={timeRange} timeZone={timeZone} width={width} height={height} legend={options.legend} options={options} />;
}

function Stat({ data, width, height, options, fieldConfig, replaceVariables, timeZone, renderCounter }: Props) {
  const theme = useTheme2();
  const sparkline = options.graphMode !== 'none';
  const values = () => getFieldDisplayValues({ fieldConfig, reduceOptions: options.reduceOptions, replaceVariables, theme, data: data.series, sparkline, timeZone });
  if (!data.series.length) {
    return <NoData />;
  }
  return (
    <VizRepeater
      getValues={values} source={data} renderCounter={renderCounter} width={width} height={height} orientation={VizOrientation.Auto} itemSpacing={3} autoGrid
      renderValue={({ value, width, height, count }) => (
        <BigValue value={value.display} count={count} sparkline={value.sparkline} colorMode={options.colorMode} graphMode={options.graphMode} justifyMode={options.justifyMode ?? 'auto'}
          textMode={options.textMode} theme={theme} width={width} height={height} />
      )}
    />
  );
}

function Table({ data, width, height, options, fieldConfig, timeRange }: Props) {
  const frame = data.series[0];
  if (!frame || !frame.length) {
    return <NoData />;
  }
  cacheFieldDisplayNames(data.series);
  return <TableNG data={frame} width={width} height={height} noHeader={!options.showHeader} cellHeight={options.cellHeight} initialSortBy={options.sortBy} fieldConfig={fieldConfig}
    timeRange={timeRange} structureRev={data.structureRev} enableVirtualization={false} />;
}

function palette(options: { scheme: string; steps: number; reverse?: boolean }) {
  const colour = (chromatic as unknown as Record<string, (x: number) => string>)[`interpolate${options.scheme}`];
  const list = Array.from({ length: options.steps }, (_, i) => colour(i / (options.steps - 1)));
  return options.reverse ? list.reverse() : list;
}

// HeatMap has a row for each series and a column for each step. Nothing and zero are not drawn, as in Grafana.
function HeatMap({ data, timeRange, timeZone, width, height, options, fieldConfig }: Props) {
  const theme = useTheme2();
  const frames = data.series.filter((f) => f.length > 1);
  const colours = useMemo(() => palette(options.color), [options.color]);
  const values = frames.flatMap((f) => f.fields[1].values.filter((v: number | null) => v !== null && v > 1e-9)) as number[];
  if (!values.length) {
    return <NoData />;
  }
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const fill = (v: number) => colours[high > low ? Math.min(colours.length - 1, Math.floor(((v - low) / (high - low)) * colours.length)) : 0];
  const times = frames[0].fields[0].values as number[];
  const builder = new UPlotConfigBuilder(timeZone);
  const [down, up] = [ScaleDirection.Down, ScaleDirection.Up];
  builder.addScale({ scaleKey: 'x', isTime: true, orientation: ScaleOrientation.Horizontal, direction: ScaleDirection.Right, range: () => [timeRange.from.valueOf(), timeRange.to.valueOf()] });
  builder.addScale({ scaleKey: 'y', orientation: ScaleOrientation.Vertical, direction: options.yAxis.reverse ? down : up, range: () => [-0.5, frames.length - 0.5] });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone, theme });
  const every = Math.ceil((frames.length * 18) / (height - 60));
  const rows = frames.map((_, i) => i).filter((i) => i % every === 0);
  builder.addAxis({ scaleKey: 'y', placement: AxisPlacement.Left, theme, grid: { show: false }, splits: rows, values: rows.map((i) => rowName(frames, i, options.yAxis.unit)) });
  builder.addSeries({ scaleKey: 'y', pathBuilder: () => null, pointsBuilder: () => undefined, theme });
  builder.addHook('draw', (u) => {
    const gap = options.cellGap ?? 1;
    const column = Math.abs(u.valToPos(times[1], 'x', true) - u.valToPos(times[0], 'x', true));
    const row = Math.abs(u.valToPos(1, 'y', true) - u.valToPos(0, 'y', true));
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    u.ctx.clip();
    frames.forEach((f, y) => f.fields[1].values.forEach((v: number | null, i: number) => {
      if (v === null || v <= 1e-9) {
        return;
      }
      u.ctx.fillStyle = fill(v);
      u.ctx.fillRect(u.valToPos(times[i], 'x', true) - column, u.valToPos(y, 'y', true) - row / 2, Math.max(1, column - (column > 3 ? gap : 0)), Math.max(1, row - gap));
    }));
    u.ctx.restore();
  });
  const say = (v: number) => formattedValueToString(getValueFormat(fieldConfig.defaults.unit)(v));
  return (
    <div>
      <UPlotChart config={builder} data={[times, times.map(() => 0)]} width={width} height={height - 28} />
      <div className="scale"><span>{say(low)}</span><div style={{ background: `linear-gradient(90deg, ${colours.join(', ')})` }} /><span>{say(high)}</span></div>
    </div>
  );
}

function rowName(frames: DataFrame[], i: number, unit: string) {
  const name = getFieldDisplayName(frames[i].fields[1], frames[i], frames);
  const bound = frames[i].fields[1].labels?.le;
  return bound && bound !== '+Inf' ? formattedValueToString(getValueFormat(unit)(Number(bound))) : name;
}

const coloured = (mode: FieldColorModeId) => ({ standardOptions: { [FieldConfigProperty.Color]: { defaultValue: { mode } } } });

export const plugins: Record<string, PanelPlugin> = {
  timeseries: new PanelPlugin(Lines).useFieldConfig({ ...coloured(FieldColorModeId.PaletteClassic), ...custom(graphOptions) } as never),
  stat: new PanelPlugin(Stat).useFieldConfig(coloured(FieldColorModeId.Thresholds) as never),
  table: new PanelPlugin(Table).useFieldConfig({ ...coloured(FieldColorModeId.Thresholds), ...custom(tableOptions) } as never),
  heatmap: new PanelPlugin(HeatMap).useFieldConfig(),
};
