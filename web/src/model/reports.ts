import type {ReportLine} from '../api/types';

// Reports as weir report prints and saves them.

/** Measure is how a column of a report is printed. */
export type Measure = 'count' | 'core_h' | 'gpu_h' | 'gib_h' | 'seconds' | 'part' | 'text' | 'money';

/** reportNames are the reports of the page, in its order. */
export const reportNames = ['promises', 'usage', 'waits', 'savings', 'budgets', 'preemptions', 'forecasts'] as const;
export type ReportName = (typeof reportNames)[number];

/** numberOf returns a figure of a line; 0 if it has none. */
export function numberOf(line: ReportLine, column: string): number {
  const value = line[column];
  return typeof value === 'number' ? value : 0;
}

/** scaleOf returns by what a value of the server is divided for a measure: sums are units × seconds there and units × hours here. */
export function scaleOf(measure: Measure): number {
  if (measure === 'money') return 1_000_000;
  return measure === 'core_h' || measure === 'gpu_h' || measure === 'gib_h' ? 3600 : 1;
}

/** measureOf returns the measure of a column by its name. */
export function measureOf(column: string): Measure {
  if (column === 'cost_micros') return 'money';
  if (column.endsWith('_core_s')) return 'core_h';
  if (column.endsWith('_gib_s')) return 'gib_h';
  if (column.endsWith('_gpu_s') || column.endsWith('_slot_s')) return 'gpu_h';
  if (column.endsWith('_s')) return 'seconds';
  if (column === 'coverage') return 'part';
  return 'count';
}

/** tableOf returns the header and rows of a report as weir report -o csv writes them: all columns, unscaled. */
export function tableOf(from: string, to: string, columns: string[], lines: ReportLine[]): [string[], (string | number | null)[][]] {
  return [['from', 'to', ...columns], lines.map((line) => [from, to, ...columns.map((column) => line[column] ?? null)])];
}

/** ForecastSum is how well the forecasts of a target held, over several pools. */
export interface ForecastSum {
  target: string;
  /** scored is how many forecasts have an outcome, settled how many of them were calibrated, held how many of those held. */
  scored: number;
  settled: number;
  held: number;
  uncalibrated: number;
  /** shown is the mean loss of what was published, in seconds. */
  shown: number | undefined;
  /** compared has the mean losses on the forecasts that every method made, in seconds; undefined if there are none. */
  compared: {count: number; shown: number; ensemble: number; history: number} | undefined;
}

/** forecastSums adds up a report on forecasts by target. Means of pools count as often as they have forecasts. */
export function forecastSums(lines: ReportLine[]): ForecastSum[] {
  return ['start', 'finish'].flatMap((target) => {
    const own = lines.filter((line) => line['target'] === target);
    if (own.length === 0) return [];
    const sum = (column: string) => own.reduce((total, line) => total + numberOf(line, column), 0);
    const all = (line: ReportLine) => numberOf(line, 'settled') + numberOf(line, 'uncalibrated');
    const mean = (column: string, weight: (line: ReportLine) => number) => {
      const whole = own.reduce((total, line) => total + weight(line), 0);
      return own.reduce((total, line) => total + numberOf(line, column) * weight(line), 0) / whole;
    };
    const count = sum('compared');
    const both = (line: ReportLine) => numberOf(line, 'compared');
    const scored = own.reduce((total, line) => total + all(line), 0);
    return [{
      target, scored, settled: sum('settled'), held: sum('held'), uncalibrated: sum('uncalibrated'), shown: scored > 0 ? mean('pinball_s', all) : undefined,
      compared: count > 0
        ? {count, shown: mean('compared_pinball_s', both), ensemble: mean('compared_ensemble_s', both), history: mean('compared_history_s', both)}
        : undefined,
    }];
  });
}

/** chanceOf returns the 95 % interval of the coverage that held of settled forecasts suggest (Wilson). */
export function chanceOf(held: number, settled: number): [number, number] {
  if (settled === 0) return [0, 1];
  const z = 1.96;
  const part = held / settled;
  const scale = 1 + (z * z) / settled;
  const middle = (part + (z * z) / (2 * settled)) / scale;
  const half = (z / scale) * Math.sqrt((part * (1 - part)) / settled + (z * z) / (4 * settled * settled));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/** nominal is the part of all outcomes that intervals should hold. */
export const nominal = 0.9;

/** fewest is how many scored forecasts a statement about coverage needs; the server calibrates from as many on. */
export const fewest = 40;
