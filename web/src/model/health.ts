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
