import type {Job} from '../api/types';

// The CPU limit and usage of a running job change all the time. The server keeps a coarse history of each
// job; the page records the changes since it was opened in detail.

export interface CpuSample {
  /** at is in seconds. */
  at: number;
  /** limit is what the job is accounted for, usage its smoothed usage, both in cores. */
  limit: number;
  usage: number;
}

export interface CpuTrack {
  job: string;
  task: string;
  node: string;
  /** asked is the CPU limit with which the job was started. */
  asked: number;
  running: boolean;
  samples: CpuSample[];
}

const mostSamples = 900;
const mostJobs = 200;

/** historyOf reads the server's history of a job, up to a moment in seconds. */
export function historyOf(job: Job, until = Infinity): CpuSample[] {
  const history = job.cpu_history;
  if (!history) return [];
  const start = new Date(job.start_time).getTime() / 1000;
  return history.limit.flatMap((limit, i) => {
    const at = start + (i * history.step) / 1000;
    const usage = history.usage[i] ?? null;
    return limit === null || usage === null || at >= until ? [] : [{at, limit, usage}];
  });
}

/** trackOf returns the track of an ended job from the server's history. */
export function trackOf(job: Job): CpuTrack {
  return {job: job.id, task: job.task_name, node: job.address ?? '', asked: job.resources?.cpu ?? 0, running: false, samples: historyOf(job)};
}

/** CpuRecord holds the tracks of one operation's jobs. */
export class CpuRecord {
  readonly tracks = new Map<string, CpuTrack>();

  /** add records the current state. Jobs that are missing have ended. */
  add(jobs: Job[], now: number) {
    const seen = new Set<string>();
    for (const job of jobs) {
      if (job.state !== 'running' || !job.resources) continue;
      seen.add(job.id);
      let track = this.tracks.get(job.id);
      if (!track) {
        track = {job: job.id, task: job.task_name, node: job.address ?? '', asked: job.resources.cpu ?? 0, running: true, samples: historyOf(job, now)};
        this.tracks.set(job.id, track);
      }
      track.samples.push({at: now, limit: job.resource_usage?.cpu ?? track.asked, usage: job.brief_statistics?.smoothed_cpu ?? 0});
      if (track.samples.length > mostSamples) track.samples.splice(0, track.samples.length - mostSamples);
    }
    for (const track of this.tracks.values()) track.running = seen.has(track.job);
    for (const [id, track] of this.tracks) {
      if (this.tracks.size <= mostJobs) break;
      if (!track.running) this.tracks.delete(id);
    }
  }

  /** list returns running jobs first, then the newest ones. */
  list(): CpuTrack[] {
    return [...this.tracks.values()].reverse().sort((a, b) => Number(b.running) - Number(a.running));
  }
}

/** sumOf adds up the tracks at every moment with a sample. A sample of a job is valid until the next one;
 * the last one only while the job runs. */
export function sumOf(tracks: CpuTrack[]): CpuSample[] {
  const moments = [...new Set(tracks.flatMap((track) => track.samples.map((sample) => sample.at)))].sort((a, b) => a - b);
  const sums = moments.map((at) => ({at, limit: 0, usage: 0}));
  for (const {samples, running} of tracks) {
    let next = 0;
    for (const sum of sums) {
      while (next < samples.length && samples[next]!.at <= sum.at) next++;
      const holds = next > 0 && (running || next < samples.length || samples[next - 1]!.at === sum.at);
      if (!holds) continue;
      sum.limit += samples[next - 1]!.limit;
      sum.usage += samples[next - 1]!.usage;
    }
  }
  return sums;
}
