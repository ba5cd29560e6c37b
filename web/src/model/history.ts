import type {History, Resource} from '../api/types';

export interface Frame {
  times: number[];
  /** line returns the values of a series, null where it has none; undefined if there is no such series. */
  line: (name: string, resource: Resource | null) => (number | null)[] | undefined;
}

// A pause of so many usual distances between points is a gap.
const missed = 3;

/** frameOf aligns all series on one time axis in seconds. Where nothing was recorded for a while, as when no
 * scheduler led, the axis has a moment at which no series has a value, so that charts draw a gap. */
export function frameOf(data: History): Frame {
  const measured = new Set<number>();
  for (const series of data.series) for (const [time] of series.points) measured.add(new Date(time).getTime() / 1000);
  const times = withGaps([...measured].sort((a, b) => a - b), data.step / 1000);
  const at = new Map(times.map((time, index) => [time, index]));
  return {
    times,
    line: (name, resource) => {
      const series = data.series.find((s) => s.name === name && s.resource === resource);
      if (!series) return undefined;
      const values: (number | null)[] = new Array(times.length).fill(null);
      for (const [time, average] of series.points) values[at.get(new Date(time).getTime() / 1000)!] = average;
      return values;
    },
  };
}

/** withGaps adds a moment inside each pause that is longer than the usual distance between sorted times. */
export function withGaps(times: number[], step: number): number[] {
  const distances = times.slice(1).map((time, i) => time - times[i]!);
  const usual = [...distances].sort((a, b) => a - b)[Math.floor(distances.length / 2)] ?? step;
  const longest = missed * Math.max(step, usual);
  return times.flatMap((time, i) => ((distances[i] ?? 0) > longest ? [time, time + Math.max(step, usual)] : [time]));
}
