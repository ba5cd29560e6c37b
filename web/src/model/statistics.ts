// Job statistics are a tree whose leaves are summaries. An operation has them by state and type of job, under
// the key "$", which JSON writes as "$$"; a job has one summary per leaf.

export interface Summary {
  count: number;
  sum: number;
  min: number;
  max: number;
}

export interface Statistic {
  path: string;
  /** state is the state of the summarised jobs; empty for a single job. */
  state: string;
  summary: Summary;
}

function isSummary(value: unknown): value is Summary {
  return typeof value === 'object' && value !== null && 'count' in value && 'sum' in value;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function add(into: Summary | undefined, more: Summary): Summary {
  if (!into) return more;
  return {
    count: into.count + more.count, sum: into.sum + more.sum, min: Math.min(into.min, more.min), max: Math.max(into.max, more.max),
  };
}

/** statisticsOf lists the leaves by path and state, summed over job types. */
export function statisticsOf(tree: unknown): Statistic[] {
  const list: Statistic[] = [];
  const walk = (value: unknown, path: string[]) => {
    if (!isMap(value)) return;
    if (isSummary(value)) {
      list.push({path: path.join('/'), state: '', summary: value});
      return;
    }
    for (const [key, inner] of Object.entries(value)) {
      if (key !== '$' && key !== '$$') {
        walk(inner, [...path, key]);
        continue;
      }
      for (const [state, types] of Object.entries(isMap(inner) ? inner : {})) {
        let sum: Summary | undefined;
        for (const one of Object.values(isMap(types) ? types : {})) if (isSummary(one)) sum = add(sum, one);
        if (sum) list.push({path: path.join('/'), state, summary: sum});
      }
    }
  };
  walk(tree, []);
  return list.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.state < b.state ? -1 : 1));
}

/** wholeOf sums a statistic over all job states. */
export function wholeOf(list: Statistic[], path: string): Summary | undefined {
  let sum: Summary | undefined;
  for (const one of list) if (one.path === path) sum = add(sum, one.summary);
  return sum;
}

export type Unit = 'bytes' | 'milliseconds' | 'hundredths' | 'number';

/** unitOf returns the unit of a statistic, by its name. */
export function unitOf(path: string): Unit {
  if (/_x100$/.test(path)) return 'hundredths';
  if (/(^|\/)time\/|cpu\/(user|system|wait)$/.test(path)) return 'milliseconds';
  if (/memory(_limit|_reserve)?$|max_memory$/.test(path) && !/cumulative/.test(path)) return 'bytes';
  return 'number';
}

/** StatisticRow is a line of the tree: a branch, or a leaf with figures. */
export interface StatisticRow {
  key: string;
  path: string;
  name: string;
  depth: number;
  /** open is undefined for leaves. */
  open: boolean | undefined;
  leaf?: Statistic;
}

/** statisticRows lists the leaves as a tree, each branch before its contents; a collapsed branch hides
 * them. A name that is both a branch and a leaf appears twice. */
export function statisticRows(list: Statistic[], isFolded: (path: string) => boolean): StatisticRow[] {
  const rows: StatisticRow[] = [];
  const made = new Set<string>();
  for (const leaf of list) {
    const parts = leaf.path.split('/');
    let hidden = false;
    for (let depth = 0; depth < parts.length - 1 && !hidden; depth++) {
      const path = parts.slice(0, depth + 1).join('/');
      const open = !isFolded(path);
      if (!made.has(path)) {
        made.add(path);
        rows.push({key: `b:${path}`, path, name: parts[depth]!, depth, open});
      }
      hidden = !open;
    }
    if (hidden) continue;
    rows.push({key: `l:${leaf.path} ${leaf.state}`, path: leaf.path, name: parts[parts.length - 1]!, depth: parts.length - 1, open: undefined, leaf});
  }
  return rows;
}
