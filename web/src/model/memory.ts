import type {Job} from '../api/types';
import {statisticsOf, wholeOf} from './statistics';

// The scheduler chooses how much memory to keep for a job by a digest: it counts, for jobs of a
// task that ran to their end, which part of the limit they used at most, in buckets that grow by a
// constant factor, and takes a high quantile. The page counts the same jobs the same way.

/** UseOfMemory is what one ended job had and used. */
export interface UseOfMemory {
  task: string;
  limit: number;
  reserve: number;
  used: number;
}

/** usesOf reads jobs that say what they used. Jobs that were cut short say too little. */
export function usesOf(jobs: Job[]): UseOfMemory[] {
  return jobs.flatMap((job) => {
    if (job.state !== 'completed') return [];
    const list = statisticsOf(job.statistics);
    const figure = (path: string) => wholeOf(list, path)?.max;
    const [limit, used] = [figure('user_job/memory_limit'), figure('user_job/max_memory')];
    if (!limit || used === undefined) return [];
    return [{task: job.task_name, limit, used, reserve: figure('user_job/memory_reserve') ?? limit}];
  });
}

export interface Bar {
  /** from and to are parts of the limit. */
  from: number;
  to: number;
  count: number;
}

/** topOf is where a histogram ends so that everything in it can be seen: a tenth, a quarter, a half or all of the limit. */
export function topOf(parts: number[]): number {
  const most = Math.max(0, ...parts.filter(Number.isFinite));
  return [0.1, 0.25, 0.5].find((top) => most * 1.1 <= top) ?? 1;
}

/** histogram counts parts of the limit between 0 and the top in equal bars; what is above is in the last one. */
export function histogram(parts: number[], top = 1, bars = 20): Bar[] {
  const list: Bar[] = Array.from({length: bars}, (_, i) => ({from: (i / bars) * top, to: ((i + 1) / bars) * top, count: 0}));
  for (const part of parts) {
    if (!Number.isFinite(part) || part < 0) continue;
    list[Math.min(bars - 1, Math.floor((part / top) * bars))]!.count++;
  }
  return list;
}

export interface Savings {
  jobs: number;
  /** limit, reserve and used are averages of a job, in bytes. */
  limit: number;
  reserve: number;
  used: number;
  /** above is how many jobs used more than was kept for them. */
  above: number;
}

/** savingsOf compares what was kept for jobs with their limits and what they used. */
export function savingsOf(uses: UseOfMemory[]): Savings | undefined {
  if (uses.length === 0) return undefined;
  const mean = (of: (use: UseOfMemory) => number) => uses.reduce((sum, use) => sum + of(use), 0) / uses.length;
  return {
    jobs: uses.length, limit: mean((u) => u.limit), reserve: mean((u) => u.reserve), used: mean((u) => u.used),
    above: uses.filter((u) => u.used > u.reserve).length,
  };
}
