import type {Job} from '../api/types';

export interface Span {
  job: Job;
  start: number;
  end: number;
}

/** layOut assigns jobs to as few lanes as possible; running jobs end now. */
export function layOut(jobs: Job[], now: number): {from: number; until: number; lanes: Span[][]} {
  const lanes: Span[][] = [];
  let [from, until] = [Infinity, -Infinity];
  const spans = jobs.map((job) => {
    const start = new Date(job.start_time).getTime();
    const end = Math.max(start, job.finish_time ? new Date(job.finish_time).getTime() : now);
    return {job, start, end};
  });
  spans.sort((a, b) => a.start - b.start || (a.job.id < b.job.id ? -1 : 1));
  for (const span of spans) {
    from = Math.min(from, span.start);
    until = Math.max(until, span.end);
    const free = lanes.find((lane) => lane[lane.length - 1]!.end <= span.start);
    if (free) free.push(span);
    else lanes.push([span]);
  }
  return {from, until, lanes};
}
