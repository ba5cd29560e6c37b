import type {PoolGuarantees, ShortCause} from '../api/types';
import {dayAfter, monthAfter} from './period';

/** Verdict says whether a promise was kept. No demand is no verdict, never "kept". */
export type Verdict = 'kept' | 'broken' | 'none';

/** least is the part of what was due that a pool must have got for its promise to count as kept; days of flow guarantees are judged
 * by the same part. */
const least = 0.99;

/** partOf returns how much of what was due was not broken, and undefined if nothing was due. Lines of several resources cannot be
 * summed: the worst one counts. */
export function partOf(lines: PoolGuarantees[]): number | undefined {
  const parts = lines.flatMap((line) => {
    const flow = line.flow;
    return [
      ...(line.kept === null ? [] : [line.kept]),
      ...(flow && flow.kept !== null && flow.due > 0 ? [Math.min(1, flow.got / flow.due)] : []),
    ];
  });
  return parts.length > 0 ? Math.min(...parts) : undefined;
}

/** verdictOf judges the lines of a pool. */
export function verdictOf(lines: PoolGuarantees[]): Verdict {
  if (lines.some((line) => line.flow?.kept === false)) return 'broken';
  const part = partOf(lines);
  if (part === undefined) return 'none';
  return part >= least ? 'kept' : 'broken';
}

/** percent prints a part, rounded down: only what was kept in full is 100%. */
export function percent(part: number | null | undefined, locale: 'en' | 'ru' = 'en'): string {
  if (part === null || part === undefined) return '–';
  const floor = Math.floor(part * 10_000 + 1e-6) / 100;
  return `${floor.toLocaleString(locale === 'ru' ? 'ru-RU' : 'en-US', {maximumFractionDigits: 2})}%`;
}

/** grouped divides a list by a key, in the order of the keys' first items. */
function grouped<T>(list: T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of list) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

export interface CalendarDay {
  /** day is such as 2026-10-31. */
  day: string;
  lines: PoolGuarantees[];
  verdict: Verdict;
  part: number | undefined;
  /** future days have not begun. */
  future: boolean;
}

/** calendarOf returns the weeks of a month, from Monday; days of other months are undefined. */
export function calendarOf(month: string, lines: PoolGuarantees[], today: string): (CalendarDay | undefined)[][] {
  const byDay = grouped(lines, (line) => line.day ?? '');
  const first = `${month}-01`;
  const end = `${monthAfter(month)}-01`;
  const cells: (CalendarDay | undefined)[] = Array.from({length: (new Date(`${first}T00:00:00Z`).getUTCDay() + 6) % 7}, () => undefined);
  for (let day = first; day < end; day = dayAfter(day)) cells.push(dayFrom(day, byDay.get(day) ?? [], today));
  while (cells.length % 7 !== 0) cells.push(undefined);
  return Array.from({length: cells.length / 7}, (_, week) => cells.slice(week * 7, week * 7 + 7));
}

/** dayFrom judges a day by its lines. */
export function dayFrom(day: string, lines: PoolGuarantees[], today: string): CalendarDay {
  return {day, lines, verdict: verdictOf(lines), part: partOf(lines), future: day > today};
}

/** PoolDays are the lines of a pool over a time, and those of its days. */
export interface PoolDays {
  pool: string;
  lines: PoolGuarantees[];
  days: CalendarDay[];
}

/** poolsOf groups a report by pool, in its order, with the days from first to last. */
export function poolsOf(whole: PoolGuarantees[], byDay: PoolGuarantees[], first: string, last: string, today: string): PoolDays[] {
  const dayLines = grouped(byDay, (line) => `${line.pool}\n${line.day}`);
  return [...grouped(whole, (line) => line.pool)].map(([pool, lines]) => {
    const days: CalendarDay[] = [];
    for (let day = first; day <= last && days.length < 400; day = dayAfter(day)) days.push(dayFrom(day, dayLines.get(`${pool}\n${day}`) ?? [], today));
    return {pool, lines, days};
  });
}

/** causesOf returns the causes of a line, the largest first. */
export function causesOf(line: PoolGuarantees): ShortCause[] {
  return [...line.causes].sort((a, b) => b.amount - a.amount || (a.cause < b.cause ? -1 : 1));
}

/** causeNames are all causes, in the order in which they take their parts. */
export const causeNames = [
  'scheduler_away', 'count_limit', 'own_limit', 'parent_limit', 'volume_empty', 'node_loss', 'oversold', 'share_withheld', 'filter_or_fragmentation', 'preemption_delay',
  'placing', 'unexplained',
] as const;

/** guaranteesTable returns the header and the rows of a report as weir report guarantees -o csv writes them. */
export function guaranteesTable(from: string, to: string, lines: PoolGuarantees[]): [string[], (string | number | null)[][]] {
  const header = ['from', 'to', 'tree', 'pool', 'resource', 'promised', 'asked', 'due', 'got', 'unclaimed', 'short', 'broken', 'kept', 'kept_time'];
  const rows = lines.map((line) => {
    const flow = line.flow;
    return [
      from, to, line.pool_tree, line.pool, line.resource, line.promised, line.asked, line.due, line.got, line.unclaimed, line.short, line.broken, line.kept, line.kept_time,
      ...causeNames.map((name) => line.causes.find((cause) => cause.cause === name)?.amount ?? 0), line.day ?? '',
      ...(flow ? [flow.flowed, flow.due, flow.got, flow.overflowed, flow.kept === null ? '' : String(flow.kept)] : ['', '', '', '', '']),
    ];
  });
  return [[...header, ...causeNames, 'day', 'flow', 'flow_due', 'flow_got', 'flow_overflowed', 'flow_kept'], rows];
}

