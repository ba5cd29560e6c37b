import {describe, expect, it} from 'vitest';

import type {Cluster} from '../api/types';
import {integralShortfalls, shortfalls, shrunkOf, troublesOf} from './health';

const pool = (guarantee: number, effective: number, usage: number, demand: number, starvation = 'non_starving') => ({
  strong_guarantee_resources: {cpu: guarantee}, effective_strong_guarantee_resources: {cpu: effective}, resource_usage: {cpu: usage},
  resource_demand: {cpu: demand}, starvation_status: starvation, is_ephemeral: false,
});

describe('guarantees that are not kept', () => {
  it('are those of pools that ask for more than they have, with the cause', () =>
    expect(
      shortfalls({
        '<Root>': pool(10, 4, 1, 90),
        kept: pool(10, 10, 10, 50), modest: pool(10, 10, 2, 2), none: pool(0, 0, 0, 50), nearly: pool(10, 10, 9.95, 50), waits: pool(10, 10, 5, 50),
        starves: pool(10, 10, 0, 4, 'starving'), shrunk: pool(10, 6, 6, 50, 'starving'),
      }),
    ).toEqual([
      {pool: 'starves', resource: 'cpu', promised: 10, asked: 4, got: 0, cause: 'starving'},
      {pool: 'waits', resource: 'cpu', promised: 10, asked: 10, got: 5, cause: 'waiting'},
      {pool: 'shrunk', resource: 'cpu', promised: 10, asked: 10, got: 6, cause: 'capacity'},
    ]));

  it('may be broken although nobody asks for them yet', () => expect(shrunkOf({'<Root>': pool(10, 4, 0, 0), a: pool(10, 10, 0, 0), b: pool(10, 4, 0, 0)})).toEqual(['b']));
});

describe('integral guarantees that are not kept', () => {
  const integral = (kind: string, usage: number, entitled: number, volume: number, starvation = 'non_starving', strong = 0) => ({
    integral_guarantee_type: kind, specified_burst_ratio: kind === 'burst' ? 0.4 : undefined, specified_resource_flow_ratio: 0.1,
    accumulated_resource_ratio_volume: volume, integral_pool_capacity_ratio: 8640, integral_smooth_period: 60_000, usage_ratio: usage,
    dominant_limited_demand_share: 0.9, starvation_status: starvation,
    detailed_dominant_fair_share: {strong_guarantee: strong, integral_guarantee: entitled, weight_proportional: 0, total: strong + entitled},
  });

  it('are named with the cause', () =>
    expect(
      integralShortfalls({
        none: integral('none', 0, 0, 0), kept: integral('burst', 0.4, 0.4, 1000), above: integral('burst', 0.5, 0.3, 1000, 'non_starving', 0.1),
        spent: integral('burst', 0.1, 0.1, 6), crowded: integral('burst', 0.2, 0.2, 1000), waits: integral('burst', 0.3, 0.4, 1000),
        starves: integral('burst', 0, 0.4, 1000, 'starving'), saves: integral('relaxed', 0, 0, 100), full: integral('relaxed', 0, 0, 8640),
      }).map((one) => `${one.pool}: ${one.cause}, ${one.got} of ${one.asked}`),
    ).toEqual(['full: full, 0 of 0.1', 'starves: starving, 0 of 0.4', 'spent: spent, 0.1 of 0.4', 'crowded: capacity, 0.2 of 0.4', 'waits: waiting, 0.3 of 0.4']));

  it('are kept if the pool asks for no more', () =>
    expect(integralShortfalls({modest: {...integral('burst', 0.05, 0.05, 1000), dominant_limited_demand_share: 0.05}})).toEqual([]));
});

describe('a cluster', () => {
  const cluster = {reviving: false, held_back: [], online_node_count: 3, node_count: 3} as unknown as Cluster;
  it('is well only if nothing is wrong', () => expect(troublesOf(cluster, 0)).toEqual([]));
  it('has alerts, lost nodes and what a takeover holds back', () => {
    expect(troublesOf({...cluster, online_node_count: 2}, 1)).toEqual(['offline', 'alerts']);
    expect(troublesOf({...cluster, online_node_count: 0}, 0)).toEqual(['no_nodes']);
    expect(troublesOf({...cluster, reviving: true, held_back: [{}] as never}, 0)).toEqual(['reviving', 'held_back']);
  });
});
