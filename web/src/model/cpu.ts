import type {Job} from '../api/types';

// What a running job is allowed and uses of CPU changes all the time, and the server tells only
// what is now. The page keeps what it has seen while the page of the operation was open.

export interface CpuSample {
  /** at is in seconds. */
  at: number;
  /** limit is what the job is counted with, usage what it uses, smoothed; cores. */
  limit: number;
  usage: number;
}

export interface CpuTrack {
  job: string;
  task: string;
  node: string;
  /** asked is what the job was started with. */
  asked: number;
  running: boolean;
  samples: CpuSample[];
}

const mostSamples = 900;
const mostJobs = 200;

/** CpuRecord is what was seen of the jobs of one operation. */
export class CpuRecord {
  readonly tracks = new Map<string, CpuTrack>();

  /** add takes what is now. Jobs that are no longer there have ended. */
  add(jobs: Job[], now: number) {
    const seen = new Set<string>();
    for (const job of jobs) {
      if (job.state !== 'running' || !job.resources) continue;
      seen.add(job.id);
      let track = this.tracks.get(job.id);
      if (!track) {
        track = {job: job.id, task: job.task_name, node: job.address ?? '', asked: job.resources.cpu ?? 0, running: true, samples: []};
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

  /** list has those that run first, then the newest. */
  list(): CpuTrack[] {
    return [...this.tracks.values()].reverse().sort((a, b) => Number(b.running) - Number(a.running));
  }
}

/** sumOf adds the tracks up, moment by moment. */
export function sumOf(tracks: CpuTrack[]): CpuSample[] {
  const sums = new Map<number, CpuSample>();
  for (const track of tracks) {
    for (const {at, limit, usage} of track.samples) {
      const sum = sums.get(at) ?? {at, limit: 0, usage: 0};
      sum.limit += limit;
      sum.usage += usage;
      sums.set(at, sum);
    }
  }
  return [...sums.values()].sort((a, b) => a.at - b.at);
}
