import type {Amounts, Resource, SimulatedOperation, SimulatedPool, SimulationReport} from '../api/types';
import {resources} from '../api/types';

// Figures of a simulation, as the report of weir simulate reckons them.

/** primaryOf is the resource that a report is about: GPUs where the cluster was mostly used for them, else CPU. */
export function primaryOf(report: SimulationReport): Resource {
  const {utilisation, capacity} = report.cluster;
  if ((capacity.gpu ?? 0) > 0 && (utilisation.gpu ?? 0) > (utilisation.cpu ?? 0)) return 'gpu';
  return 'cpu';
}

/** usedResources are those that jobs have used, the primary one first. User slots only repeat how many jobs there are. */
export function usedResources(report: SimulationReport): Resource[] {
  const primary = primaryOf(report);
  return [primary, ...resources.filter((r) => r !== primary && r !== 'user_slots' && (report.cluster.used[r] ?? 0) > 0)];
}

/** averageOf makes of an amount times seconds an amount. */
export function averageOf(report: SimulationReport, total: Amounts, resource: Resource): number {
  return report.seconds > 0 ? (total[resource] ?? 0) / report.seconds : 0;
}

/** keptOf is the part of the time in which a guarantee that was asked for was kept; undefined if it never was. */
export function keptOf(pool: SimulatedPool): number | undefined {
  const {demanding_seconds: demanding, below_seconds: below} = pool.guarantee;
  return demanding > 0 ? 1 - below / demanding : undefined;
}

/** waitOf is how long an operation waited for its first job or, where that is longer, its jobs on average; seconds. */
export function waitOf(report: SimulationReport, operation: SimulatedOperation): number {
  if (operation.started < 0) return operation.finished >= 0 ? 0 : report.seconds - operation.arrived;
  return Math.max(operation.started - operation.arrived, operation.mean_wait);
}

/** troublesOf says which operations were rejected or failed, or could not start where the run was ended for that. */
export function troublesOf(report: SimulationReport): string[] {
  return report.operations
    .filter((o) => o.state === 'rejected' || o.state === 'failed' || (report.stalled && o.finished < 0))
    .map((o) => `${o.state} ${o.name}${o.reason ? `: ${o.reason}` : ''}`);
}

/** timesOf are the moments of the series, in seconds since the start. */
export function timesOf(report: SimulationReport, count: number): number[] {
  return Array.from({length: count}, (_, i) => i * report.series.step);
}

/** elapsed prints a moment of a run. */
export function elapsed(seconds: number): string {
  const [days, rest] = [Math.floor(seconds / 86400), seconds % 86400];
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  const clock = `${two(rest / 3600)}:${two((rest % 3600) / 60)}${rest % 60 >= 1 ? `:${two(rest % 60)}` : ''}`;
  return days > 0 ? `${days}d ${clock}` : clock;
}
