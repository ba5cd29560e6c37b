import type {Amounts, Resource, SimulatedOperation, SimulatedPool, SimulationReport} from '../api/types';
import {resources} from '../api/types';

// Figures of a simulation, computed as in the report of weir simulate.

/** primaryOf returns the main resource of a report: GPU if the cluster was mostly used for GPUs, else
 * CPU. */
export function primaryOf(report: SimulationReport): Resource {
  const {utilisation, capacity} = report.cluster;
  if ((capacity.gpu ?? 0) > 0 && (utilisation.gpu ?? 0) > (utilisation.cpu ?? 0)) return 'gpu';
  return 'cpu';
}

/** usedResources returns the resources that jobs have used, the primary one first. It omits user slots,
 * which only repeat the number of jobs. */
export function usedResources(report: SimulationReport): Resource[] {
  const primary = primaryOf(report);
  return [primary, ...resources.filter((r) => r !== primary && r !== 'user_slots' && (report.cluster.used[r] ?? 0) > 0)];
}

/** averageOf converts an amount times seconds to an average amount. */
export function averageOf(report: SimulationReport, total: Amounts, resource: Resource): number {
  return report.seconds > 0 ? (total[resource] ?? 0) / report.seconds : 0;
}

/** keptOf returns the fraction of time in which a demanded guarantee was kept; undefined if it was never
 * demanded. */
export function keptOf(pool: SimulatedPool): number | undefined {
  const {demanding_seconds: demanding, below_seconds: below} = pool.guarantee;
  return demanding > 0 ? 1 - below / demanding : undefined;
}

/** waitOf returns how long an operation waited for its first job or, if longer, how long its jobs waited
 * on average, in seconds. */
export function waitOf(report: SimulationReport, operation: SimulatedOperation): number {
  if (operation.started < 0) return operation.finished >= 0 ? 0 : report.seconds - operation.arrived;
  return Math.max(operation.started - operation.arrived, operation.mean_wait);
}

/** troublesOf lists the operations that were rejected or failed and, if the run stalled, those that had not
 * finished. */
export function troublesOf(report: SimulationReport): string[] {
  return report.operations
    .filter((o) => o.state === 'rejected' || o.state === 'failed' || (report.stalled && o.finished < 0))
    .map((o) => `${o.state} ${o.name}${o.reason ? `: ${o.reason}` : ''}`);
}

/** timesOf returns the moments of the series, in seconds since the start. */
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
