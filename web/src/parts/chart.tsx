import {useThemeType} from '@gravity-ui/uikit';
import {useEffect, useRef} from 'react';
import uPlot from 'uplot';

import {moment, tick} from '../model/format';
import {useTexts} from '../text/i18n';

export interface Line {
  label: string;
  color: string;
  values: (number | null)[];
  /** stacked lines are drawn on top of each other, filled. */
  stacked?: boolean;
  dashed?: boolean;
}

interface ChartProps {
  label: string;
  times: number[];
  lines: Line[];
  print: (value: number) => string;
  height?: number;
  /** printTime formats a moment on the axis; the default is the time of day. */
  printTime?: (seconds: number) => string;
  /** range is the part of the time axis to show, in seconds; the default is where there are points. */
  range?: [number, number];
  /** bars draws bars from one point to the next instead of lines. */
  stepped?: boolean;
}

/** colors are those of the things that charts show; each is legible on light and dark. */
export const colors = {
  usage: '#2f7de1',
  demand: '#e08a1e',
  strong: '#2f9e6e',
  integral: '#8e6bd8',
  weight: '#8b96a5',
  guarantee: '#1f8a5b',
  limit: '#d6455d',
  burst: '#b84fb4',
  flow: '#3aa6b9',
  volume: '#8e6bd8',
};

/** palette is for lines without a fixed colour. */
export const palette = ['#2f7de1', '#e08a1e', '#2f9e6e', '#8e6bd8', '#d6455d', '#3aa6b9', '#8b96a5'];

// steps are the possible distances, in seconds, between marks on the time axis.
const steps = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

// uPlot draws what it gets, so the sums of stacked lines are computed here; the hovered value is the line's
// own.
function stacked(lines: Line[]): (number | null)[][] {
  let below: (number | null)[] | undefined;
  return lines.map((line) => {
    if (!line.stacked) return line.values;
    const under: (number | null)[] | undefined = below;
    const sum = line.values.map((value, i) => (value === null ? null : value + (under?.[i] ?? 0)));
    below = sum;
    return sum;
  });
}

/** Chart draws lines over time and shows their values under the pointer. */
export function Chart({label, times, lines, print, height = 220, printTime, stepped, range}: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const dark = useThemeType() === 'dark';
  const {t, locale} = useTexts();
  const clock = (at: number) => moment(new Date(at * 1000).toISOString(), locale);
  const current = useRef({lines, print, printTime: printTime ?? clock, range});
  current.current = {lines, print, printTime: printTime ?? clock, range};
  const shape = lines.map((line) => `${line.label}${line.color}`).join('|');
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const ink = dark ? 'rgba(255,255,255,0.7)' : 'rgba(0,0,0,0.6)';
    const rule = dark ? 'rgba(255,255,255,0.1)' : 'rgba(0,0,0,0.08)';
    const made = new uPlot(
      {
        width: element.clientWidth || 600,
        height,
        legend: {live: true},
        cursor: {points: {size: 6}, y: false, sync: {key: 'weir'}},
        scales: {x: {time: !printTime, range: (_, min, max) => current.current.range ?? [min, max]}, y: {range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1]}},
        axes: [
          {
            stroke: ink, grid: {stroke: rule, width: 1}, ticks: {stroke: rule, width: 1}, space: 80, incrs: steps,
            values: (_, ticks) => ticks.map((at) => (printTime ? printTime(at) : tick(at, ticks, locale))),
          },
          {stroke: ink, grid: {stroke: rule, width: 1}, ticks: {stroke: rule, width: 1}, size: 76, values: (_, ticks) => ticks.map((v) => current.current.print(v))},
        ],
        series: [
          {label: t('Time'), value: (_, at) => (at === null ? '–' : current.current.printTime(at))},
          ...lines.map((line, n) => ({
            label: line.label,
            stroke: line.color,
            width: line.stacked ? 1 : 2,
            fill: line.stacked ? `${line.color}${dark ? '80' : '66'}` : undefined,
            dash: line.dashed ? [6, 4] : undefined,
            // A single point does not make a line.
            points: {show: (self: uPlot) => self.data[0].length < 2},
            paths: stepped ? uPlot.paths.stepped!({align: 1}) : undefined,
            value: (_: uPlot, __: number | null, ___: number, at: number | null) => {
              const own = at === null ? undefined : current.current.lines[n]?.values[at];
              return own === null || own === undefined ? '–' : current.current.print(own);
            },
          })),
        ],
        bands: lines.flatMap((line, n) => {
          if (!line.stacked) return [];
          const under = lines.findLastIndex((other, m) => m < n && other.stacked);
          return under < 0 ? [] : [{series: [n + 1, under + 1] as [number, number]}];
        }),
      },
      [times, ...stacked(lines)] as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({width: element.clientWidth, height}));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape, dark, locale, height, stepped]);
  useEffect(() => {
    plot.current?.setData([times, ...stacked(lines)] as uPlot.AlignedData);
  }, [times, lines]);
  return <div className="chart" ref={host} role="img" aria-label={label} />;
}
