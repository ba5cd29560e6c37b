// What is wrong with a cluster, as far as the page can see. Where nothing is known, nothing is called well.

import {type Amounts, type Cluster, type Pool, type Resource, resources} from '../api/types';
import {rootName} from './tree';

export interface Shortfall {
  pool: string;
  resource: Resource;
  /** promised is the guarantee, asked what of it the pool demands, and got what it has of that. */
  promised: number;
  asked: number;
  got: number;
  /** cause: the nodes are too few for all guarantees; the pool's jobs have not started yet; or they wait, and the
   * pool starves. */
  cause: 'capacity' | 'waiting' | 'starving';
}

type Guaranteed = Pick<
  Pool,
  'strong_guarantee_resources' | 'effective_strong_guarantee_resources' | 'resource_usage' | 'resource_demand' | 'starvation_status' | 'is_ephemeral'
>;

// Nodes cannot be divided exactly, so a little less is as good as all.
const enough = 0.99;

/** shortfalls lists the strong guarantees that are not kept now, the largest shortfall first: a pool has less than
 * it asks for and was promised. It names the resource with the largest missing part. */
export function shortfalls(pools: Record<string, Guaranteed>): Shortfall[] {
  const found: Shortfall[] = [];
  for (const [pool, data] of Object.entries(pools)) {
    if (pool === rootName) continue;
    let worst: Shortfall | undefined;
    for (const resource of resources) {
      const of = (amounts: Amounts | undefined) => amounts?.[resource] ?? 0;
      const promised = of(data.strong_guarantee_resources);
      const asked = Math.min(promised, of(data.resource_demand));
      const got = Math.min(asked, of(data.resource_usage));
      if (promised <= 0 || got >= asked * enough) continue;
      const shrunk = of(data.effective_strong_guarantee_resources) < promised * enough;
      const starves = data.starvation_status !== 'non_starving';
      const one: Shortfall = {pool, resource, promised, asked, got, cause: shrunk ? 'capacity' : starves ? 'starving' : 'waiting'};
      if (!worst || got / asked < worst.got / worst.asked) worst = one;
    }
    if (worst) found.push(worst);
  }
  return found.sort((a, b) => a.got / a.asked - b.got / b.asked || (a.pool < b.pool ? -1 : 1));
}

/** shrunkOf lists the pools whose guarantees the present nodes cannot keep even if they were asked for. */
export function shrunkOf(pools: Record<string, Guaranteed>): string[] {
  return Object.entries(pools)
    .filter(([name, pool]) =>
      name !== rootName && resources.some((r) => (pool.effective_strong_guarantee_resources?.[r] ?? 0) < (pool.strong_guarantee_resources?.[r] ?? 0) * enough))
    .map(([name]) => name);
}

export interface IntegralShortfall {
  pool: string;
  kind: 'burst' | 'relaxed';
  /** asked is what the pool demands of its guarantee now, and got what it has of that, as shares of the tree. */
  asked: number;
  got: number;
  /** cause: its savings are spent; they can grow no further, so what it does not get is lost; guarantees leave it too
   * little; its jobs have not started yet; or they wait, and the pool starves. */
  cause: 'spent' | 'full' | 'capacity' | 'waiting' | 'starving';
}

type Integral = Pick<
  Pool,
  | 'integral_guarantee_type' | 'specified_burst_ratio' | 'specified_resource_flow_ratio' | 'accumulated_resource_ratio_volume'
  | 'integral_pool_capacity_ratio' | 'integral_smooth_period' | 'usage_ratio' | 'dominant_limited_demand_share' | 'detailed_dominant_fair_share' | 'starvation_status'
>;

/** integralShortfalls lists the integral guarantees that are not kept now, the largest shortfall first. A burst pool is
 * promised its burst guarantee above its strong one while it has savings. A relaxed pool may be left waiting as long
 * as it saves, so only one whose savings are full is listed. */
export function integralShortfalls(pools: Record<string, Integral>): IntegralShortfall[] {
  const found: IntegralShortfall[] = [];
  for (const [pool, data] of Object.entries(pools)) {
    const kind = data.integral_guarantee_type;
    if (kind !== 'burst' && kind !== 'relaxed') continue;
    const split = data.detailed_dominant_fair_share;
    const strong = split?.strong_guarantee ?? 0;
    const promised = (kind === 'burst' ? data.specified_burst_ratio : data.specified_resource_flow_ratio) ?? 0;
    const asked = Math.min(promised, (data.dominant_limited_demand_share ?? 0) - strong);
    const got = Math.max(0, Math.min(asked, data.usage_ratio - strong));
    if (asked <= 0 || got >= asked * enough) continue;
    const saved = data.accumulated_resource_ratio_volume ?? 0;
    const full = saved >= (data.integral_pool_capacity_ratio ?? Infinity) * enough;
    const entitled = (split?.integral_guarantee ?? 0) + (split?.weight_proportional ?? 0) >= asked * enough;
    if (kind === 'relaxed' && !full) continue;
    const affords = saved / Math.max(1, (data.integral_smooth_period ?? 0) / 1000);
    let cause: IntegralShortfall['cause'] = data.starvation_status !== 'non_starving' ? 'starving' : 'waiting';
    if (!entitled) cause = kind === 'relaxed' ? 'full' : affords < asked * enough ? 'spent' : 'capacity';
    found.push({pool, kind, asked, got, cause});
  }
  return found.sort((a, b) => a.got / a.asked - b.got / b.asked || (a.pool < b.pool ? -1 : 1));
}

export type Trouble = 'alerts' | 'reviving' | 'held_back' | 'offline' | 'no_nodes';

/** troublesOf returns what is wrong with the cluster as a whole. */
export function troublesOf(cluster: Cluster, alerts: number): Trouble[] {
  const found: Trouble[] = [];
  if (cluster.reviving) found.push('reviving');
  if ((cluster.held_back ?? []).length > 0) found.push('held_back');
  if (cluster.online_node_count === 0) found.push('no_nodes');
  else if (cluster.online_node_count < cluster.node_count) found.push('offline');
  if (alerts > 0) found.push('alerts');
  return found;
}
