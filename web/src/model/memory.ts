import type {Job} from '../api/types';
import {statisticsOf, wholeOf} from './statistics';

// The scheduler chooses the memory reserve of a job by a digest: for the completed jobs of a task it counts
// the largest used fraction of the limit, in buckets that grow by a constant factor, and takes a high
// quantile. The page counts the same jobs the same way.

/** UseOfMemory is what one ended job was given and used. */
export interface UseOfMemory {
  task: string;
  limit: number;
  reserve: number;
  used: number;
}

/** usesOf reads the jobs that report their usage. Jobs that were cut short report too little. */
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
  /** from and to are fractions of the limit. */
  from: number;
  to: number;
  count: number;
}

/** topOf returns the upper end of a histogram that shows everything: a tenth, a quarter, a half or all of
 * the limit. */
export function topOf(parts: number[]): number {
  const most = Math.max(0, ...parts.filter(Number.isFinite));
  return [0.1, 0.25, 0.5].find((top) => most * 1.1 <= top) ?? 1;
}

/** histogram counts fractions of the limit between 0 and top in equal bars; larger ones are in the last
 * bar. */
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
  /** limit, reserve and used are averages per job, in bytes. */
  limit: number;
  reserve: number;
  used: number;
  /** above is the number of jobs that used more than their reserve. */
  above: number;
}

/** savingsOf compares the reserves of jobs with their limits and their usage. */
export function savingsOf(uses: UseOfMemory[]): Savings | undefined {
  if (uses.length === 0) return undefined;
  const mean = (of: (use: UseOfMemory) => number) => uses.reduce((sum, use) => sum + of(use), 0) / uses.length;
  return {
    jobs: uses.length, limit: mean((u) => u.limit), reserve: mean((u) => u.reserve), used: mean((u) => u.used),
    above: uses.filter((u) => u.used > u.reserve).length,
  };
}
